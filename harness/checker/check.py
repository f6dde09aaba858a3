"""What a check is: what it can find, what it needs, and one or more searches.

A search has two steps. The *screen* is a condition on the rows of a table that several searches share (history.py:
ledger, sightings, ...), made of narrow, fixed-width columns with hashes instead of strings; all screens of a table are
counted in one pass, and a clean history ends there. The *explanation* joins the few suspects back to the records,
settles them by their true values (so that a hash collision can never accuse anybody) and writes the sentences. Two
different values of one 64-bit hash would hide a conflict between just these two: a chance of 5e-20 per pair, which is
accepted.

What is told by small tables (events, the metadata log, bounds) needs no Spark: such a check has a `tell` instead.

A finding (FINDINGS) is an anomaly without what the judge adds: the check's name, the faults at work, whether it is
tolerated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from harness.checker.anomalies import AnomalyType
from reports.verdict import Severity

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from harness.checker.history import History

Row = dict[str, Any]
FINDINGS = (
    "run string, type string, severity string, sentence string, topic string, partition int, offset long, value string, "
    "ops array<long>, from_ns long, to_ns long, expected boolean, detail string"
)


class Need(StrEnum):
    """The rows that a check looks at, in words."""

    ACKNOWLEDGED = "acknowledged records with offsets"
    READ = "records that were read"
    FAULTS = "faults that took effect"
    BOUNDS = "end offsets that were asked for"
    TRANSACTIONS = "transactions whose readers have read_committed"
    ANY_TRANSACTIONS = "transactions"
    GROUPS = "positions of consumer groups"
    STABLE_ENDS = "last stable offsets that were asked for"
    CLAIMS = "controllers that said they are the active one"
    REPLICAS = "partitions whose ISR was seen at the end"
    METADATA = "records of the metadata log"


@dataclass(frozen=True, kw_only=True)
class Search:
    table: Callable[[History], DataFrame | None]  # None: there is nothing to look at, which was cheap to see
    suspect: str  # SQL condition on its rows
    explain: Callable[[History, DataFrame], DataFrame]  # the suspects, few or marked for a shuffle -> FINDINGS


@dataclass(frozen=True, kw_only=True)
class Check:
    kind: AnomalyType
    engine: str
    needs: Need  # without any such rows it has nothing to say
    searches: tuple[Search, ...] = ()
    tell: Callable[[History], Iterable[Row]] | None = None  # findings without Spark (plain_finding)
    optional: bool = False  # asked only of runs that have such rows; it has nothing to say about the others

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
    because: Column | None = None,
) -> list[Column]:
    """The columns of one finding, for a frame that has run, topic, partition and the LOGS columns of its log.

    `because`: the setting that makes it expected, null where none does; what makes loss possible is known already.

    `ops`: op ids that prove it, the most telling first, nulls are left out. `since`, `until`: nanoseconds between which
    it happened; `until` null: until the end. `detail`: named columns.
    """
    from pyspark.sql import functions as F

    reason = F.lit(None).cast("string") if because is None else because
    if kind.follows_loss:
        reason = F.coalesce(reason, "loss_reason")
    return [
        F.col("run"),
        F.lit(kind.name).alias("type"),
        (F.lit(str(kind.severity)) if severity is None else severity).alias("severity"),
        sentence.alias("sentence"),
        F.col("topic"),
        F.col("partition"),
        offset.cast("long").alias("offset"),
        value.cast("string").alias("value"),
        F.array_distinct(F.array_compact(F.array(*ops))).alias("ops"),
        since.cast("long").alias("from_ns"),
        until.cast("long").alias("to_ns"),
        reason.isNotNull().alias("expected"),
        F.to_json(F.struct(reason.alias("expected_because"), *detail)).alias("detail"),
    ]


def plain_finding(
    kind: AnomalyType,
    *,
    run: str,
    sentence: str,
    since: int | None,
    until: int | None,
    topic: str | None = None,
    partition: int | None = None,
    offset: int | None = None,
    value: str | None = None,
    ops: Iterable[int] = (),
    severity: Severity | None = None,
    expected_because: str | None = None,
    detail: Mapping[str, Any] | None = None,
) -> Row:
    """The same from plain Python: one FINDINGS row."""
    return {
        "run": run,
        "type": kind.name,
        "severity": str(severity or kind.severity),
        "sentence": sentence,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "value": value,
        "ops": list(dict.fromkeys(ops)),
        "from_ns": since,
        "to_ns": until,
        "expected": expected_because is not None,
        "detail": json.dumps({"expected_because": expected_because, **(detail or {})}),
    }
