"""Lost writes: what was acknowledged and is not there when everything is whole again.

    acknowledged (ledger) ──┬── its log is gone, and nobody deleted it                                     lost
                            ├── at or above the final end offset: the tail was truncated                   lost
                            ├── below the final log start ─┬─ the topic lets records expire                expired
                            │                              └─ nothing does                                 lost
                            └── in the part that was read to its end: nothing there, or another value ─┬─  lost
                                                                          a compacted topic, nothing ──┴─  compacted
                            (a log that was not read, or not to its end: unjudged beyond where the reading stopped)

A record that stands at another offset than acknowledged is not lost (it is an inconsistent-offset). Gaps without
acknowledged records (control records, records of unknown outcome) are never looked at.

Source: research "slot sweep, step E"; kafkatest's `validate_delivery`; Jepsen's rule calls the truncated tail only
"unseen".
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.checker.anomalies import LOST_WRITE
from harness.checker.check import Check, Need, Search, finding
from harness.checker.facts import Ending
from harness.checker.glance.plain import Plain
from harness.checker.history import ACKNOWLEDGED, History, offsets
from harness.checker.sentences import log_name, process, quoted, seconds, text


def how(lowest: str, highest: str) -> str:
    """SQL on `offsets`: how the value that was once at an offset (columns with the lowest and highest hash) went; null: it did not."""
    return f"""
case
    when ending = '{Ending.DELETED}' then null
    when ending = '{Ending.GONE}' then 'gone'
    when log_end is not null and offset >= log_end then 'beyond'
    when log_start is not null and offset < log_start
        then if(may_expire or offset < coalesce(deleted_before, 0), null, 'expired')
    when complete_to is null or offset >= complete_to then null
    when final_min is null then if(compacted, null, 'absent')
    when final_min <> {lowest} or final_max <> {highest} or {lowest} <> {highest} then 'replaced'
end
"""


_HOW = how("ack_min", "ack_max")

_LOST = f"ack_min is not null and ({_HOW}) is not null"


def missing(history: History) -> DataFrame | None:
    """(log, offset, v) of acknowledged records that do not stand where they were acknowledged, although that part of
    the log was read to its end; None: all of them do.
    """
    return history.once(_missing)


def _missing(history: History) -> DataFrame | None:
    if Plain.OFFSETS in history.plain:
        return None
    places = offsets(history).where(_LOST).select("log", "offset")
    rows = places.count()
    if not rows:
        return None
    places = history.few(places, rows)
    acknowledged = history.records.where(ACKNOWLEDGED).join(places, ["log", "offset"], "left_semi")
    standing = history.final_reads.join(places, ["log", "offset"], "left_semi").select("log", "offset", "v")
    gone = acknowledged.select("log", "offset", "v").distinct().join(standing, ["log", "offset", "v"], "left_anti")
    return history.keep(gone)


def lost_writes(history: History, suspects: DataFrame) -> DataFrame:
    """One finding per acknowledged record that the complete final read does not contain."""
    suspects = suspects.withColumn("how", F.expr(_HOW)).select("log", "offset", "how")
    lost = history.records.where(ACKNOWLEDGED).join(suspects, ["log", "offset"])
    standing = _elsewhere(history, lost)
    lost = lost.join(standing, ["log", "v"], "left_anti")
    lost = lost.join(_instead(history, suspects), ["log", "offset"], "left").where(
        "others is null or not array_contains(others, coalesce(value, '\\0'))"
    )
    lost = lost.join(_last_seen(history, suspects), ["log", "offset", "v"], "left")
    return history.known(lost).select(
        *finding(
            LOST_WRITE,
            text(
                "{who} was told at {when} that {value} is stored in {log} at offset {offset}, and after all faults "
                "had healed {finding}.",
                who=process("process", "client"),
                when=seconds("completed_ns"),
                value=quoted("value"),
                log=log_name(),
                offset=F.col("offset"),
                finding=what_was_found(),
            ),
            ops=[F.col("op"), F.col("final_op"), F.col("seen_op")],
            since=F.greatest(F.col("completed_ns"), F.coalesce(F.col("seen_ns"), F.col("completed_ns"))),
            until=F.col("other_ns"),
            offset=F.col("offset"),
            value=F.col("value"),
            detail=[F.col("how"), F.col("process"), F.col("client"), F.col("other_value")],
        )
    )


def what_was_found() -> Column:
    """What was found instead, by how it was lost: for a frame with `how`, `other_ns`, `other_value` and the LOGS columns."""
    return (
        F.when(F.col("how") == "gone", text("{log} was gone, although the run never deleted it", log=log_name()))
        .when(F.col("how") == "beyond", text("{log} ended at offset {end}", log=log_name(), end=F.col("log_end")))
        .when(
            F.col("how") == "expired",
            text(
                "{log} started at offset {start}, although nothing lets its records expire",
                log=log_name(),
                start=F.col("log_start"),
            ),
        )
        .when(F.col("other_ns").isNotNull(), text("{other} stood there", other=quoted("other_value")))
        .otherwise(F.lit("nothing was there"))
    )


def _elsewhere(history: History, lost: DataFrame) -> DataFrame:
    """(log, v) of suspects that the final read found at another offset of their log."""
    values = lost.select("log", "v").distinct()
    return history.final_reads.select("log", "v").join(values, ["log", "v"], "left_semi").distinct()


def _instead(history: History, suspects: DataFrame) -> DataFrame:
    """What the final read found at the suspects' offsets: all values (`others`), and the one to name."""
    return (
        history.final_reads.join(suspects.select("log", "offset"), ["log", "offset"], "left_semi")
        .groupBy("log", "offset")
        .agg(
            F.collect_set(F.coalesce("value", F.lit("\0"))).alias("others"),
            F.min("value").alias("other_value"),
            F.min("op").alias("final_op"),
            F.min("completed_ns").alias("other_ns"),
        )
    )


def _last_seen(history: History, suspects: DataFrame) -> DataFrame:
    """When a reader last had the value at its offset: it was lost after that."""
    return (
        history.records.where("kind = 'poll' and offset is not null and completed_ns is not null")
        .join(suspects.select("log", "offset"), ["log", "offset"], "left_semi")
        .groupBy("log", "offset", "v")
        .agg(F.max("invoked_ns").alias("seen_ns"), F.max_by("op", F.struct("invoked_ns", "op")).alias("seen_op"))
    )


CHECK = Check(
    kind=LOST_WRITE,
    engine="spark-sql",
    needs=Need.ACKNOWLEDGED,
    searches=(Search(table=offsets, suspect=_LOST, explain=lost_writes),),
)
