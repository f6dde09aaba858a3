"""What one process reads of a log only goes forward, and misses nothing that is there.

Kafka promises this to one reader whose position is not moved. Workloads start a new process whenever a position is
moved (rebalance, reset, error), so the walks are per process; a step with an assign or subscribe op of the process in
between is left out all the same. Only polls that succeeded count.

    offsets of one process in one log:   4 5 6 | 9 10 | 10 11
                                               |      `- 10 after 10: nonmonotonic-poll
                                               `- 7 or 8 is in the log: poll-skip; neither (control records, compaction, expired): fine

"In the log" means: the final read found it; where there was no complete final read: it was acknowledged or read by
anybody. So a record that was lost is reported as lost, not as skipped by everyone after. The final read itself is not
asked for skips: what it misses is what loss.py is about.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from harness.checker.anomalies import NONMONOTONIC_POLL, POLL_SKIP, AnomalyType
from harness.checker.check import Check, Need, Search, finding
from harness.checker.history import History
from harness.checker.sentences import log_name, process, seconds, text

_WALK = "xxhash64(run, process, topic, partition)"


def steps(history: History) -> DataFrame:
    """Pairs of consecutive reads of one process in one log that are not offset after offset; kept, since two checks read it."""
    return history.once(_steps)


def _steps(history: History) -> DataFrame:
    walk = Window.partitionBy("walk").orderBy("invoked_ns", "op", "position")
    reads = history.records.where("kind = 'poll' and outcome = 'ok' and offset is not null").selectExpr(
        f"{_WALK} as walk",
        "log",
        "process",
        "op",
        "position",
        "offset",
        "invoked_ns",
        "completed_ns",
        "phase = 'final' as final",
    )
    return history.keep(
        reads.withColumns({f"before_{name}": F.lag(name).over(walk) for name in ("offset", "op", "completed_ns")})
        .where("offset <> before_offset + 1")
        .drop("walk", "position")
    )


def nonmonotonic_polls(history: History, suspects: DataFrame) -> DataFrame:
    """Steps backwards, or on the spot."""
    return _explained(
        history,
        suspects,
        NONMONOTONIC_POLL,
        "{who} read offset {offset} of {log} at {when}, after it had already read offset {before} at {then}.",
    )


def poll_skips(history: History, suspects: DataFrame) -> DataFrame:
    """Steps over records that are in the log."""
    gaps = history.known(suspects).where("not compacted").select(*suspects.columns)
    numbered = _numbered(history, gaps)
    ahead = numbered.selectExpr("log", "offset", "below")
    behind = numbered.selectExpr("log", "offset as before_offset", "below + present as up_to")
    skips = (
        gaps.join(ahead, ["log", "offset"])
        .join(behind, ["log", "before_offset"])
        .withColumn("skipped", F.expr("below - up_to"))
        .where("skipped > 0")
        .drop("below", "up_to")
    )
    return _explained(
        history,
        skips,
        POLL_SKIP,
        "{who} read offset {offset} of {log} at {when} right after offset {before}, and passed over {skipped} of the log's records.",
    )


_PRESENT = """
case
    when complete_to is null then 1
    when offset < log_start or offset >= log_end then 0
    when offset < complete_to then cast(final_min is not null as int)
    else 1
end
"""


def _numbered(history: History, suspects: DataFrame) -> DataFrame:
    """Every known offset of the suspects' logs: whether its record is `present` in the log, and how many are `below` it."""
    logs = F.broadcast(suspects.select("log").distinct())
    below = Window.partitionBy("log").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    return (
        history.known(history.ledger.join(logs, "log", "left_semi"))
        .selectExpr("log", "offset", f"{_PRESENT} as present")
        .withColumn("below", F.coalesce(F.sum("present").over(below), F.lit(0)))
    )


def _explained(history: History, found: DataFrame, kind: AnomalyType, sentence: str) -> DataFrame:
    moves = history.ops.where("kind in ('assign', 'subscribe')").selectExpr("run", "process", "invoked_ns as moved_ns")
    known = history.known(found)
    unmoved = known.join(
        moves,
        (known["run"] == moves["run"])
        & (known["process"] == moves["process"])
        & (moves["moved_ns"] >= known["before_completed_ns"])
        & (moves["moved_ns"] <= known["invoked_ns"]),
        "left_anti",
    )
    named = unmoved.join(_clients(history, found), ["log", "op", "offset"], "left")
    skipped = F.col("skipped") if "skipped" in found.columns else F.lit(0)
    return named.select(
        *finding(
            kind,
            text(
                sentence,
                who=process("process", "client"),
                offset=F.col("offset"),
                log=log_name(),
                when=seconds("completed_ns"),
                before=F.col("before_offset"),
                then=seconds("before_completed_ns"),
                skipped=skipped,
            ),
            ops=[F.col("op"), F.col("before_op")],
            since=F.col("before_completed_ns"),
            until=F.col("completed_ns"),
            offset=F.col("offset"),
            value=F.col("value"),
            detail=[F.col("process"), F.col("before_offset")],
        )
    )


def _clients(history: History, found: DataFrame) -> DataFrame:
    wanted = found.select("log", "op", "offset").distinct()
    reads = history.records.where("kind = 'poll'").join(wanted, ["log", "op", "offset"], "left_semi")
    return reads.groupBy("log", "op", "offset").agg(F.min("client").alias("client"), F.min("value").alias("value"))


CHECKS = (
    Check(
        kind=NONMONOTONIC_POLL,
        engine="spark-sql",
        needs=Need.READ,
        searches=(Search(table=steps, suspect="offset <= before_offset", explain=nonmonotonic_polls),),
    ),
    Check(
        kind=POLL_SKIP,
        engine="spark-sql",
        needs=Need.READ,
        searches=(Search(table=steps, suspect="offset > before_offset + 1 and not final", explain=poll_skips),),
    ),
)
