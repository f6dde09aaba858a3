"""Records that a consumer read and that are gone in the end, although nobody was ever told that they were stored.

What a consumer reads lies below the high watermark: it is committed, and may not vanish, whatever its producer was told.

    read at offset 12, final log ends at 10                            read-then-vanished
    read at offset 12, something else or nothing stands there          read-then-vanished
    the same, and it had been acknowledged                             lost-write (loss.py), not told twice
    the same, and the value stands at another offset of its log        duplicate or inconsistent-offset (identity.py)
    written in a transaction that was not committed                    may be read by read_uncommitted, and vanish

Source: KAFKA-15583 (the high watermark passes records below min ISR, which a lost disk then takes away).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.checker.anomalies import READ_THEN_VANISHED
from harness.checker.check import Check, Need, Search, finding
from harness.checker.history import ACKNOWLEDGED, SENT, History, offsets
from harness.checker.loss import how, what_was_found
from harness.checker.sentences import log_name, process, quoted, seconds, text

_HOW = how("read_min", "read_max")


def vanished(history: History, suspects: DataFrame) -> DataFrame:
    """One finding per record that was read and is not there, unless it had been acknowledged."""
    suspects = suspects.withColumn("how", F.expr(_HOW)).select("log", "offset", "how")
    reads = (
        history.earlier_reads.join(suspects, ["log", "offset"])
        .groupBy("run", "topic", "partition", "log", "offset", "v", "value", "how")
        .agg(F.min(F.struct("completed_ns", "op", "invoked_ns", "process", "client")).alias("first"))
        .select("run", "topic", "partition", "log", "offset", "v", "value", "how", "first.*")
    )
    values = F.broadcast(reads.select("log", "v").distinct())
    spoken_for = [
        history.final_reads.select("log", "v").join(values, ["log", "v"], "left_semi"),
        history.records.where(ACKNOWLEDGED).select("log", "v").join(values, ["log", "v"], "left_semi"),
        history.records.where(f"{SENT} and fate is not null and fate <> 'committed'")
        .select("log", "v")
        .join(values, ["log", "v"], "left_semi"),
    ]
    for spoken in spoken_for:
        reads = reads.join(spoken.distinct(), ["log", "v"], "left_anti")
    standing = (
        history.final_reads.join(suspects.select("log", "offset"), ["log", "offset"], "left_semi")
        .groupBy("log", "offset")
        .agg(
            F.min("value").alias("other_value"), F.min("op").alias("final_op"), F.min("completed_ns").alias("other_ns")
        )
    )
    found = reads.join(standing, ["log", "offset"], "left").join(_sends(history, reads), ["log", "v"], "left")
    return history.known(found).select(
        *finding(
            READ_THEN_VANISHED,
            text(
                "{who} read {value} at offset {offset} of {log} at {when}, and after all faults had healed {finding}. {told}.",
                who=process("process", "client"),
                value=quoted("value"),
                offset=F.col("offset"),
                log=log_name(),
                when=seconds("completed_ns"),
                finding=what_was_found(),
                told=_told(),
            ),
            ops=[F.col("op"), F.col("send.op"), F.col("final_op")],
            since=F.col("completed_ns"),
            until=F.col("other_ns"),
            offset=F.col("offset"),
            value=F.col("value"),
            detail=[F.col("how"), F.col("process"), F.col("client"), F.col("other_value")],
        )
    )


def _sends(history: History, reads: DataFrame) -> DataFrame:
    """Who sent the values, and the error that they got."""
    sends = history.records.where(SENT).join(
        F.broadcast(reads.select("log", "v").distinct()), ["log", "v"], "left_semi"
    )
    errors = history.ops.where("kind = 'send' and error is not null").select("run", "op", "error")
    return (
        sends.select("run", "log", "v", "op", "process", "client", "outcome")
        .join(errors, ["run", "op"], "left")
        .groupBy("log", "v")
        .agg(F.min(F.struct("op", "process", "client", "outcome", "error")).alias("send"))
    )


def _told() -> Column:
    sender = process("send.process", "send.client")
    return (
        F.when(F.col("send").isNull(), F.lit("Nobody had sent it"))
        .when(
            F.col("send.error").isNotNull(), text("{who} had been told {error}", who=sender, error=F.col("send.error"))
        )
        .otherwise(text("{who} had not been told that it is stored", who=sender))
    )


CHECK = Check(
    kind=READ_THEN_VANISHED,
    engine="spark-sql",
    needs=Need.READ,
    searches=(Search(table=offsets, suspect=f"read_min is not null and ({_HOW}) is not null", explain=vanished),),
)
