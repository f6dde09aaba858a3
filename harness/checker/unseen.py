"""Records that were acknowledged and that no successful poll of a foreign history returned.

Such histories do not say where a log ended: their final polls only go on until they are told to stop. So three things
may have become of a record that nobody read:

    a record above it was read                                                       lost-write (loss.py)
    nothing above it was read, but its last reader found nothing more in any log     lost-write: the tail was truncated
    neither                                                                          unseen

Source: `unseen` of jepsen.tests.kafka, which counts per key, and so counts a key that only the last op polls.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.checker.anomalies import UNSEEN
from harness.checker.check import Check, Need, Search, finding
from harness.checker.history import ACKNOWLEDGED, SENT, History, offsets
from harness.checker.sentences import log_name, process, quoted, seconds, text

_UNPLACED = f"{SENT} and outcome = 'ok' and offset is null"


def unplaced(history: History) -> DataFrame | None:
    """log, v: of records acknowledged without an offset that nobody read; kept."""
    return history.once(_unplaced)


def _unplaced(history: History) -> DataFrame | None:
    if not any(tally.unplaced for tally in history.tallies.values()):
        return None
    sent = history.records.where(_UNPLACED).select("log", "v")
    return history.keep(sent.join(history.final_reads.select("log", "v"), ["log", "v"], "left_anti").distinct())


def beyond_reads(history: History, suspects: DataFrame) -> DataFrame:
    sends = history.records.where(ACKNOWLEDGED).join(suspects.select("log", "offset"), ["log", "offset"], "left_semi")
    elsewhere = history.final_reads.select("log", "v")
    return _told(history, sends.join(elsewhere, ["log", "v"], "left_anti"))


def nowhere(history: History, suspects: DataFrame) -> DataFrame:
    return _told(history, history.records.where(_UNPLACED).join(suspects, ["log", "v"], "left_semi"))


def _told(history: History, sends: DataFrame) -> DataFrame:
    return history.known(sends).select(
        *finding(
            UNSEEN,
            text(
                "{who} was told at {when} that {value} is stored in {log}, and no successful poll ever returned it.",
                who=process("process", "client"),
                when=seconds("completed_ns"),
                value=quoted("value"),
                log=log_name(),
            ),
            ops=[F.col("op")],
            since=F.coalesce("completed_ns", "invoked_ns"),
            until=F.lit(None),
            offset=F.col("offset"),
            value=F.col("value"),
        )
    )


CHECK = Check(
    kind=UNSEEN,
    engine="spark-sql",
    needs=Need.ACKNOWLEDGED,
    searches=(
        Search(
            table=offsets,
            suspect="ack_min is not null and final_min is null and offset >= coalesce(complete_to, 0)"
            " and (log_end is null or offset < log_end)",
            explain=beyond_reads,
        ),
        Search(table=unplaced, suspect="true", explain=nowhere),
    ),
)
