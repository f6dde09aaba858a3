"""Large clean histories, straight into Parquet with NumPy: each record is sent, read by one consumer, and read again at
the end (three rows per record).

Sends of a log are invoked 10 us apart and take 1 to 20 ms, so that some thousand overlap; offsets follow an instant
drawn inside each interval, so the history is linearizable, and within each client they follow the sequence. A log is made
block by block, so that one of 10^8 records needs no more memory than one of 10^6 (offsets do not cross blocks: those sends
were invoked in that order anyway).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.history.rundir import RunInfo, write_run_info
from harness.history.tables import TABLES
from tests.harness.checker.stories import SAFE
from workloads.op import BOUNDS, OPS, RECORDS

_CLIENTS = 4
_POLL = 500  # records per poll
_BLOCK = 1_000_000  # records; a multiple of both
_ROW_GROUP = 1 << 18
_FINAL_NS = 10**13
Ints = npt.NDArray[np.int64]


def save_bulk(run_dir: Path, *, records: int, logs: int = 12, run: str = "2026-11-21T10-14-03-chaos-1f3a") -> Path:
    """`records` sends over `logs` partitions of one topic, as a run directory."""
    run_dir.mkdir(parents=True)
    topic = {"name": "log", "partitions": logs, "replication": 3, "config": {}}
    write_run_info(run_dir, RunInfo(run=run, spec={"workload": SAFE}, topics=[topic]))
    for name, table in TABLES.items():
        (run_dir / "history" / name).mkdir(parents=True)
        if name not in ("ops", "records", "bounds"):
            pq.write_table(table.schema.empty_table(), run_dir / "history" / name / "0.parquet")
    per = records // logs
    bounds = []
    with _writer(run_dir, "records", RECORDS) as out, _writer(run_dir, "ops", OPS) as ops:
        for log in range(logs):
            for table in _log(run, log, per, np.random.default_rng(log)):
                out.write_table(table, row_group_size=_ROW_GROUP)
                ops.write_table(_ops(table), row_group_size=_ROW_GROUP)
            bounds.append(
                {"run": run, "op": 10**12 + log, "phase": "final", "topic": "log", "partition": log, "log_start": 0, "log_end": per,
                 "read_to": per, "error": None, "invoked_ns": 2 * _FINAL_NS, "completed_ns": 2 * _FINAL_NS + 1}
            )  # fmt: skip
    with _writer(run_dir, "bounds", BOUNDS) as out:
        out.write_table(pa.Table.from_pylist(bounds, schema=BOUNDS))
    return run_dir


def _writer(run_dir: Path, name: str, schema: pa.Schema) -> Any:
    return pq.ParquetWriter(
        run_dir / "history" / name / "0.parquet", schema, compression="zstd", write_page_checksum=True
    )


def _log(run: str, log: int, count: int, rng: np.random.Generator) -> Iterator[pa.Table]:
    seen = 0
    for begin in range(0, count, _BLOCK):
        number = np.arange(begin, min(begin + _BLOCK, count))
        tables, seen = _block(run, log, count, number, rng, seen)
        yield from tables


def _block(
    run: str, log: int, whole: int, number: Ints, rng: np.random.Generator, seen_before: int
) -> tuple[list[pa.Table], int]:
    """Sends and reads of some records, and when the last of all so far was acknowledged. `whole`: records of the log."""
    count = len(number)
    invoked = number * 10_000 + log
    completed = invoked + rng.integers(1_000_000, 20_000_000, count)
    client = number % _CLIENTS
    instant = np.empty(count, np.int64)
    for one in range(_CLIENTS):
        mine = client == one
        drawn = invoked[mine] + ((completed[mine] - invoked[mine]) * rng.random(int(mine.sum())) * 0.05).astype(
            np.int64
        )
        instant[mine] = np.maximum.accumulate(drawn)
    completed = np.maximum(completed, instant + 1)
    order = np.argsort(instant, kind="stable")
    offset = np.empty(count, np.int64)
    offset[order] = number
    parts = [
        _same("log", count),
        _same(str(log), count),
        *(pa.array(part).cast(pa.string()) for part in (client, number)),
    ]
    values = pc.binary_join_element_wise(*parts, "/")
    names = pa.DictionaryArray.from_arrays(
        pa.array(client.astype(np.int32)), [f"w1.p{one}" for one in range(_CLIENTS)]
    ).cast(pa.string())
    first = log * whole * 3
    sends = _table(
        run, "send", "main", log, op=first + number, client=names, process=number % 997 + 1000 * log, position=np.zeros(count, np.int64),
        sequence=pa.array(number // _CLIENTS), offset=offset, value=values, invoked=invoked, completed=completed,
    )  # fmt: skip
    poll = number // _POLL
    seen = np.maximum(np.maximum.accumulate(completed[order]), seen_before)
    ends = seen[np.minimum(poll * _POLL + _POLL - 1 - number[0], count - 1)]
    reads = []
    for place, (phase, after) in enumerate((("main", 1_000_000), ("final", _FINAL_NS))):
        reads.append(
            _table(
                run, "poll", phase, log, op=first + (1 + place) * whole + poll, client=_same("w1.c0", count),
                process=np.full(count, 10**6 * (1 + place) + log), position=number - poll * _POLL, sequence=pa.nulls(count, pa.int64()),
                offset=number, value=values.take(pa.array(order)), invoked=ends + after - 500_000, completed=ends + after,
            )
        )  # fmt: skip
    return [sends, *reads], int(seen[-1])


def _table(
    run: str, kind: str, phase: str, log: int, *, op: Ints, client: pa.Array, process: Ints, position: Ints,
    sequence: pa.Array, offset: Ints, value: pa.Array, invoked: Ints, completed: Ints,
) -> pa.Table:  # fmt: skip
    rows = len(op)
    columns = {
        "run": _same(run, rows),
        "op": pa.array(op),
        "client": client,
        "process": pa.array(process),
        "kind": _same(kind, rows),
        "phase": _same(phase, rows),
        "position": pa.array(position.astype(np.int32)),
        "sequence": sequence,
        "topic": _same("log", rows),
        "partition": pa.array(np.full(rows, log, np.int32)),
        "offset": pa.array(offset),
        "value": value,
        "invoked_ns": pa.array(invoked),
        "completed_ns": pa.array(completed),
        "outcome": _same("ok", rows),
    }
    return pa.table(
        [columns[name] if name in columns else pa.nulls(rows, RECORDS.field(name).type) for name in RECORDS.names],
        schema=RECORDS,
    )


def _ops(records: pa.Table) -> pa.Table:
    """One op per send, and one per poll."""
    first = records.filter(pc.equal(records["position"], 0))
    rows = first.num_rows
    extra = {"clock": _same("host", rows), "count": pa.array(np.ones(rows, np.int64))}
    names = [name for name in OPS.names if name in first.column_names]
    columns = {**{name: first[name] for name in names}, **extra}
    return pa.table(
        [columns[name] if name in columns else pa.nulls(rows, OPS.field(name).type) for name in OPS.names], schema=OPS
    )


def _same(text: str, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), [text]).cast(pa.string())
