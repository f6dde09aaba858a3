"""Records of one client stand in the order in which it sent them.

`sequence` grows per (client, topic, partition) in the order in which sends were invoked, and a client is one producer
instance. What Kafka promises depends on its settings:

    idempotence, or one request in flight    every pair of acknowledged records, also those whose sends overlapped
    several requests in flight, retries      a batch that is sent again may fall behind a later one: only records whose sends did not
                                             overlap count (those are in real-time order), the others are shown as information

The screen is one sort: a record is suspect when an earlier one of its client stands at a higher offset. The pair that
is named is the one with the highest offset; whether *some* pair is in definite order is decided exhaustively by
linearizable.py.

Within a transaction it is int-nonmonotonic-send, whatever became of the transaction: what was stored was stored in
order. Foreign histories, whose clients are processes that do one op at a time, call the rest nonmonotonic-send, and ask it
of sends of unknown outcome with a known offset too. That records of others stand between (int-send-skip) is lawful.
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.checker.anomalies import (
    INT_NONMONOTONIC_SEND,
    INT_SEND_SKIP,
    NONMONOTONIC_SEND,
    PRODUCER_REORDER,
    AnomalyType,
)
from harness.checker.check import Check, Need, Search, finding
from harness.checker.history import ACKNOWLEDGED, SENT, History
from harness.checker.loss import missing
from harness.checker.polls import passed_over
from harness.checker.ranges import Reduce, running
from harness.checker.sentences import log_name, process, quoted, seconds, text
from reports.verdict import Severity

_STREAM = "xxhash64(run, client, topic, partition)"
_STREAM_OF_TRANSACTION = "xxhash64(run, client, topic, partition, transaction)"
_PLACED = f"{SENT} and offset is not null and sequence is not null"
_IN_TRANSACTIONS = f"{_PLACED} and transaction is not null"
_TRIED = f"{_PLACED} and outcome in ('ok', 'info')"


def overtaken(history: History) -> DataFrame:
    """Acknowledged records that stand before one that their client had sent earlier, in another transaction; kept."""
    return history.once(_overtaken)


def _overtaken(history: History) -> DataFrame:
    sends = _sends(history, _outside(history), _STREAM).select(
        "stream", "log", "sequence", "offset", "op", "transaction"
    )
    found = running(sends, {"overtaken": ("offset", Reduce.MAX)}, group=["stream"], order="sequence", bits=history.bits)
    if history.transactions:
        found = running(
            found.withColumn("here", F.struct("sequence", "overtaken")),
            {"opening": ("here", Reduce.MIN)},
            group=["stream", "transaction"],
            order="sequence",
            bits=history.bits,
        ).withColumn("overtaken", F.expr("if(transaction is null or opening is null, overtaken, opening.overtaken)"))
    return history.keep(found.where("offset < overtaken").select("stream", "log", "offset", "op", "overtaken"))


def inside(history: History) -> DataFrame:
    """Records of transactions that do not stand right after the one that the same transaction had sent to the log before;
    kept. overtaken: the highest offset of those before.
    """
    return history.once(_inside)


def _inside(history: History) -> DataFrame:
    sends = _sends(history, _IN_TRANSACTIONS, _STREAM_OF_TRANSACTION).select(
        "stream", "log", "sequence", "offset", "op", F.struct("sequence", "offset", "op").alias("here")
    )
    walked = running(
        sends,
        {"overtaken": ("offset", Reduce.MAX), "before": ("here", Reduce.MAX)},
        group=["stream"],
        order="sequence",
        bits=history.bits,
    )
    return history.keep(
        walked.where("offset <> before.offset + 1").selectExpr(
            "stream", "log", "offset", "op", "overtaken", "before.offset as before_offset", "before.op as before_op"
        )
    )


def _outside(history: History) -> str:
    return _TRIED if history.foreign else f"{ACKNOWLEDGED} and sequence is not null"


def _sends(history: History, which: str, stream: str) -> DataFrame:
    """Sent records, but for those that were lost: they are reported as lost, and have no place among the others."""
    sends = history.records.where(which).withColumn("stream", F.expr(stream))
    gone = missing(history)
    return sends if gone is None else sends.join(gone, ["log", "offset", "v"], "left_anti")


def reorders(history: History, suspects: DataFrame, *, kind: AnomalyType) -> DataFrame:
    """Each suspect with the record that overtook it by most."""
    within = kind is INT_NONMONOTONIC_SEND
    which, stream = (_IN_TRANSACTIONS, _STREAM_OF_TRANSACTION) if within else (_outside(history), _STREAM)
    sends = _sends(history, which, stream)
    late = sends.join(suspects.select("stream", "op", "overtaken"), ["stream", "op"])
    targets = suspects.selectExpr("stream", "overtaken as offset").distinct()
    firsts = (
        sends.join(targets, ["stream", "offset"], "left_semi")
        .groupBy("stream", F.col("offset").alias("overtaken"))
        .agg(F.min(F.struct("sequence", "op", "value", "invoked_ns", "completed_ns")).alias("first"))
        .withColumns({"first_ns": F.col("first.invoked_ns"), "first_value": F.col("first.value")})
    )
    pairs = history.known(late.join(firsts, ["stream", "overtaken"]).where("first.sequence < sequence"))
    binding = F.lit(True) if within else F.expr("keeps_order or coalesce(first.completed_ns < invoked_ns, false)")
    return pairs.select(
        *finding(
            kind,
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
            until=F.coalesce(F.greatest("completed_ns", "first.completed_ns"), F.col("invoked_ns")),
            offset=F.col("offset"),
            value=F.col("value"),
            severity=F.when(binding, F.lit(str(kind.severity))).otherwise(F.lit(str(Severity.INFORMATION))),
            because=F.when(~binding, F.lit("idempotence=false, and several requests in flight")),
            detail=[F.col("client"), F.col("overtaken").alias("first_offset")],
        )
    )


def send_skips(history: History, suspects: DataFrame) -> DataFrame:
    """Such pairs with records of others between them."""
    found = passed_over(history, suspects.select("log", "offset", "op", "before_offset", "before_op"))
    sends = history.records.where(SENT).drop("offset")
    return history.known(sends.join(found, ["log", "op"])).select(
        *finding(
            INT_SEND_SKIP,
            text(
                "{who} sent two records of one transaction to {log}, and {skipped} records of others stand between them, at "
                "offsets {before} and {offset}.",
                who=process("process", "client"),
                log=log_name(),
                skipped=F.col("skipped"),
                before=F.col("before_offset"),
                offset=F.col("offset"),
            ),
            ops=[F.col("op"), F.col("before_op")],
            since=F.col("invoked_ns"),
            until=F.coalesce("completed_ns", "invoked_ns"),
            offset=F.col("offset"),
            value=F.col("value"),
        )
    )


def _check(kind: AnomalyType, search: Search, needs: Need = Need.ACKNOWLEDGED) -> Check:
    return Check(
        kind=kind, engine="spark-sql", needs=needs, searches=(search,), optional=needs is Need.ANY_TRANSACTIONS
    )


def _reorder(kind: AnomalyType) -> Search:
    explain = partial(reorders, kind=kind)
    if kind is INT_NONMONOTONIC_SEND:
        return Search(table=inside, suspect="offset < overtaken", explain=explain)
    return Search(table=overtaken, suspect="true", explain=explain)


CHECKS = (
    _check(PRODUCER_REORDER, _reorder(PRODUCER_REORDER)),
    _check(NONMONOTONIC_SEND, _reorder(NONMONOTONIC_SEND)),
    _check(INT_NONMONOTONIC_SEND, _reorder(INT_NONMONOTONIC_SEND), Need.ANY_TRANSACTIONS),
    _check(
        INT_SEND_SKIP,
        Search(table=inside, suspect="offset > before_offset + 1", explain=send_skips),
        Need.ANY_TRANSACTIONS,
    ),
)
