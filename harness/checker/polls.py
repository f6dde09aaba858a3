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
from harness.checker.ranges import Reduce, at
from harness.checker.sentences import log_name, process, seconds, text

_WALK = "xxhash64(run, process, topic, partition)"


def steps(history: History) -> DataFrame:
    """Pairs of consecutive reads of one process in one log that are not offset after offset; kept, since two checks read it."""
    return history.once(_steps)


def _steps(history: History) -> DataFrame:
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
    hops = reads.withColumn("last", F.col("offset")) if history.bits is None else _hops(history, reads)
    walk = Window.partitionBy("walk").orderBy("invoked_ns", "op", "position")
    before = {"before_offset": "last", "before_op": "op", "before_completed_ns": "completed_ns"}
    return history.keep(
        hops.withColumns({name: F.lag(column).over(walk) for name, column in before.items()})
        .where("offset <> before_offset + 1")
        .drop("walk", "position", "last")
    )


_STRAIGHT = """
slope = high_slope and rows = high - low + 1 and 2 * places = rows * (low + high)
and completed_ns = latest_ns and final = any_final and process = other and log = other_log
"""


def _hops(history: History, reads: DataFrame) -> DataFrame:
    """Reads with one row for all records of a poll that are offset after offset (`offset` to `last`): a long walk has few steps then.

    Positions of a poll are distinct, so as many records as positions from the lowest to the highest, each as far from its
    offset, are one after the other. Polls that are not like that keep a row per record.
    """
    poll = ["walk", "invoked_ns", "op"]
    polls = history.keep(
        reads.groupBy(*poll)
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.min("position").cast("long").alias("low"),
            F.max("position").cast("long").alias("high"),
            F.sum("position").alias("places"),
            F.expr("min(offset - position)").alias("slope"),
            F.expr("max(offset - position)").alias("high_slope"),
            F.min("completed_ns").alias("completed_ns"),
            F.max("completed_ns").alias("latest_ns"),
            F.min("final").alias("final"),
            F.max("final").alias("any_final"),
            F.min("process").alias("process"),
            F.max("process").alias("other"),
            F.min("log").alias("log"),
            F.max("log").alias("other_log"),
        )
        .withColumn("straight", F.expr(f"coalesce({_STRAIGHT}, false)"))
    )
    crooked = polls.where("not straight").select(*poll)
    straight = polls.where("straight").selectExpr(
        *[column for column in reads.columns if column not in ("offset", "position")],
        "cast(low as int) as position",
        "low + slope as offset",
        "high + slope as last",
    )
    rows = crooked.count()
    if not rows:
        return straight
    single = reads.join(history.few(crooked, rows), poll, "left_semi").withColumn("last", F.col("offset"))
    return straight.unionByName(single)


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
    skips = (
        _numbered(history, gaps)
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


def _numbered(history: History, gaps: DataFrame) -> DataFrame:
    """The gaps with how many of the log's records are `below` where they end, and `up_to` where they begin."""
    logs = F.broadcast(gaps.select("log").distinct())
    known = history.known(history.ledger.join(logs, "log", "left_semi"))
    present = known.selectExpr("log", "offset as place", f"cast({_PRESENT} as long) as present")
    ends = {"below": "offset", "up_to": "before_offset + 1"}
    for name, place in ends.items():
        asked = gaps.withColumn("place", F.expr(place))
        counted = at(asked, present, name, "present", Reduce.SUM, group="log", order="place", bits=history.bits)
        gaps = counted.withColumn(name, F.coalesce(name, F.lit(0))).drop("place")
    return gaps


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
