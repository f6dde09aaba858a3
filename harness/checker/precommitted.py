"""With read_committed nobody reads what is not committed: not others, and not the transaction itself.

    read by a poll of the transaction that sent it                             precommitted-read
    read by a poll that was over before anybody asked to commit the transaction   precommitted-read
    read, and the transaction was aborted, or never asked to be committed      aborted-read (identity.py), unless it read itself

Source: `precommitted-read` of jepsen.tests.kafka, which only knows the first line; KIP-98.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.checker.anomalies import PRECOMMITTED_READ
from harness.checker.check import Check, Need, Search, finding
from harness.checker.history import READ, SENT, History, values
from harness.checker.sentences import log_name, process, quoted, seconds, text

_KEY = ["run", "log", "v", "transaction"]
_EARLY = "early and fail = 0"


def own_reads(history: History) -> DataFrame | None:
    """run, log, v, transaction: of records that the transaction that wrote them read itself; kept. None: no transaction
    reads."""
    return history.once(_own_reads)


def _own_reads(history: History) -> DataFrame | None:
    if not any(tally.transactional_reads for tally in history.tallies.values()):
        return None
    polls = history.records.where(f"{READ} and transaction is not null")
    sends = history.records.where(f"{SENT} and transaction is not null").select(*_KEY)
    return history.keep(polls.select(*_KEY).join(sends, _KEY, "left_semi").distinct())


def by_itself(history: History, suspects: DataFrame) -> DataFrame:
    reads = history.records.where(READ).join(suspects, _KEY, "left_semi")
    return _told(history, reads, "which the same transaction had written: it was not committed yet")


def too_early(history: History, suspects: DataFrame) -> DataFrame:
    asked = (
        history.records.where(SENT)
        .join(suspects.select("v"), "v", "left_semi")
        .groupBy("run", "log", "v")
        .agg(F.min("committing_ns").alias("asked_ns"))
    )
    reads = history.records.where(READ).join(asked, ["run", "log", "v"]).where("completed_ns < asked_ns")
    own = own_reads(history)
    if own is not None:
        reads = reads.join(own, _KEY, "left_anti")
    return _told(history, reads, "before anybody had asked to commit the transaction that wrote it")


def _told(history: History, reads: DataFrame, what: str) -> DataFrame:
    sends = (
        history.records.where(SENT)
        .join(reads.select("run", "v").distinct(), ["run", "v"], "left_semi")
        .groupBy("run", "log", "v")
        .agg(F.min(F.struct("op", "transaction_name", "transaction")).alias("send"))
        .withColumn("name", F.col("send.transaction_name"))
    )
    first = reads.groupBy("run", "topic", "partition", "log", "v", "value", "offset").agg(
        F.min(F.struct("invoked_ns", "op", "completed_ns", "process", "client")).alias("read")
    )
    known = history.known(first.select("*", "read.*").join(sends, ["run", "log", "v"], "left")).where("committed_only")
    return known.select(
        *finding(
            PRECOMMITTED_READ,
            text(
                "{who} read {value} at offset {offset} of {log} at {when}, " + what + " ({transaction}).",
                who=process("process", "client"),
                value=quoted("value"),
                offset=F.col("offset"),
                log=log_name(),
                when=seconds("completed_ns"),
                transaction=F.col("name"),
            ),
            ops=[F.col("op"), F.col("send.op"), F.col("send.transaction")],
            since=F.col("invoked_ns"),
            until=F.coalesce("completed_ns", "invoked_ns"),
            offset=F.col("offset"),
            value=F.col("value"),
        )
    )


CHECK = Check(
    kind=PRECOMMITTED_READ,
    engine="spark-sql",
    needs=Need.TRANSACTIONS,
    searches=(
        Search(table=own_reads, suspect="true", explain=by_itself),
        Search(table=values, suspect=_EARLY, explain=too_early),
    ),
    optional=True,
)
