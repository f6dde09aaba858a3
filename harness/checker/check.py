"""What a check is: a name, what it can find, what it needs, and a function from a history to a DataFrame of what it found.

Each check works in two steps. The *screen* is one pass over narrow, fixed-width columns (hashes instead of strings) that keeps suspects only; a clean
history ends there. The *explanation* joins the few suspects back to the records, settles them by their true values (so that a hash
collision can never accuse anybody) and writes the sentence. Two different values of one 64-bit hash would hide a conflict between just these two:
a chance of 5e-20 per pair, which is accepted.

A finding (FINDINGS) is an anomaly without what the judge adds: the check's name, the faults at work, whether it is tolerated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from harness.checker.anomalies import AnomalyType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from harness.checker.history import History

FINDINGS = (
    "run string, type string, severity string, sentence string, topic string, partition int, offset long, value string, "
    "ops array<long>, from_ns long, to_ns long, expected boolean, detail string"
)


class Need(StrEnum):
    """What has to be in a history for a check to say anything."""

    ACKNOWLEDGED = "acknowledged records with offsets"
    READ = "records that were read"
    SENT = "records that were sent"
    FAULTS = "faults"
    BOUNDS = "end offsets asked for"


Find = Callable[["History"], "DataFrame | None"]  # FINDINGS; None: nothing found


@dataclass(frozen=True, kw_only=True)
class Check:
    kind: AnomalyType
    engine: str
    needs: Need  # the rows it looks at; without any it has nothing to say
    find: Find

    @property
    def name(self) -> str:
        return self.kind.name


def finding(
    kind: AnomalyType,
    sentence: Column,
    *,
    ops: list[Column],
    since: Column,
    until: Column,
    offset: Column,
    value: Column,
    detail: Sequence[Column] = (),
    severity: Column | None = None,
    expected: Column | None = None,
) -> list[Column]:
    """The columns of one finding, for a frame that has run, topic, partition and the LOGS columns of its log.

    `ops`: op ids that prove it, the most telling first, nulls are left out. `since`, `until`: nanoseconds between which it happened.
    """
    from pyspark.sql import functions as F

    reason = F.col("loss_reason") if kind.follows_loss else F.lit(None).cast("string")
    return [
        F.col("run"),
        F.lit(kind.name).alias("type"),
        (severity if severity is not None else F.lit(str(kind.severity))).alias("severity"),
        sentence.alias("sentence"),
        F.col("topic"),
        F.col("partition"),
        offset.cast("long").alias("offset"),
        value.cast("string").alias("value"),
        F.array_distinct(F.array_compact(F.array(*ops))).alias("ops"),
        since.cast("long").alias("from_ns"),
        until.cast("long").alias("to_ns"),
        F.coalesce(reason.isNotNull() | expected if expected is not None else reason.isNotNull(), F.lit(False)).alias(
            "expected"
        ),
        F.to_json(F.struct(reason.alias("expected_because"), *detail)).alias("detail"),
    ]
