"""Log linearizability: the kernel of linearizability/log.py, called for bundles of ranges of logs.

What becomes a point on the kernel's line, from the ledger and the sightings:

    acknowledged append at offset o         slot 2o + 1   [invoked, completed]
    append of unknown outcome, read at o    slot 2o + 1   [invoked, open]         one that nobody read may never have happened: left out
    read of offset o                        slot 2o + 2   [never, completed]      the earliest read of each offset is the strictest

A range of a log (2^16 offsets) is a piece; the earliest completion in all later ranges of its log is carried in. So
memory is bounded by the bundle, not by the log. Records that were lost are left out, with their reads: they are
reported as lost, and everything after them would only repeat it. An append that surely failed and was read all the same
is an aborted-read and no point here.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from harness.checker.anomalies import NONLINEARIZABLE_LOG, STALE_END
from harness.checker.check import Check, Need, Search, finding
from harness.checker.history import ACKNOWLEDGED, LOG, READ, SENT, History
from harness.checker.log_pieces import NEVER, OPEN, sweep_logs
from harness.checker.loss import missing
from harness.checker.ranges import Reduce, at
from harness.checker.sentences import log_name, process, quoted, seconds, text

_SWEPT = "log long, offset long, bound long"


def inversions(history: History) -> DataFrame:
    """log, offset, bound: an append at `offset` was invoked after something above it had completed at `bound`; kept."""
    return history.once(_inversions)


def _inversions(history: History) -> DataFrame:
    return history.keep(_points(history).groupBy("bundle").applyInArrow(sweep_logs, _SWEPT))


def _points(history: History) -> DataFrame:
    """One row per offset: bundle, log, offset, invoked, completed, read (completed), later; no nulls."""
    columns = [
        "bundle",
        "log",
        "offset",
        "ack_invoked as invoked",
        "ack_completed as completed",
        "read_completed as read",
    ]
    ledger = _without_missing(history, history.ledger.selectExpr(*columns))
    ledger = ledger.fillna(NEVER, "invoked").fillna(OPEN, ["completed", "read"])
    unknown = _unknown_appends(history).groupBy("log", "offset").agg(F.max("invoked").alias("unknown_invoked"))
    ledger = (
        ledger.join(unknown, ["log", "offset"], "left")
        .withColumn("invoked", F.expr("greatest(invoked, coalesce(unknown_invoked, invoked))"))
        .drop("unknown_invoked")
    )
    if history.bits is None:
        return ledger.withColumn("later", F.lit(OPEN))
    ledger = ledger.withColumn("range", F.shiftright("offset", history.bits))
    beyond = Window.partitionBy("log").orderBy(F.desc("range")).rowsBetween(Window.unboundedPreceding, -1)
    carried = (
        ledger.groupBy("log", "range")
        .agg(F.min(F.least("completed", "read")).alias("earliest"))
        .withColumn("later", F.coalesce(F.min("earliest").over(beyond), F.lit(OPEN)))
        .drop("earliest")
    )
    return ledger.join(F.broadcast(carried), ["log", "range"]).drop("range")


def _without_missing(history: History, ledger: DataFrame) -> DataFrame:
    """What was lost is reported as lost: where acknowledged records are missing, only what else was there counts."""
    gone = missing(history)
    if gone is None:
        return ledger
    places = gone.select("log", "offset").distinct()
    others = (
        _standing(history)
        .join(places, ["log", "offset"], "left_semi")
        .groupBy("log", "offset")
        .agg(
            F.expr("max(if(kind = 'send', invoked_ns, null))").alias("other_invoked"),
            F.expr("min(if(kind = 'send', completed_ns, null))").alias("other_completed"),
            F.expr("min(if(kind = 'poll', completed_ns, null))").alias("other_read"),
        )
    )
    corrections = places.withColumn("corrected", F.lit(True)).join(others, ["log", "offset"], "left")
    corrected = ledger.join(corrections, ["log", "offset"], "left")
    names = ("invoked", "completed", "read")
    return corrected.selectExpr(
        "bundle", "log", "offset", *[f"if(corrected, other_{name}, {name}) as {name}" for name in names]
    )


def _standing(history: History) -> DataFrame:
    """Acknowledgements and reads of all records but those that are missing."""
    placed = history.records.where(f"({ACKNOWLEDGED}) or ({READ})")
    gone = missing(history)
    return placed if gone is None else placed.join(gone, ["log", "offset", "v"], "left_anti")


def _unknown_appends(history: History) -> DataFrame:
    """Appends of unknown outcome that somebody read, at their only place."""
    return history.sightings.where("info > 0 and ok = 0 and places = 1 and sent_log = log").select(
        "log", "offset", "v", "invoked"
    )


def nonlinearizable(history: History, suspects: DataFrame) -> DataFrame:
    """Name the two ops: the late append, and what had completed above it."""
    at = suspects.withColumnRenamed("offset", "at")
    standing = _standing(history)
    acknowledged = standing.where(SENT).join(at.withColumn("offset", F.col("at")), ["log", "offset"])
    unknown = (
        _unknown_appends(history)
        .join(at.withColumnRenamed("at", "offset"), ["log", "offset"])
        .withColumnRenamed("offset", "at")
    )
    unknown = history.records.where(SENT).join(unknown, ["log", "v"])
    columns = [
        "run",
        "topic",
        "partition",
        "log",
        "at",
        "bound",
        "op",
        "process",
        "client",
        "value",
        "invoked_ns",
        "completed_ns",
    ]
    appends = acknowledged.select(*columns).unionByName(unknown.select(*columns)).where("invoked_ns > bound")
    above = suspects.select("log", F.col("offset").alias("at"), F.col("bound").alias("completed_ns"))
    earlier = (
        standing.join(above, ["log", "completed_ns"])
        .where("offset > at or (kind = 'poll' and offset = at)")
        .groupBy("log", "at")
        .agg(F.min(F.struct("offset", "op", "kind", "process", "client", "value", "invoked_ns")).alias("earlier"))
        .withColumn("earlier_value", F.col("earlier.value"))
    )
    return history.known(appends.join(earlier, ["log", "at"])).select(
        *finding(
            NONLINEARIZABLE_LOG,
            text(
                "{who} sent {value} at {when}, when {earlier} {what} {earlier_who} at offset {earlier_offset} of {log} "
                "(done at {bound}), but it stands before that, at offset {offset}.",
                who=process("process", "client"),
                value=quoted("value"),
                when=seconds("invoked_ns"),
                earlier=quoted("earlier_value"),
                what=F.when(F.col("earlier.kind") == "send", F.lit("had been acknowledged to")).otherwise(
                    F.lit("had been read by")
                ),
                earlier_who=process("earlier.process", "earlier.client"),
                earlier_offset=F.col("earlier.offset"),
                log=log_name(),
                bound=seconds("bound"),
                offset=F.col("at"),
            ),
            ops=[F.col("op"), F.col("earlier.op")],
            since=F.col("earlier.invoked_ns"),
            until=F.coalesce("completed_ns", "invoked_ns"),
            offset=F.col("at"),
            value=F.col("value"),
            detail=[F.col("earlier.offset").alias("earlier_offset")],
        )
    )


def early_ends(history: History) -> DataFrame:
    """End offsets (ListOffsets) below something that had been acknowledged or read before they were asked for; kept."""
    return history.once(_early_ends)


def _early_ends(history: History) -> DataFrame:
    asked = (
        history.frame(history.bounds)
        .where("log_end is not null")
        .withColumn("log", F.expr(LOG))
        .selectExpr("log", "2 * log_end as slot", "log_end", "op", "invoked_ns", "completed_ns")
    )
    there = history.ledger.selectExpr("log", "2 * offset + 1 as slot", "least(ack_completed, read_completed) as there")
    bits = None if history.bits is None else history.bits + 1  # two slots to an offset
    late = at(asked, there, "bound", "there", Reduce.MIN, group="log", order="slot", bits=bits, descending=True)
    late = late.where("bound < invoked_ns")
    return history.keep(late.select("log", "log_end", "op", "invoked_ns", "completed_ns", "bound"))


def stale_ends(history: History, suspects: DataFrame) -> DataFrame:
    """Each early end with the lowest record that was there already."""
    wanted = suspects.selectExpr("log", "log_end", "op as asked_op", "bound as completed_ns")
    first = (
        history.records.where(f"({ACKNOWLEDGED}) or ({READ})")
        .join(wanted, ["log", "completed_ns"])
        .where("offset >= log_end")
        .groupBy("log", "asked_op")
        .agg(F.min(F.struct("offset", "op", "value", "invoked_ns")).alias("record"))
        .withColumnRenamed("asked_op", "op")
    )
    return history.known(
        suspects.drop("log_end")
        .join(first, ["log", "op"])
        .join(suspects.select("log", "op", F.col("log_end").alias("end")), ["log", "op"])
    ).select(
        *finding(
            STALE_END,
            text(
                "{log} was said at {when} to end at offset {end}, but offset {offset} had been there since {bound}.",
                log=log_name(),
                when=seconds("invoked_ns"),
                end=F.col("end"),
                offset=F.col("record.offset"),
                bound=seconds("bound"),
            ),
            ops=[F.col("op"), F.col("record.op")],
            since=F.col("bound"),
            until=F.coalesce("completed_ns", "invoked_ns"),
            offset=F.col("record.offset"),
            value=F.col("record.value"),
            detail=[F.col("end")],
        )
    )


CHECKS = (
    Check(
        kind=NONLINEARIZABLE_LOG,
        engine="slot-sweep",
        needs=Need.ACKNOWLEDGED,
        searches=(Search(table=inversions, suspect="true", explain=nonlinearizable),),
    ),
    Check(
        kind=STALE_END,
        engine="spark-sql",
        needs=Need.BOUNDS,
        searches=(Search(table=early_ends, suspect="true", explain=stale_ends),),
    ),
)
