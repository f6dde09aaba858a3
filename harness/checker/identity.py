"""Identity: a value is sent once, stands at one offset, and an offset has one value.

All four checks read the ledger (by offset) and the sightings (by value); the rules, for a value and its places:

    read, never sent (or of unknown outcome, to another log)    phantom-value
    read, and every send of it surely failed                    aborted-read (also: its transaction was not committed)
    read at two places                                          duplicate
    acknowledged at a, read only at b                           inconsistent-offset
    two values at one offset (read/read or read/acknowledged)   inconsistent-offset

A duplicate is a violation, except where the client sends again without idempotence (idempotence off, retries on): then
two copies are what it asked for, and shown as information. Reads count whatever became of the poll that returned them.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.checker.anomalies import ABORTED_READ, DUPLICATE, INCONSISTENT_OFFSET, PHANTOM_VALUE, AnomalyType
from harness.checker.check import Check, Need, Search, finding
from harness.checker.history import ACKNOWLEDGED, READ, SENT, History, offsets, values
from harness.checker.precommitted import own_reads
from harness.checker.sentences import log_name, process, quoted, seconds, text
from reports.verdict import Severity

_MOST_READS = 4  # ops named per finding
_UNSENT = "sent_log is null or (ok = 0 and info > 0 and places = 1 and sent_log <> log)"


def phantom_values(history: History, suspects: DataFrame) -> DataFrame:
    """Values that were read and never sent."""
    reads = _reads_of(history, suspects)
    place = ["run", "topic", "partition", "value"]
    sent = history.records.where(SENT).select(*place).join(reads.select(*place), place, "left_semi")
    unsent = reads.join(sent, place, "left_anti")
    return history.known(unsent).select(
        *finding(
            PHANTOM_VALUE,
            text(
                "{who} read {value} at offset {offset} of {log} at {when}, and nobody ever sent it there.",
                who=process("process", "client"),
                value=quoted("value"),
                offset=F.col("offset"),
                log=log_name(),
                when=seconds("completed_ns"),
            ),
            ops=_read_ops(),
            since=F.col("invoked_ns"),
            until=F.col("completed_ns"),
            offset=F.col("offset"),
            value=F.col("value"),
        )
    )


def aborted_reads(history: History, suspects: DataFrame) -> DataFrame:
    """Values that were read although their send had surely failed. What a transaction reads of itself is told as
    precommitted-read."""
    reads = _reads_of(history, suspects, own_reads(history))
    failed = (
        history.records.where("kind = 'send' and outcome = 'fail'")
        .join(F.broadcast(reads.select("run", "value").distinct()), ["run", "value"], "left_semi")
        .groupBy("run", "value")
        .agg(F.min(F.struct("invoked_ns", "op", "process", "client", "transaction_name", "transaction")).alias("send"))
    )
    errors = history.ops.where("kind = 'send' and outcome = 'fail'").select(
        "run", F.col("op").alias("send_op"), "error"
    )
    failed = failed.withColumn("send_op", F.col("send.op")).join(errors, ["run", "send_op"], "left")
    return history.known(reads.join(failed, ["run", "value"])).select(
        *finding(
            ABORTED_READ,
            text(
                "{who} read {value} at offset {offset} of {log} at {when}, although {why}.",
                who=process("process", "client"),
                value=quoted("value"),
                offset=F.col("offset"),
                log=log_name(),
                when=seconds("completed_ns"),
                why=_why_not(history),
            ),
            ops=[F.col("send_op"), *_read_ops(), F.col("send.transaction")],
            since=F.col("send.invoked_ns"),
            until=F.col("completed_ns"),
            offset=F.col("offset"),
            value=F.col("value"),
        )
    )


def _why_not(history: History) -> Column:
    """Why a value should not be there: its send was refused, or its transaction was not committed."""
    refused = text(
        "{sender} had been told ({error}) that it was not stored",
        sender=process("send.process", "send.client"),
        error=F.coalesce("error", F.lit("no error named")),
    )
    if not history.transactions:
        return refused
    uncommitted = text("{transaction}, which wrote it, was not committed", transaction=F.col("send.transaction_name"))
    return F.when(F.col("error").isNull() & F.col("send.transaction_name").isNotNull(), uncommitted).otherwise(refused)


def duplicates(history: History, suspects: DataFrame) -> DataFrame:
    """Values that were read at two offsets or more."""
    suspects = suspects.select("v")
    places = (
        history.records.where(f"{READ} and value is not null")
        .join(suspects, "v")
        .groupBy("run", "value", "topic", "partition", "offset", "log")
        .agg(F.min(F.struct("invoked_ns", "op", "completed_ns")).alias("read"))
    )
    several = (
        places.groupBy("run", "value")
        .agg(F.sort_array(F.collect_list(F.struct("topic", "partition", "offset", "read", "log"))).alias("places"))
        .where("size(places) > 1")
    )
    first = several.withColumns({name: F.col("places")[0][name] for name in ("topic", "partition", "offset", "log")})
    sends = (
        history.records.where(SENT)
        .join(suspects, "v")
        .groupBy("run", "value")
        .agg(F.min(F.struct("invoked_ns", "op", "process", "client")).alias("send"))
    )
    return history.known(first.join(sends, ["run", "value"], "left")).select(
        *finding(
            DUPLICATE,
            text(
                "{value} stands more than once: {places}. {who} sent it once.",
                value=quoted("value"),
                places=F.array_join(F.transform(F.slice("places", 1, _MOST_READS), _place), ", "),
                who=F.coalesce(process("send.process", "send.client"), F.lit("Its sender")),
            ),
            ops=[F.col("send.op"), *[F.get(F.col("places"), n)["read"]["op"] for n in range(_MOST_READS)]],
            since=F.coalesce(F.col("send.invoked_ns"), F.col("places")[0]["read"]["invoked_ns"]),
            until=F.array_max(F.transform("places", lambda place: place["read"]["completed_ns"])),
            offset=F.col("offset"),
            value=F.col("value"),
            severity=F.when(F.col("may_duplicate"), F.lit(str(Severity.INFORMATION))).otherwise(
                F.lit(str(DUPLICATE.severity))
            ),
            because=F.when(F.col("may_duplicate"), F.lit("idempotence=false, and clients send again")),
            detail=[F.transform("places", _place).alias("places")],
        )
    )


def two_values(history: History, suspects: DataFrame) -> DataFrame:
    """Offsets at which two values were read or acknowledged."""
    suspects = suspects.select("log", "offset")
    sides = (
        history.records.where(f"({ACKNOWLEDGED}) or ({READ})")
        .join(suspects, ["log", "offset"])
        .groupBy("run", "topic", "partition", "log", "offset", "value")
        .agg(F.min(F.struct("invoked_ns", "op", "completed_ns", "process", "client", "kind")).alias("seen"))
    )
    pairs = (
        sides.groupBy("run", "topic", "partition", "log", "offset")
        .agg(F.sort_array(F.collect_list(F.struct("seen", "value"))).alias("sides"))
        .where("size(sides) > 1")
        .withColumns({"one": F.col("sides")[0], "other": F.col("sides")[1]})
        .withColumns({"one_value": F.col("one.value"), "other_value": F.col("other.value")})
        .withColumns({"one_ns": F.col("one.seen.completed_ns"), "other_ns": F.col("other.seen.completed_ns")})
    )
    return history.known(pairs).select(
        *finding(
            INCONSISTENT_OFFSET,
            text(
                "Offset {offset} of {log} had two values: {one} ({one_how} {one_who} at {one_when}) and {other} "
                "({other_how} {other_who} at {other_when}).",
                offset=F.col("offset"),
                log=log_name(),
                one=quoted("one_value"),
                one_how=_how("one.seen.kind"),
                one_who=process("one.seen.process", "one.seen.client"),
                one_when=seconds("one_ns"),
                other=quoted("other_value"),
                other_how=_how("other.seen.kind"),
                other_who=process("other.seen.process", "other.seen.client"),
                other_when=seconds("other_ns"),
            ),
            ops=[F.col("one.seen.op"), F.col("other.seen.op")],
            since=F.col("one.seen.invoked_ns"),
            until=F.greatest("one_ns", "other_ns"),
            offset=F.col("offset"),
            value=F.col("one_value"),
            detail=[F.transform("sides", lambda side: side["value"]).alias("values")],
        )
    )


def moved(history: History, suspects: DataFrame) -> DataFrame:
    """Values that are read elsewhere than acknowledged."""
    reads = _reads_of(history, suspects)
    sends = (
        history.records.where(ACKNOWLEDGED)
        .join(F.broadcast(reads.select("run", "value").distinct()), ["run", "value"], "left_semi")
        .groupBy("run", "value")
        .agg(F.min(F.struct("completed_ns", "op", "process", "client", "topic", "partition", "offset")).alias("send"))
        .withColumn("told_ns", F.col("send.completed_ns"))
    )
    elsewhere = reads.join(sends, ["run", "value"]).where(
        "send.topic <> topic or send.partition <> partition or send.offset <> offset"
    )
    return history.known(elsewhere).select(
        *finding(
            INCONSISTENT_OFFSET,
            text(
                "{sender} was told at {told} that {value} is stored in {told_log} at offset {told_offset}, but it stands "
                "in {log} at offset {offset}.",
                sender=process("send.process", "send.client"),
                told=seconds("told_ns"),
                value=quoted("value"),
                told_log=F.concat(F.col("send.topic"), F.lit("-"), F.col("send.partition").cast("string")),
                told_offset=F.col("send.offset"),
                log=log_name(),
                offset=F.col("offset"),
            ),
            ops=[F.col("send.op"), *_read_ops()],
            since=F.col("told_ns"),
            until=F.greatest("told_ns", "completed_ns"),
            offset=F.col("offset"),
            value=F.col("value"),
        )
    )


def _reads_of(history: History, suspects: DataFrame, but: DataFrame | None = None) -> DataFrame:
    """The reads of suspect values, one row per value and place: the first read, and the ops of the first few.
    `but`: those of some transactions are left out."""
    reads = history.records.where(READ).join(suspects.select("v"), "v")
    if but is not None:
        reads = reads.join(but, ["run", "log", "v", "transaction"], "left_anti")
    return (
        reads.groupBy("run", "topic", "partition", "log", "offset", "value")
        .agg(
            F.min(F.struct("completed_ns", "op", "invoked_ns", "process", "client")).alias("first"),
            F.slice(F.sort_array(F.collect_set("op")), 1, _MOST_READS).alias("read_ops"),
        )
        .select("run", "topic", "partition", "log", "offset", "value", "first.*", "read_ops")
    )


def _read_ops() -> list[Column]:
    return [F.col("op"), *[F.get(F.col("read_ops"), n) for n in range(_MOST_READS)]]


def _place(place: Column) -> Column:
    log = F.concat(place["topic"], F.lit("-"), place["partition"].cast("string"))
    return F.concat(F.lit("offset "), place["offset"].cast("string"), F.lit(" of "), log)


def _how(kind: str) -> Column:
    return F.when(F.col(kind) == "send", F.lit("acknowledged to")).otherwise(F.lit("read by"))


def _check(kind: AnomalyType, *searches: Search) -> Check:
    return Check(kind=kind, engine="spark-sql", needs=Need.READ, searches=searches)


CHECKS = (
    _check(DUPLICATE, Search(table=values, suspect="places > 1 and ok + fail + info > 0", explain=duplicates)),
    _check(
        INCONSISTENT_OFFSET,
        Search(table=offsets, suspect="least(ack_min, read_min) <> greatest(ack_max, read_max)", explain=two_values),
        Search(
            table=values, suspect="places = 1 and ok > 0 and (sent_log <> log or ack_offset <> offset)", explain=moved
        ),
    ),
    _check(PHANTOM_VALUE, Search(table=values, suspect=_UNSENT, explain=phantom_values)),
    _check(ABORTED_READ, Search(table=values, suspect="fail > 0 and ok + info = 0", explain=aborted_reads)),
)
