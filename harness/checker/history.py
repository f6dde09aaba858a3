"""Histories as Spark sees them: the tables of one run, of a night of runs, or of ten thousand tiny ones, all keyed by run.

Nothing here loops over runs. Every record gets two 64-bit keys, because hashing, shuffling and aggregating fixed-width
numbers is several times faster than strings:

    log = xxhash64(run, topic, partition)      v = xxhash64(run, value)

Two passes over the records feed most checks, each one shuffle of narrow rows:

* the ledger, one row per offset of a log: what was acknowledged there, what was read there, what the final read found, and when
* the sightings, one row per value: how often it was sent, with which outcomes, and where it was read

Measured on 2 cores, 3 * 10^7 rows: grouping after an explicit `repartition` takes 13 s, Spark's own partial-then-final
aggregation 21 s (hardly two rows of a file have the same key, so the partial step only costs). A bundle is a set of
ranges of logs (2^16 offsets each) that travel together, so that one huge log is spread over all cores, and ten thousand
tiny ones share a few calls of a kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import cached_property
from threading import RLock
from typing import Any, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from harness.checker import transactions
from harness.checker.check import Need
from harness.checker.facts import LogKey, RunFacts, Tally, log_rows, run_facts
from harness.checker.glance.looks import Source, looked
from harness.checker.glance.plain import Plain, plain
from harness.checker.run_tables import RunTables
from harness.checker.scan import scanned, small_table, sources
from harness.checker.session import lasts, on_a_cluster
from harness.history.reading import History as Stored
from workloads.op import RECORDS

RANGE_BITS = 16
ROWS_PER_PARTITION = 500_000
ROWS_PER_BUNDLE = 1 << 17
SMALL_ROWS = 200_000
BROADCAST_ROWS = 1_000_000

LOG = "xxhash64(run, topic, partition)"
VALUE = "xxhash64(run, value)"
SENT = "kind = 'send'"
ACKNOWLEDGED = "kind = 'send' and outcome = 'ok' and offset is not null"
READ = "kind = 'poll' and offset is not null"
KEY = pa.schema([RECORDS.field(name) for name in ("run", "topic", "partition")])
COUNTED = [one.name for one in fields(Tally) if one.name not in ("log", "found_anyway")]
_TRANSACTION_COLUMNS = ("run", "op", "client", "kind", "invoked_ns", "completed_ns", "outcome", "transaction")


Made = TypeVar("Made")


class History(RunTables):
    """What checks get. `close` frees what was kept between checks; use `opened`."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        ops: DataFrame,
        records: DataFrame,
        bounds: pa.Table,
        faults: pa.Table,
        runs: Mapping[str, RunFacts],
        rows: int,
        small: Mapping[str, pa.Table] | None = None,
        sources: Sequence[Source] = (),
        foreign: bool = False,
    ) -> None:
        """The tables of harness/history/tables.py, of any number of runs; `rows`: how many `records` has, roughly;
        `small`: those of few rows, by name; `sources`: the files of `records`, all of them, if they are on this machine and it
        is here that the history is judged.

        `foreign`: all runs are histories of `jepsen.tests.kafka` (foreign_kafka.py). What was read in the end is then what any
        successful poll returned, and `small` has two more tables (harness/history/formats/kafka.py: KEYS): `kept`, the
        logs whose position an assign or subscribe kept, and `rebalances`.
        """
        self.spark = spark
        self.foreign = foreign
        self.partitions = max(
            min(spark.sparkContext.defaultParallelism, 1 + rows // SMALL_ROWS), -(-rows // ROWS_PER_PARTITION)
        )
        self.range_bits = RANGE_BITS
        self.bundles = max(self.partitions, rows // ROWS_PER_BUNDLE)
        _tune(spark, self.partitions, interpreted=rows < SMALL_ROWS and not lasts(spark))
        self.ops = ops
        super().__init__(
            runs,
            small=small or {},
            faults=faults.to_pylist(),
            final_bounds=bounds.filter(pc.field("phase") == "final").to_pylist(),
        )
        ended = (
            ops.where("transaction is not null and kind in ('begin', 'commit', 'abort')")
            .select(*_TRANSACTION_COLUMNS)
            .toArrow()
        )
        told = transactions.transactions(ended.to_pylist())
        self.transactions = transactions.proven(told, self._read_of(told, records, runs))
        self.fates = transactions.fates(self.transactions, runs)
        self.records = self._settled_sends(records).withColumn("log", F.expr(LOG)).withColumn("v", F.expr(VALUE))
        self.bounds = bounds
        self._sources = sources
        self._kept: list[DataFrame] = []
        self._made: dict[Callable[[History], Any], Any] = {}
        self._making: dict[Callable[[History], Any], RLock] = {}

    def _read_of(
        self, told: Sequence[transactions.Transaction], records: DataFrame, runs: Mapping[str, RunFacts]
    ) -> set[tuple[str, int]]:
        """Transactions of unknown fate of which somebody read a record with read_committed."""
        unknown = [one for one in told if one.fate is transactions.Fate.UNKNOWN and runs[one.run].read_committed]
        if not unknown:
            return set()
        asked = self.frame(transactions.fates(unknown, runs)).select("run", "transaction")
        sends = records.where(SENT).join(F.broadcast(asked), ["run", "transaction"], "left_semi")
        reads = records.where(f"{READ} and outcome = 'ok'").select("run", "topic", "partition", "value")
        seen = sends.join(reads, ["run", "topic", "partition", "value"], "left_semi").select("run", "transaction")
        return {(row["run"], row["transaction"]) for row in seen.distinct().collect()}

    def _settled_sends(self, records: DataFrame) -> DataFrame:
        """Sends in transactions with the outcome that their transaction gives them (transactions.py).

        fate: of the transaction of a send or poll, null without; committing_ns: when it was first asked to commit; stored:
        the send itself was acknowledged with an offset.
        """
        stored = records.withColumn("stored", F.expr(ACKNOWLEDGED))
        if not self.transactions:
            nothing = {name: F.lit(None).cast("string") for name in ("fate", "transaction_name")}
            return stored.withColumns(nothing | {"committing_ns": F.lit(None).cast("long")})
        columns = ("run", "transaction", "transaction_name", "fate", "committing_ns", "effective")
        known = self.frame(self.fates).select(*columns)
        outcome = f"if({SENT} and outcome in ('ok', 'info') and effective is not null, effective, outcome)"
        joined = stored.join(F.broadcast(known), ["run", "transaction"], "left")
        return joined.withColumn("outcome", F.expr(outcome)).drop("effective")

    @cached_property
    def origins(self) -> dict[str, int]:
        """run -> the time that sentences count from."""
        started: dict[str, int] = {}
        for key, tally in self.tallies.items():
            started[key.run] = min(tally.started_ns, started.get(key.run, tally.started_ns))
        return {
            run: started.get(run, 0) if facts.origin_ns is None else facts.origin_ns for run, facts in self.runs.items()
        }

    @cached_property
    def blocked(self) -> list[tuple[Mapping[str, Any], list[transactions.Transaction]]]:
        """Logs that a transaction kept from being read to their end (transactions.blocked)."""
        return transactions.blocked(self.transactions, self.final_bounds, self.runs)

    def rows_of(self, need: Need) -> Mapping[str, int]:
        """run -> rows that an optional check would look at; runs without any are left out."""
        match need:
            case Need.TRANSACTIONS:
                return Counter(one.run for one in self.transactions if self.runs[one.run].read_committed)
            case Need.ANY_TRANSACTIONS:
                return Counter(one.run for one in self.transactions)
            case Need.GROUPS:
                return {run: len(rows) for run, rows in self.positions.items()}
            case Need.STABLE_ENDS:
                return Counter(row["run"] for row in self.final_bounds if row["stable_end"] is not None)
            case Need.CLAIMS:
                return {run: len(made) for run, made in self.claims.items()}
            case Need.REPLICAS:
                return {run: len(at_end.isr) for run, at_end in self.standing.items() if at_end.isr}
            case Need.METADATA:
                return {run: len(rows) for run, rows in self.metadata.items()}
        raise ValueError(f"{need}: no optional check asks for that")

    @cached_property
    def looked(self) -> list[dict[str, Any]] | None:
        """What one look at all records says of each log: LOOKED rows (glance/logs.py); None: one look is not enough."""
        return looked(self.spark, self._sources, bounds=self.bounds, fates=self.fates, foreign=self.foreign)

    @cached_property
    def plain(self) -> frozenset[Plain]:
        """Tables without suspects."""
        if self.looked is None:
            return frozenset()
        return plain(self.looked, self.log_table.to_pylist(), foreign=self.foreign)

    @cached_property
    def tallies(self) -> dict[LogKey, Tally]:
        if self.looked is not None:
            return self._tallies_of(self.looked)
        counts = self.records.groupBy("run", "topic", "partition").agg(
            F.expr(f"count_if({SENT})").alias("sends"),
            F.expr(f"count_if({ACKNOWLEDGED})").alias("acknowledged"),
            F.expr("count_if(kind = 'send' and outcome = 'ok' and offset is null)").alias("unplaced"),
            F.expr(f"count_if({READ})").alias("reads"),
            F.expr(f"min(if({READ} and phase = 'final', process, null))").alias("first_final"),
            F.expr(f"max(if({READ} and phase = 'final', process, null))").alias("last_final"),
            F.max("offset").alias("max_offset"),
            F.min("invoked_ns").alias("started_ns"),
            F.expr("max(if(kind = 'send' and phase = 'main', invoked_ns, null))").alias("last_send_ns"),
            F.expr(f"count_if({READ} and transaction is not null)").alias("transactional_reads"),
            F.expr("min(if(kind = 'poll', leader_epoch, null))").alias("first_epoch"),
            F.expr("max(if(kind = 'poll', leader_epoch, null))").alias("last_epoch"),
        )
        rows = (row.asDict() for row in counts.withColumn("log", F.expr(LOG)).collect())
        return {LogKey(row.pop("run"), row.pop("topic"), row.pop("partition")): Tally(**row) for row in rows}

    def _tallies_of(self, rows: Sequence[Mapping[str, Any]]) -> dict[LogKey, Tally]:
        keys = pa.Table.from_pylist(rows, KEY)  # of each row the columns of the key
        numbered = self.frame(keys).withColumn("log", F.expr(LOG)).collect() if rows else []
        logs = {LogKey(row["run"], row["topic"], row["partition"]): row["log"] for row in numbered}
        return {
            (key := LogKey(row["run"], row["topic"], row["partition"])): Tally(
                log=logs[key], **{name: row[name] for name in COUNTED}
            )
            for row in rows
        }

    @cached_property
    def settled(self) -> dict[LogKey, Tally]:
        """The tallies, with what was acknowledged without an offset looked up by value in the final read."""
        if not any(tally.unplaced for tally in self.tallies.values()):
            return self.tallies
        unplaced = self.records.where("kind = 'send' and outcome = 'ok' and offset is null")
        found = unplaced.join(self.final_reads.select("log", "v").distinct(), ["log", "v"], "left_semi")
        counts = {row["log"]: row["count"] for row in found.groupBy("log").count().collect()}
        return {key: replace(tally, found_anyway=counts.get(tally.log, 0)) for key, tally in self.tallies.items()}

    @cached_property
    def log_table(self) -> pa.Table:
        """LOGS rows (facts.py), one per log that has records."""
        leaderless = [
            LogKey(run, *partition)
            for run, at_end in self.standing.items()
            for partition, leader in at_end.leaders.items()
            if leader < 0
        ]
        blocked = [LogKey(row["run"], row["topic"], row["partition"]) for row, waiting in self.blocked if not waiting]
        return log_rows(self.runs, self.tallies, self.final_bounds, self.faults, leaderless=leaderless, blocked=blocked)

    @cached_property
    def logs(self) -> DataFrame:
        """The same for Spark; small."""
        return self.frame(self.log_table)

    def frame(self, table: pa.Table) -> DataFrame:
        """A small table for Spark. In one chunk: pyspark 4.3 stops reading a table at an empty chunk and loses what follows, silently."""
        return self.spark.createDataFrame(table.combine_chunks())

    @cached_property
    def ledger(self) -> DataFrame:
        """One row per offset of a log at which anything was acknowledged or read.

        bundle, log, offset; ack_min, ack_max, read_min, read_max, final_min, final_max: hashes of values; ack_invoked
        (the latest), ack_completed (the earliest), read_completed (the earliest). Null where there was none.
        """
        placed = self._with_final(self.records.where(f"({ACKNOWLEDGED}) or ({READ})"))
        slim = placed.selectExpr(
            f"cast(pmod(xxhash64(log, shiftright(offset, {self.range_bits})), {self.bundles}) as int) as bundle",
            "log",
            "offset",
            "if(kind = 'send', v, null) as ack",
            "if(kind = 'poll', v, null) as seen",
            "if(final, v, null) as last",
            "if(kind = 'send', invoked_ns, null) as ack_invoked",
            "if(kind = 'send', completed_ns, null) as ack_completed",
            "if(kind = 'poll', completed_ns, null) as read_completed",
        )
        return self.keep(
            slim.repartition("bundle")
            .groupBy("bundle", "log", "offset")
            .agg(
                F.min("ack").alias("ack_min"),
                F.max("ack").alias("ack_max"),
                F.min("seen").alias("read_min"),
                F.max("seen").alias("read_max"),
                F.min("last").alias("final_min"),
                F.max("last").alias("final_max"),
                F.max("ack_invoked").alias("ack_invoked"),
                F.min("ack_completed").alias("ack_completed"),
                F.min("read_completed").alias("read_completed"),
            )
        )

    @cached_property
    def sightings(self) -> DataFrame:
        """One row per value that is not plainly fine: read and not sent, read after a sure failure, read in several
        places, read elsewhere than acknowledged, or of unknown outcome and yet read.

        v; ok, fail, info: sends by outcome; log, offset: where it was read (the lowest); places: 1 or 2 (several);
        sent_log: where it was sent to; ack_offset; invoked: of the send; early: it was read before its transaction was
        asked to commit. Few in a sane history.
        """
        slim = self.records.where(f"({SENT}) or ({READ})").selectExpr(
            "v",
            "if(kind = 'send', outcome, null) as sent",
            "if(kind = 'poll', log, null) as read_log",
            "if(kind = 'poll', offset, null) as read_offset",
            "if(kind = 'send', log, null) as sent_log",
            f"if({ACKNOWLEDGED}, offset, null) as ack_offset",
            "if(kind = 'send', invoked_ns, null) as invoked",
            "if(kind = 'send', committing_ns, null) as committing",
            "if(kind = 'poll', completed_ns, null) as read_completed",
        )
        return self.keep(
            slim.repartition("v")
            .groupBy("v")
            .agg(
                F.expr("count_if(sent = 'ok')").alias("ok"),
                F.expr("count_if(sent = 'fail')").alias("fail"),
                F.expr("count_if(sent = 'info')").alias("info"),
                F.min("read_log").alias("log"),
                F.min("read_offset").alias("offset"),
                F.expr("if(min(read_log) <> max(read_log) or min(read_offset) <> max(read_offset), 2, 1)").alias(
                    "places"
                ),
                F.max("sent_log").alias("sent_log"),
                F.max("ack_offset").alias("ack_offset"),
                F.min("invoked").alias("invoked"),
                F.expr("coalesce(min(read_completed) < min(committing), false)").alias("early"),
            )
            .where(
                "offset is not null and (places > 1 or ok = 0 or early"
                " or (ack_offset is not null and (sent_log <> log or ack_offset <> offset)))"
            )
        )

    def _with_final(self, records: DataFrame) -> DataFrame:
        """`final`: the row belongs to the final read. Where a log was read several times (it shrank meanwhile), the last reading counts."""
        if self.foreign:
            return records.withColumn("final", F.expr("kind = 'poll' and outcome = 'ok'"))
        if all(tally.first_final == tally.last_final for tally in self.tallies.values()):
            return records.withColumn("final", F.expr("phase = 'final' and kind = 'poll'"))
        last = F.broadcast(self.logs.select("log", "final_process"))
        return (
            records.join(last, "log")
            .withColumn("final", F.expr("phase = 'final' and kind = 'poll' and process = final_process"))
            .drop("final_process")
        )

    @property
    def final_reads(self) -> DataFrame:
        return self._with_final(self.records.where(READ)).where("final")

    @property
    def earlier_reads(self) -> DataFrame:
        """All reads but the final one."""
        return self._with_final(self.records.where(READ)).where("not final")

    @cached_property
    def bits(self) -> int | None:
        """Of a range, where anything is longer than one, so that no log has to fit one worker; None: nothing is."""
        rows = ((max(tally.max_offset or 0, tally.sends, tally.reads)) for tally in self.tallies.values())
        return self.range_bits if max(rows, default=0) >> self.range_bits else None

    def known(self, frame: DataFrame) -> DataFrame:
        """The frame with the LOGS columns of its log that it does not have yet."""
        missing = [name for name in self.logs.columns if name == "log" or name not in frame.columns]
        return frame.join(F.broadcast(self.logs.select(*missing)), "log")

    def few(self, frame: DataFrame, rows: int) -> DataFrame:
        """A frame of so many rows, marked for broadcasting if that is cheap."""
        return F.broadcast(frame) if rows <= BROADCAST_ROWS else frame

    def once(self, make: Callable[[History], Made]) -> Made:
        """What `make` returns, made at the first call, whatever threads ask; frames in it are for `make` to keep."""
        with self._making.setdefault(make, RLock()):
            if make not in self._made:
                self._made[make] = make(self)
            return cast(Made, self._made[make])

    def keep(self, frame: DataFrame) -> DataFrame:
        kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
        self._kept.append(kept)
        return kept

    def close(self) -> None:
        for frame in self._kept:
            frame.unpersist()
        self._kept.clear()


def offsets(history: History) -> DataFrame:
    """The ledger with the LOGS columns: a table for searches."""
    return history.known(history.ledger)


def values(history: History) -> DataFrame:
    """The sightings: a table for searches."""
    return history.sightings


@contextmanager
def opened(spark: SparkSession, stored: Sequence[Stored], rows: int | None = None) -> Iterator[History]:
    """Runs whose files were checked (harness.history.reading.open_run), as one history. `rows`: treat it as one of so many
    records rows; None: of as many as it has."""
    ops, records = (scanned(spark, name, stored) for name in ("ops", "records"))
    bounds, faults = (small_table(name, stored) for name in ("bounds", "faults"))
    history = History(
        spark,
        ops=ops,
        records=records,
        bounds=bounds,
        faults=faults,
        runs={run.info.run: run_facts(run.info) for run in stored},
        rows=sum(run.rows["records"] for run in stored) if rows is None else rows,
        small={name: small_table(name, stored) for name in ("events", "metadata", "steps", "positions")},
        sources=() if on_a_cluster(spark) else sources(stored),
    )
    try:
        yield history
    finally:
        history.close()


def _tune(spark: SparkSession, partitions: int, *, interpreted: bool) -> None:
    """A small history is over before generated code has been compiled: interpret its plans (a third of the time), unless
    the session has compiled the same ones before."""
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    spark.conf.set("spark.sql.codegen.wholeStage", str(not interpreted).lower())
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if interpreted else "FALLBACK")
