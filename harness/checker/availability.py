"""How long a fault kept clients waiting: from the moment its effect was proved to the first success of an op that was invoked afterwards.

Per partition, and the one that waited longest counts: with three brokers two thirds of the partitions never notice that one was killed. A write is an
acknowledged send, a read is a poll that returned records of the partition. Information; a violation only where the spec sets a bound
(`unavailable_bound`, for writes).

One pass: successes are first reduced to one row per partition and tenth of a second, except in those tenths in which a fault took effect; then
faults and successes are sorted together, and a running minimum from the end gives each fault its first success.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from harness.checker.anomalies import UNAVAILABLE
from harness.checker.check import Check, Need, finding
from harness.checker.history import History
from harness.checker.sentences import log_name, seconds, text

_TENTH_NS = 100_000_000
_SUCCESS = "outcome = 'ok' and completed_ns is not null and phase = 'main' and (kind = 'send' or offset is not null)"


class Wait(NamedTuple):
    """Of one fault: seconds until writes and reads succeeded again, on the partition that waited longest; None: not before the faults ended."""

    writes: float | None
    reads: float | None


def waits(history: History) -> dict[tuple[str, int], Wait]:
    """(run, fault) -> Wait, of all faults that took effect in runs with any success."""
    rows = (
        _by_partition(history)
        .groupBy("run", "fault")
        .agg(
            *[
                F.expr(
                    f"if(count_if({side} and first is null) > 0, null, max(if({side}, first - proved_ns, null)))"
                ).alias(name)
                for name, side in _SIDES.items()
            ]
        )
    )
    return {(row["run"], row["fault"]): Wait(_s(row["writes"]), _s(row["reads"])) for row in rows.collect()}


_SIDES = {"writes": "write", "reads": "not write"}


def unavailable(history: History) -> DataFrame | None:
    """Partitions that took longer than the bound to accept a write, where the spec sets one."""
    if all(run.settings.unavailable_bound is None for run in history.runs.values()):
        return None
    late = history.known(_by_partition(history).where("write")).where(
        "coalesce(first, last_send_ns) - proved_ns > unavailable_bound * 1e9"
    )
    suspects = history.suspects(late)
    if suspects is None:
        return None
    return suspects.select(
        *finding(
            UNAVAILABLE,
            text(
                "After {name} took effect at {when}, {log} accepted no write {until}; the spec allows {bound} s.",
                name=F.col("name"),
                when=seconds("proved_ns"),
                log=log_name(),
                until=F.coalesce(
                    F.concat(
                        F.lit("for "),
                        F.format_string("%.1f", (F.col("first") - F.col("proved_ns")) / F.lit(1e9)),
                        F.lit(" s"),
                    ),
                    F.lit("any more"),
                ),
                bound=F.col("unavailable_bound"),
            ),
            ops=[F.lit(None).cast("long")],
            since=F.col("proved_ns"),
            until=F.col("first"),
            offset=F.lit(None),
            value=F.lit(None),
            detail=[F.col("fault")],
        )
    )


def _by_partition(history: History) -> DataFrame:
    """run, fault, name, proved_ns, log, topic, partition, write, first: when the first write (or read) invoked after the proof completed; null: none did."""
    return history.once("waits", _waits)


def _waits(history: History) -> DataFrame:
    struck = history.faults.where("proved_ns is not null").selectExpr("run", "fault", "name", "proved_ns")
    successes = history.records.where(_SUCCESS).selectExpr(
        "run",
        "log",
        "kind = 'send' as write",
        "invoked_ns",
        "completed_ns",
        f"cast(floor(invoked_ns / {_TENTH_NS}) as long) as tenth",
    )
    tenths = struck.selectExpr("run", f"cast(floor(proved_ns / {_TENTH_NS}) as long) as tenth").distinct()
    exact = successes.join(F.broadcast(tenths), ["run", "tenth"], "left_semi").selectExpr(
        "log", "write", "invoked_ns as at", "completed_ns as done"
    )
    coarse = (
        successes.join(F.broadcast(tenths), ["run", "tenth"], "left_anti")
        .groupBy("log", "write", "tenth")
        .agg(F.min("completed_ns").alias("done"))
    )
    coarse = coarse.selectExpr("log", "write", f"tenth * {_TENTH_NS} as at", "done")
    active = successes.select("run", "log", "write").distinct()
    marks = struck.join(active, "run").withColumnRenamed("proved_ns", "at")
    nothing = {name: F.lit(None) for name in ("fault", "name", "run")}
    line = marks.withColumn("done", F.lit(None).cast("long")).unionByName(
        exact.unionByName(coarse).withColumns(nothing)
    )
    after = (
        Window.partitionBy("log", "write")
        .orderBy(F.desc("at"), F.col("fault").isNotNull())
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    found = (
        line.withColumn("first", F.min("done").over(after))
        .where("fault is not null")
        .withColumnRenamed("at", "proved_ns")
    )
    places = history.logs.select("log", "topic", "partition")
    return found.select("run", "fault", "name", "proved_ns", "log", "write", "first").join(F.broadcast(places), "log")


def _s(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e9


CHECK = Check(kind=UNAVAILABLE, engine="spark-sql", needs=Need.FAULTS, find=unavailable)
