"""A tiny history, to warm a session up: what a first judgement loads, this loads; with a lost write also what explains one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.history.rundir import HISTORY, RunInfo, write_run_info
from harness.history.tables import TABLES
from workloads.op import Bounds, Op, OpKind, Outcome, Phase, Record

_RUN = "sample"


def save_sample(run_dir: Path, *, lost: bool) -> Path:
    """Write it as a run directory. Of the offsets 0..2 all are read in the end; `lost`: but the second."""
    kept = (0, 2) if lost else (0, 1, 2)
    sends = [_record(offset, OpKind.SEND, Phase.MAIN, offset) for offset in range(3)]
    reads = [_record(3, OpKind.POLL, Phase.FINAL, offset, position) for position, offset in enumerate(kept)]
    rows: dict[str, list[Any]] = {
        "ops": [_op(record) for record in (*sends, reads[0])],
        "records": [*sends, *reads],
        "bounds": [
            Bounds(
                run=_RUN,
                op=4,
                phase=Phase.FINAL,
                topic="log",
                partition=0,
                log_start=0,
                log_end=3,
                read_to=3,
                error=None,
                invoked_ns=400,
                completed_ns=410,
            )
        ],
    }
    run_dir.mkdir(parents=True)
    write_run_info(run_dir, RunInfo(run=_RUN))
    for name, table in TABLES.items():
        folder = run_dir / HISTORY / name
        folder.mkdir(parents=True)
        pq.write_table(
            pa.Table.from_pylist([asdict(row) for row in rows.get(name, [])], schema=table.schema), folder / "0.parquet"
        )
    return run_dir


def _record(op: int, kind: OpKind, phase: Phase, offset: int, position: int = 0) -> Record:
    return Record(
        run=_RUN,
        op=op,
        client="w1.p0",
        process=1 if kind == OpKind.SEND else 2,
        kind=kind,
        phase=phase,
        position=position,
        sequence=op if kind == OpKind.SEND else None,
        topic="log",
        partition=0,
        offset=offset,
        value=str(offset),
        leader_epoch=None,
        timestamp_ms=None,
        broker=None,
        invoked_ns=100 * op,
        completed_ns=100 * op + 10,
        outcome=Outcome.OK,
    )


def _op(record: Record) -> Op:
    return Op(
        run=_RUN,
        clock="sample",
        op=record.op,
        client=record.client,
        process=record.process,
        kind=record.kind,
        phase=record.phase,
        topic=record.topic,
        partition=record.partition,
        invoked_ns=record.invoked_ns,
        completed_ns=record.completed_ns,
        outcome=record.outcome,
        error=None,
        broker=None,
        count=1,
    )
