"""Records of one client stand in the order in which it sent them.

`sequence` grows per (client, topic, partition) in the order in which sends were invoked, and a client is one producer
instance. What Kafka promises depends on its settings:

    idempotence, or one request in flight    every pair of acknowledged records, also those whose sends overlapped
    several requests in flight, retries      a batch that is sent again may fall behind a later one: only records whose sends did not
                                             overlap count (those are in real-time order), the others are shown as information

The screen is one sort: a record is suspect when an earlier one of its client stands at a higher offset. The pair that
is named is the one with the highest offset; whether *some* pair is in definite order is decided exhaustively by
linearizable.py.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.checker.anomalies import PRODUCER_REORDER
from harness.checker.check import Check, Need, Search, finding
from harness.checker.history import ACKNOWLEDGED, History
from harness.checker.loss import missing
from harness.checker.ranges import Reduce, running
from harness.checker.sentences import log_name, quoted, seconds, text
from reports.verdict import Severity

_STREAM = "xxhash64(run, client, topic, partition)"


def overtaken(history: History) -> DataFrame:
    """Acknowledged records that stand before one that their client had sent earlier; kept."""
    return history.once(_overtaken)


def _overtaken(history: History) -> DataFrame:
    sends = _sends(history).select("stream", "log", "sequence", "offset", "op")
    found = running(
        sends, "overtaken", "offset", Reduce.MAX, group="stream", order="sequence", bits=history.bits
    ).where("offset < overtaken")
    return history.keep(found.drop("sequence"))


def _sends(history: History) -> DataFrame:
    """Acknowledged records, but for those that were lost: they are reported as lost, and have no place among the others."""
    sends = history.records.where(f"{ACKNOWLEDGED} and sequence is not null").withColumn("stream", F.expr(_STREAM))
    gone = missing(history)
    return sends if gone is None else sends.join(gone, ["log", "offset", "v"], "left_anti")


def producer_reorders(history: History, suspects: DataFrame) -> DataFrame:
    """Each suspect with the record that overtook it by most."""
    sends = _sends(history)
    late = sends.join(suspects.select("stream", "op", "overtaken"), ["stream", "op"])
    targets = suspects.selectExpr("stream", "overtaken as offset").distinct()
    firsts = (
        sends.join(targets, ["stream", "offset"], "left_semi")
        .groupBy("stream", F.col("offset").alias("overtaken"))
        .agg(F.min(F.struct("sequence", "op", "value", "invoked_ns", "completed_ns")).alias("first"))
        .withColumns({"first_ns": F.col("first.invoked_ns"), "first_value": F.col("first.value")})
    )
    pairs = history.known(late.join(firsts, ["stream", "overtaken"]).where("first.sequence < sequence"))
    binding = F.expr("keeps_order or first.completed_ns < invoked_ns")
    return pairs.select(
        *finding(
            PRODUCER_REORDER,
            text(
                "{client} sent {first} at {first_when} and {second} at {second_when}, but they stand in {log} the other "
                "way round, at offsets {first_offset} and {offset}.",
                client=F.col("client"),
                first=quoted("first_value"),
                first_when=seconds("first_ns"),
                second=quoted("value"),
                second_when=seconds("invoked_ns"),
                log=log_name(),
                first_offset=F.col("overtaken"),
                offset=F.col("offset"),
            ),
            ops=[F.col("op"), F.col("first.op")],
            since=F.col("first_ns"),
            until=F.greatest("completed_ns", "first.completed_ns"),
            offset=F.col("offset"),
            value=F.col("value"),
            severity=F.when(binding, F.lit(str(PRODUCER_REORDER.severity))).otherwise(F.lit(str(Severity.INFORMATION))),
            expected=~binding,
            detail=[F.col("client"), F.col("overtaken").alias("first_offset")],
        )
    )


CHECK = Check(
    kind=PRODUCER_REORDER,
    engine="spark-sql",
    needs=Need.ACKNOWLEDGED,
    searches=(Search(table=overtaken, suspect="true", explain=producer_reorders),),
)
