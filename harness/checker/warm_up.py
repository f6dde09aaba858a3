"""The smallest history that makes every check do something: two records acknowledged, read while written, and read again at the end."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.history.rundir import HISTORY, RUN_FORMAT, RUN_JSON
from harness.history.tables import TABLES
from nemesis.fault import FaultRow, FaultStatus
from workloads.op import Bounds, Op, OpKind, Outcome, Phase, Record

RUN = "warm-up"
_TOPIC = {"name": "log", "partitions": 1, "replication": 1, "config": {}}


def tiny_run(directory: Path) -> Path:
    """Write a finished run directory; returns it."""
    sends = [_op(op, OpKind.SEND, Phase.MAIN) for op in (0, 1)]
    polls = [_op(2, OpKind.POLL, Phase.MAIN), _op(3, OpKind.POLL, Phase.FINAL)]
    rows: dict[str, list[Any]] = {
        "ops": [*sends, *polls],
        "records": [
            *(_record(op, op.op) for op in sends),
            *(_record(op, offset) for op in polls for offset in (0, 1)),
        ],
        "bounds": [_bounds(polls[-1])],
        "faults": [_fault()],
        "events": [],
    }
    for name, table in TABLES.items():
        path = directory / HISTORY / name
        path.mkdir(parents=True)
        pq.write_table(
            pa.Table.from_pylist([asdict(row) for row in rows[name]], schema=table.schema), path / "0.parquet"
        )
    (directory / RUN_JSON).write_text(json.dumps({"format": RUN_FORMAT, "run": RUN, "topics": [_TOPIC]}))
    return directory


def _op(op: int, kind: OpKind, phase: Phase) -> Op:
    return Op(
        run=RUN,
        clock="none",
        op=op,
        client="w1",
        process=op,
        kind=kind,
        phase=phase,
        topic="log",
        partition=0,
        invoked_ns=10 * op,
        completed_ns=10 * op + 5,
        outcome=Outcome.OK,
        error=None,
        broker=None,
        count=1,
    )


def _record(op: Op, offset: int) -> Record:
    return Record(
        run=RUN,
        op=op.op,
        client=op.client,
        process=op.process,
        kind=op.kind,
        phase=op.phase,
        position=offset,
        sequence=offset if op.kind == OpKind.SEND else None,
        topic="log",
        partition=0,
        offset=offset,
        value=f"log/0/w1/{offset}",
        leader_epoch=0,
        timestamp_ms=0,
        broker=None,
        invoked_ns=op.invoked_ns,
        completed_ns=op.completed_ns,
        outcome=op.outcome,
    )


def _bounds(op: Op) -> Bounds:
    return Bounds(
        run=RUN,
        op=op.op,
        phase=op.phase,
        topic="log",
        partition=0,
        log_start=0,
        log_end=2,
        read_to=2,
        error=None,
        invoked_ns=op.invoked_ns,
        completed_ns=op.completed_ns,
    )


def _fault() -> FaultRow:
    return FaultRow(
        run=RUN,
        clock="none",
        fault=0,
        name="kill",
        rule="b1",
        targets=("b1",),
        settings="{}",
        status=FaultStatus.HEALED,
        planned_ns=0,
        injecting_ns=0,
        proved_ns=1,
        healing_ns=2,
        healed_ns=3,
        proof="",
        heal_proof="",
        detail=None,
    )
