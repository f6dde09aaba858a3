"""Histories of `jepsen.tests.kafka`, judged by the checks of our own runs: many of them in one Spark job.

    judge_foreign(spark, {"a.edn": Paired(...), "b.edn": Paired(...)})
    ->  {"a.edn": Judgement(verdict="invalid", engine="slot-sweep+spark-sql", found=(Found(type="lost-write", count=2,
         sentence='process 3 was told at 1.250 s that "7/12" is stored in 7-0 at offset 40, ...', ops=(812, 904)),)), ...}

A history becomes the rows of a run (harness/history/formats/kafka.py), named after its place among the others. What a run
knows and such a history does not say:

* **How far a log was read.** What any successful poll returned counts as the final read, and it is complete up to the
  highest offset that one returned (Jepsen's bound of `lost-write`). Above it, an acknowledged record is `unseen`; but
  lost, where the last reader of the log to its end found no more, in any log, by a poll that came after everything had been
  acknowledged: the tail was truncated.
* **Settings.** Everything is promised: acks=all, idempotence, read_committed. A consumer that subscribed may be moved by
  its group: poll-skip and nonmonotonic-poll are information then, as Jepsen allows them.
* **Unknown outcomes.** A send that somebody read happened, at the offset that its client was told, if it was told one.

`Found.ops` are indices of invocations, as everywhere.

Reading is what takes long, so it is done in Spark's workers: `rows` there, `packed` on the way, `judge_rows` here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq

from harness.checker.anomalies import CYCLES
from harness.checker.facts import RunFacts
from harness.checker.glance.looks import Source
from harness.checker.models.bad_history import bad_history, of_problems
from harness.checker.models.model import Found, Judgement
from harness.checker.settings import Settings
from harness.history.formats.kafka import PART_BITS, kafka_tables
from harness.history.formats.pairing import Paired
from nemesis.fault import FAULTS
from reports.verdict import Severity, Status, Validity
from workloads.op import BOUNDS, Phase

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from harness.checker.conclude import Judged

ASKED = [
    "lost-write",
    "duplicate",
    "inconsistent-offset",
    "phantom-value",
    "aborted-read",
    "unseen",
    "torn-transaction",
    "precommitted-read",
    "nonmonotonic-poll",
    "int-nonmonotonic-poll",
    "poll-skip",
    "int-poll-skip",
    "nonmonotonic-send",
    "int-nonmonotonic-send",
    "int-send-skip",
    "nonlinearizable-log",
    *(kind.name for kind in CYCLES if not kind.name.endswith(("item-process", "item-realtime"))),  # a poll may lag
]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """One history as tables, each with the schema of its name: OPS, RECORDS, KEYS, KEYS."""

    run: str
    ops: pa.Table
    records: pa.Table
    assignments: pa.Table
    rebalances: pa.Table

    def packed(self) -> bytes:
        """To travel; `unpacked` undoes it."""
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        for table in (self.ops, self.records, self.assignments, self.rebalances):
            with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
                stream.write_table(table)
        return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def unpacked(run: str, data: bytes) -> Rows:
    source = pa.BufferReader(data)
    ops, records, assignments, rebalances = (pa.ipc.open_stream(source).read_all() for _ in range(4))
    return Rows(run=run, ops=ops, records=records, assignments=assignments, rebalances=rebalances)


def rows(history: Paired, run: str) -> Rows | Judgement:
    """The rows of a history, under this name; or what is to be said of one that nobody can have recorded."""
    if history.problems:
        return of_problems(history.problems)
    tables = kafka_tables(history.operations, run=run)
    if tables.problems:
        first = tables.problems[0]
        at_fault = [operation for operation in history.operations if operation.index == first.index]
        return bad_history(first.sentence, *at_fault[:1], count=len(tables.problems))
    return Rows(
        run=run,
        ops=tables.ops,
        records=_placed(tables.records),
        assignments=tables.assignments,
        rebalances=tables.rebalances,
    )


def judge_foreign(spark: SparkSession, histories: Mapping[str, Paired]) -> dict[str, Judgement]:
    """One judgement per history (by whatever names they are given, such as their paths), in their order.

    `spark`: a session of harness/checker/session.py. Never raises for what a history says: one with problems, or with ops that
    are none of `jepsen.tests.kafka`, is unknown as a `bad-history`, and so is one in which nothing was acknowledged or read.
    """
    made = {name: rows(history, f"h{place}") for place, (name, history) in enumerate(histories.items())}
    judged = judge_rows(spark, {name: one for name, one in made.items() if isinstance(one, Rows)})
    return {name: one if isinstance(one, Judgement) else judged[name] for name, one in made.items()}


def judge_rows(spark: SparkSession, histories: Mapping[str, Rows]) -> dict[str, Judgement]:
    """The same from rows, no two under one name."""
    if not histories:
        return {}
    judged = _judge(spark, list(histories.values()))
    return {name: _judgement(judged[one.run]) for name, one in histories.items()}


def _placed(records: pa.Table) -> pa.Table:
    """With sends outside transactions that are of unknown outcome, have an offset and were read as acknowledged ones."""
    polled = records.filter((pc.field("kind") == "poll") & (pc.field("outcome") == "ok"))["value"]
    unknown = pc.and_(pc.equal(records["kind"], "send"), pc.equal(records["outcome"], "info"))
    known = pc.and_(pc.is_valid(records["offset"]), pc.is_null(records["transaction"]))
    read = pc.and_(pc.is_in(records["value"], pc.unique(polled)), pc.is_valid(records["value"]))
    happened = pc.and_(pc.and_(unknown, known), read)
    place = records.schema.get_field_index("outcome")
    return records.set_column(place, records.schema.field(place), pc.if_else(happened, "ok", records["outcome"]))


def _bounds(run: str, ops: pa.Table, records: pa.Table) -> pa.Table:
    """How far each log was read, as the final bounds of a run: a row per log of which a successful poll returned anything."""
    reads = records.filter((pc.field("kind") == "poll") & (pc.field("outcome") == "ok"))
    sends = records.filter((pc.field("kind") == "send") & (pc.field("outcome") == "ok") & pc.field("offset").is_valid())
    read_to = _highest(reads)
    sent_to = _highest(sends)
    acknowledged = dict(_grouped(sends.filter(pc.field("completed_ns").is_valid()), "completed_ns", "max"))
    ended = _ends(ops, reads)
    rows = []
    for topic, last in sorted(read_to.items()):
        log_end = last if ended.get(topic, -1) > acknowledged.get(topic, -1) else max(last, sent_to.get(topic, 0))
        rows.append(
            {
                "run": run, "op": 0, "phase": str(Phase.FINAL), "topic": topic, "partition": 0,
                "log_start": 0, "log_end": log_end, "read_to": last, "invoked_ns": 0, "completed_ns": 0,
            }
        )  # fmt: skip
    return pa.Table.from_pylist(rows, schema=BOUNDS)


def _highest(records: pa.Table) -> dict[str, int]:
    """topic -> one past the highest offset"""
    return {topic: offset + 1 for topic, offset in _grouped(records, "offset", "max")}


def _grouped(records: pa.Table, column: str, how: str) -> Iterable[tuple[str, Any]]:
    found = records.group_by("topic").aggregate([(column, how)])
    return zip(found["topic"].to_pylist(), found[f"{column}_{how}"].to_pylist(), strict=True)


def _ends(ops: pa.Table, reads: pa.Table) -> dict[str, int]:
    """topic -> the latest time at which somebody who had come to its highest offset, and reads from the beginning, asked for
    more and got nothing of any log."""
    nothing: dict[int, int] = {}
    empty = ops.filter(
        (pc.field("kind") == "poll")
        & (pc.field("outcome") == "ok")
        & (pc.field("phase") == "final")
        & (pc.field("count") == 0)
    )
    for process, at in zip(empty["process"].to_pylist(), empty["invoked_ns"].to_pylist(), strict=True):
        nothing[process] = max(at, nothing.get(process, -1))
    highest = _highest(reads)
    final = reads.filter((pc.field("phase") == "final") & pc.is_in(pc.field("process"), pa.array(nothing, pa.int64())))
    last = final.group_by(["topic", "process"]).aggregate([("offset", "max"), ("completed_ns", "max")])
    found: dict[str, int] = {}
    for row in last.to_pylist():
        topic, at = row["topic"], nothing[row["process"]]
        if row["offset_max"] + 1 == highest[topic] and at >= (row["completed_ns_max"] or 0):
            found[topic] = max(at, found.get(topic, -1))
    return found


def _judge(spark: SparkSession, histories: list[Rows]) -> dict[str, Judged]:
    from harness.checker.history import History
    from harness.checker.judge import judge_history
    from harness.checker.session import scratch

    folder = Path(scratch(spark)) / f"foreign-{uuid4().hex}"
    folder.mkdir()
    ops = pa.concat_tables([one.ops for one in histories])
    records = pa.concat_tables([one.records for one in histories])
    history = History(
        spark,
        ops=_frame(spark, folder / "ops.parquet", ops),
        records=_frame(spark, folder / "records.parquet", records),
        bounds=pa.concat_tables([_bounds(one.run, one.ops, one.records) for one in histories]),
        faults=FAULTS.empty_table(),
        runs={one.run: _facts(one.run) for one in histories},
        rows=records.num_rows,
        small={
            "kept": pa.concat_tables([one.assignments for one in histories]),
            "rebalances": pa.concat_tables([one.rebalances for one in histories]),
        },
        sources=[
            Source(runs=[one.run for one in histories], files=[folder / "records.parquet"], rows=records.num_rows)
        ],
        foreign=True,
    )
    try:
        return {one.run: one for one in judge_history(history)}
    finally:
        history.close()


def _frame(spark: SparkSession, path: Path, table: pa.Table) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    pq.write_table(table, path, row_group_size=1 << 17)
    return spark.read.schema(from_arrow_schema(table.schema)).parquet(str(path))


def _facts(run: str) -> RunFacts:
    return RunFacts(
        run=run, settings=Settings(enabled=ASKED), idempotence=True, read_committed=True, foreign=True, origin_ns=0
    )


def _judgement(judged: Judged) -> Judgement:
    verdict = judged.verdict
    found = tuple(
        Found(
            type=one.type,
            count=one.count,
            sentence=one.sentence,
            ops=tuple(dict.fromkeys(op >> PART_BITS for op in one.witnesses[0]["ops"])),
            violation=one.severity == Severity.VIOLATION,
        )
        for one in verdict.anomalies
        if one.severity != Severity.UNJUDGED
    )
    engines = sorted({check.engine for check in verdict.checks})
    validity = Validity(verdict.verdict)
    if any(one.violation for one in found):  # also where everything failed, so that there is nothing else to judge
        validity = Validity.INVALID
    elif validity is Validity.UNKNOWN and verdict.status != Status.NO_DATA and not verdict.unjudged:
        validity = Validity.VALID
    reason = "" if validity is not Validity.UNKNOWN else verdict.reason or ""
    return Judgement(verdict=validity, engine="+".join(engines), found=found, reason=reason)
