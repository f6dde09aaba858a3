"""What became of each transaction, and two promises about it: all of its records can be read or none, and it ends.

A send inside a transaction is acknowledged when its record was written. What that is worth is decided by the commit:

    fate        by the ops of the transaction                           its acknowledged records
    committed   a commit succeeded                                      must be in the log (loss.py)
    aborted     an abort succeeded, or nobody ever asked to commit it   read_committed must not show them (identity.py)
    unknown     a commit was sent, and its client never learned more    may be there, all of them or none; as committed
                                                                        once somebody read one of them (read_committed)

The checker reads histories with these outcomes in place of the sends' own (`effective`), so that no other check needs to
know of transactions. Where consumers and the final read are read_uncommitted, records of aborted transactions are theirs
to see, and nothing is said about whole transactions.

Source: KIP-98 ("Transactional guarantees"), KIP-890; KAFKA-17754 (a late EndTxn tears the next transaction), KAFKA-14402
(a late Produce leaves one open for ever).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from harness.checker.anomalies import HANGING_TRANSACTION, TORN_TRANSACTION
from harness.checker.check import Check, Need, Row, Search, finding, plain_finding
from harness.checker.facts import RunFacts
from reports.verdict import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from harness.checker.history import History

SETTLED_NS = 5_000_000_000  # markers are written after the commit was answered; by now they are
GRACE_NS = 15_000_000_000  # the coordinator looks for transactions that timed out every 10 s


class Fate(StrEnum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


_TOLD = {"commit": Fate.COMMITTED, "abort": Fate.ABORTED}


@dataclass(frozen=True, kw_only=True)
class Transaction:
    run: str
    transaction: int
    name: str  # "transaction 3 of w1.p0"
    client: str
    fate: Fate
    told: str | None  # what the client was told: "committed", "aborted"; None: nothing certain
    begun_ns: int
    ended_ns: int | None  # when it was told
    end_op: int | None  # the commit or abort that says so, else the last one that was sent
    committing_ns: int | None  # when it was first asked to commit


FATES = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("transaction", pa.int64(), nullable=False),
        pa.field("transaction_name", pa.string(), nullable=False),
        pa.field("transaction_client", pa.string(), nullable=False),
        pa.field("fate", pa.string(), nullable=False),
        pa.field("told", pa.string()),
        pa.field("begun_ns", pa.int64(), nullable=False),
        pa.field("ended_ns", pa.int64()),
        pa.field("end_op", pa.int64()),
        pa.field("committing_ns", pa.int64()),
        pa.field("effective", pa.string()),  # outcome of a send that was acknowledged; null: its own
    ]
)


def transactions(ops: Iterable[Mapping[str, Any]]) -> list[Transaction]:
    """From the begin, commit and abort ops of any number of runs (OPS rows)."""
    grouped: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for op in sorted(ops, key=lambda op: (op["run"], op["invoked_ns"], op["op"])):
        if op["transaction"] is not None:
            grouped.setdefault((op["run"], op["transaction"]), []).append(op)
    counts: Counter[tuple[str, str]] = Counter()
    found = []
    for (run, number), mine in grouped.items():
        client = mine[0]["client"]
        counts[run, client] += 1
        found.append(_transaction(run, number, f"transaction {counts[run, client]} of {client}", mine))
    return found


def _transaction(run: str, number: int, name: str, ops: list[Mapping[str, Any]]) -> Transaction:
    ends = [op for op in ops if op["kind"] in ("commit", "abort")]
    told = next(
        (op for kind in ("commit", "abort") for op in ends if op["kind"] == kind and op["outcome"] == "ok"), None
    )
    asked = any(op["kind"] == "commit" and op["outcome"] != "fail" for op in ends)
    fate = Fate.UNKNOWN if asked else Fate.ABORTED
    if told is not None:
        fate = _TOLD[told["kind"]]
    last = told or (ends[-1] if ends else None)
    return Transaction(
        run=run,
        transaction=number,
        name=name,
        client=ops[0]["client"],
        fate=fate,
        told=str(fate) if told is not None else None,
        begun_ns=ops[0]["invoked_ns"],
        ended_ns=None if told is None else told["completed_ns"],
        end_op=None if last is None else last["op"],
        committing_ns=min((op["invoked_ns"] for op in ends if op["kind"] == "commit"), default=None),
    )


def proven(told: Iterable[Transaction], read: Collection[tuple[str, int]]) -> list[Transaction]:
    """With those of unknown fate committed of which a record was read (`read`: run and number)."""
    return [
        replace(one, fate=Fate.COMMITTED) if one.fate is Fate.UNKNOWN and (one.run, one.transaction) in read else one
        for one in told
    ]


def fates(found: Iterable[Transaction], facts: Mapping[str, RunFacts]) -> pa.Table:
    """FATES rows."""
    rows = []
    for one in found:
        effective = {Fate.COMMITTED: None, Fate.UNKNOWN: "info", Fate.ABORTED: "fail"}[one.fate]
        if one.fate is Fate.ABORTED and not facts[one.run].read_committed:
            effective = "info"
        rows.append(
            {
                "run": one.run,
                "transaction": one.transaction,
                "transaction_name": one.name,
                "transaction_client": one.client,
                "fate": str(one.fate),
                "told": one.told,
                "begun_ns": one.begun_ns,
                "ended_ns": one.ended_ns,
                "end_op": one.end_op,
                "committing_ns": one.committing_ns,
                "effective": effective,
            }
        )
    return pa.Table.from_pylist(rows, schema=FATES)


_KNOWN = """
committed_only and not compacted and (
    ending = 'gone'
    or ending = 'read' and (offset >= log_start or not may_expire) and (offset < complete_to or offset >= log_end or blocked)
)
"""


def parts(history: History) -> DataFrame:
    """One row per transaction that is there in parts: how many of its acknowledged records the final read shows, and
    how many not. A record behind a last stable offset that hangs cannot be read by anybody: it counts as not there."""
    from pyspark.sql import functions as F

    stored = history.records.where("stored and transaction is not null")
    standing = history.final_reads.select("log", "v").distinct().withColumn("there", F.lit(True))
    known = history.known(stored).where(_KNOWN).join(standing, ["log", "v"], "left")
    place = F.struct("topic", "partition", "offset", "op", "value", "log")
    return (
        known.groupBy("run", "transaction")
        .agg(
            F.expr("count_if(there)").alias("shown"),
            F.expr("count_if(there is null)").alias("hidden"),
            F.min(F.when(F.col("there"), place)).alias("one"),
            F.min(F.when(F.col("there").isNull(), place)).alias("other"),
            F.min("invoked_ns").alias("invoked_ns"),
        )
        .where("shown > 0")
    )


def torn(history: History, suspects: DataFrame) -> DataFrame:
    """Transactions of which some records can be read and some cannot."""
    from pyspark.sql import functions as F

    from harness.checker.sentences import log_name, quoted, seconds, text

    told = history.frame(history.fates).select(
        "run",
        "transaction",
        "transaction_name",
        "transaction_client",
        "told",
        "end_op",
        F.col("ended_ns").alias("told_ns"),
    )
    named = history.known(
        suspects.withColumns({name: F.col("other")[name] for name in ("topic", "partition", "offset", "value", "log")})
        .withColumn("shown_value", F.col("one.value"))
        .join(F.broadcast(told), ["run", "transaction"])
    )
    learned = F.when(
        F.col("told").isNotNull(),
        text("was told at {when} that it is {told}", when=seconds("told_ns"), told=F.col("told")),
    ).otherwise(F.lit("never learned whether it was committed"))
    return named.select(
        *finding(
            TORN_TRANSACTION,
            text(
                "Of the {all} records that {name} wrote, {shown} can be read and {hidden} cannot: {there} is at offset "
                "{there_offset} of {there_log}, {gone} is not at offset {offset} of {log}. {client} {learned}.",
                all=F.col("shown") + F.col("hidden"),
                name=F.col("transaction_name"),
                shown=F.col("shown"),
                hidden=F.col("hidden"),
                there=quoted("shown_value"),
                there_offset=F.col("one.offset"),
                there_log=F.concat(F.col("one.topic"), F.lit("-"), F.col("one.partition").cast("string")),
                gone=quoted("value"),
                offset=F.col("offset"),
                log=log_name(),
                client=F.col("transaction_client"),
                learned=learned,
            ),
            ops=[F.col("end_op"), F.col("one.op"), F.col("other.op"), F.col("transaction")],
            since=F.col("invoked_ns"),
            until=F.col("told_ns"),
            offset=F.col("offset"),
            value=F.col("value"),
            detail=[F.col("transaction"), F.col("told"), F.col("shown"), F.col("hidden")],
        )
    )


def blocked(
    found: Iterable[Transaction], bounds: Iterable[Mapping[str, Any]], facts: Mapping[str, RunFacts]
) -> list[tuple[Mapping[str, Any], list[Transaction]]]:
    """Logs whose last stable offset was below the high watermark at the end (their last final BOUNDS row), with the
    transactions that were not over for certain; none: it hangs."""
    last: dict[tuple[str, str, int], Mapping[str, Any]] = {}
    for row in sorted(bounds, key=lambda row: (row["invoked_ns"], row["op"])):
        last[row["run"], row["topic"], row["partition"]] = row
    by_run: dict[str, list[Transaction]] = {}
    for one in found:
        by_run.setdefault(one.run, []).append(one)
    behind = [row for row in last.values() if _behind(row)]
    return [
        (row, [one for one in by_run.get(row["run"], []) if not _over(one, row["invoked_ns"], facts[row["run"]])])
        for row in behind
    ]


def _behind(row: Mapping[str, Any]) -> bool:
    return row["stable_end"] is not None and row["log_end"] is not None and row["stable_end"] < row["log_end"]


def _over(one: Transaction, at_ns: int, facts: RunFacts) -> bool:
    if one.ended_ns is not None:
        return one.ended_ns + SETTLED_NS <= at_ns
    return one.begun_ns + facts.transaction_timeout_ms * 1_000_000 + GRACE_NS <= at_ns


def hanging(history: History) -> Iterator[Row]:
    """Findings about logs that no transaction of the run keeps open, and that are open all the same."""
    for row, waiting in history.blocked:
        log = f"{row['topic']}-{row['partition']}"
        span = f"up to offset {row['stable_end']} only, of {row['log_end']}"
        ends = f"At the final read, consumers with read_committed could read {log} {span}"
        if waiting:
            because = f"{waiting[0].name} may still have been open"
            sentence, severity = (
                f"{ends}: {because}, so nobody can say whether that would have ended.",
                Severity.UNJUDGED,
            )
        else:
            over = "every transaction of the run had been committed, aborted, or had timed out long before"
            sentence, severity = f"{ends}, although {over}: what follows cannot be read by them any more.", None
        yield plain_finding(
            HANGING_TRANSACTION,
            run=row["run"],
            sentence=sentence,
            severity=severity,
            topic=row["topic"],
            partition=row["partition"],
            offset=row["stable_end"],
            ops=[row["op"], *(one.transaction for one in waiting[:3])],
            since=None,
            until=row["completed_ns"],
            detail={"stable_end": row["stable_end"], "log_end": row["log_end"]},
        )


CHECKS = (
    Check(
        kind=TORN_TRANSACTION,
        engine="spark-sql",
        needs=Need.TRANSACTIONS,
        searches=(Search(table=parts, suspect="hidden > 0", explain=torn),),
        optional=True,
    ),
    Check(kind=HANGING_TRANSACTION, engine="rules", needs=Need.STABLE_ENDS, tell=hanging, optional=True),
)
