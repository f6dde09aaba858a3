"""Leader epochs along a log only grow: a record below one of an older epoch was accepted by a leader that had been deposed.

A log is its epochs, each a range of offsets; the final read has them all. So the ranges of one log, a handful, are compared
with each other, and only logs that had more than one leader are asked. (That no write of a deposed leader is *acknowledged*
after one of its successor is nonlinearizable-log.)

Source: KIP-101, KIP-279 (truncation by leader epoch).
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from harness.checker.anomalies import UNFENCED_LEADER
from harness.checker.check import Check, Need, Search, finding
from harness.checker.history import History
from harness.checker.sentences import log_name, text


def overlaps(history: History) -> DataFrame | None:
    """Epochs of a log that reach above the first record of a later one; kept. None: every log had one leader."""
    return history.once(_overlaps)


def _overlaps(history: History) -> DataFrame | None:
    several = [tally.log for tally in history.tallies.values() if tally.first_epoch != tally.last_epoch]
    if not several:
        return None
    reads = history.final_reads.where(F.col("log").isin(several)).where("leader_epoch is not null")
    ranges = reads.groupBy("run", "log", "leader_epoch").agg(
        F.min(F.struct("offset", "op", "completed_ns")).alias("first"), F.max(F.struct("offset", "op")).alias("last")
    )
    later = Window.partitionBy("log").orderBy("leader_epoch").rowsBetween(1, Window.unboundedFollowing)
    return history.keep(
        ranges.withColumn("next", F.min(F.struct("first", "leader_epoch")).over(later)).where(
            "last.offset > next.first.offset"
        )
    )


def unfenced(history: History, suspects: DataFrame) -> DataFrame:
    return history.known(suspects).select(
        *finding(
            UNFENCED_LEADER,
            text(
                "In {log}, offset {offset} was written by the leader of epoch {epoch}, above offset {other} of the later epoch "
                "{later}: the older leader went on after it had been deposed.",
                log=log_name(),
                offset=F.col("last.offset"),
                epoch=F.col("leader_epoch"),
                other=F.col("next.first.offset"),
                later=F.col("next.leader_epoch"),
            ),
            ops=[F.col("last.op"), F.col("next.first.op")],
            since=F.lit(None),
            until=F.col("first.completed_ns"),
            offset=F.col("last.offset"),
            value=F.lit(None),
            detail=[F.col("leader_epoch")],
        )
    )


CHECK = Check(
    kind=UNFENCED_LEADER,
    engine="spark-sql",
    needs=Need.READ,
    searches=(Search(table=overlaps, suspect="true", explain=unfenced),),
)
