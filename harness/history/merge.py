"""From the journal of one writer to rows: invocations meet completions, reads and bounds get the times of their op.

Bounded memory, no loop over rows: op counters are dense and in file order, so invocations stream through in chunks of
some 10^5 ops, and for each chunk the frames of the other files that speak of its ops are fetched by an index (block of
2^16 ops -> offsets of frames) that one pass over those files made. A completion that comes minutes after its invocation
costs one more read of its frame, nothing else.

What a dead writer leaves is judged as it stands: an op without completion is unknown (`info`, no completion time).
Reads are written before their poll's completion; reads whose poll has none are left out and counted, since nobody can
say whether they are all. A completion without an invocation cannot be, and is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.history.errors import HistoryError
from harness.history.frame import Frame, FrameKind, FrameReader, Identity
from harness.history.journal import (
    BOUNDS_ASKED,
    COMPLETIONS,
    INVOCATION,
    INVOCATION_FIELDS,
    KINDS,
    OUTCOMES,
    PHASES,
    POSITIONS_FOUND,
    READS,
    TRANSACTION,
    WRITER_SHIFT,
)
from workloads.group import POSITIONS
from workloads.op import BOUNDS, OPS, RECORDS, OpKind, Outcome

CHUNK_ROWS = 1 << 18
CHUNK_BYTES = 128 << 20
BLOCK_SHIFT = 16
_ROW = np.dtype(INVOCATION_FIELDS)
_COUNTER = (1 << WRITER_SHIFT) - 1
_SEND = KINDS.index(OpKind.SEND)
_BEGIN = KINDS.index(OpKind.BEGIN)
_INFO = OUTCOMES.index(Outcome.INFO)
Ints = npt.NDArray[np.int64]
Emit = Callable[[str, pa.RecordBatch], None]


@dataclass(kw_only=True)
class Merged:
    """What a merge found. `torn`: file -> bytes of a torn end that were left out."""

    ops: int = 0
    never_completed: int = 0
    reads_left_out: int = 0
    torn: dict[str, int] = field(default_factory=dict)


@dataclass(kw_only=True)
class _Chunk:
    """Ops `first` .. `first + rows - 1` of a writer (counters), and the names that their numbers mean."""

    first: int
    rows: npt.NDArray[np.void]  # _ROW
    transactions: Ints  # op id of the begin of each op's transaction; -1: none
    values: pa.StringArray
    names: list[str]


def merge_writer(files: dict[str, Path], writer: int, identity: Identity | None, emit: Emit) -> Merged:
    """Hand the rows of one writer to `emit(table, batch)`, in op order per table, each batch a fit row group.

    files: "invocations" and, unless the writer died while it made them, "completions", "reads", "bounds" and "positions".
    """
    merged = Merged()
    schemas = {"completions": COMPLETIONS, "reads": READS, "bounds": BOUNDS_ASKED, "positions": POSITIONS_FOUND}
    others = {table: _Indexed(files[table], schema, writer) for table, schema in schemas.items() if table in files}
    reader = FrameReader(files["invocations"])
    for chunk in _chunks(reader):
        if missing := sorted(schemas.keys() - others.keys()):
            path = files["invocations"].with_name(f"{writer}.{missing[0]}")
            raise HistoryError(path, "", "missing, although this writer recorded")
        assert identity is not None  # a file without identity has no frames
        _merge_chunk(chunk, writer, identity, others, emit, merged)
        merged.ops += len(chunk.rows)
    for file in (reader, *(other.reader for other in others.values())):
        if file.torn_bytes:
            merged.torn[file.path.name] = file.torn_bytes
    for other in others.values():
        other.expect_below(merged.ops)
    return merged


def _merge_chunk(
    chunk: _Chunk, writer: int, identity: Identity, others: dict[str, _Indexed], emit: Emit, merged: Merged
) -> None:
    rows, count = chunk.rows, len(chunk.rows)
    completions = others["completions"].of(chunk.first, count)
    done = _one_per_op(completions, chunk, others["completions"].path)
    kinds = rows["kind"]
    is_send = kinds == _SEND
    records = _ints(_filled(done["count"], 0))
    ops = {
        "run": pa.repeat(identity.run, count),
        "clock": pa.repeat(identity.clock, count),
        "op": _int64((writer << WRITER_SHIFT) + chunk.first + np.arange(count)),
        "client": _named(rows["client"], chunk.names),
        "process": _int64(rows["process"]),
        "kind": _coded(kinds, KINDS),
        "phase": _coded(rows["phase"], PHASES),
        "topic": _named(rows["topic"], chunk.names),
        "partition": _int32(rows["partition"]),
        "invoked_ns": _int64(rows["invoked_ns"]),
        "completed_ns": done["completed_ns"],
        "outcome": _coded(_ints(_filled(done["outcome"], _INFO)), OUTCOMES),
        "error": done["error"],
        "broker": done["broker"],
        "count": _int64(np.where(is_send, 1, records)),
    }
    ops["transaction"] = _transactions(chunk, ops["op"])
    early = _ints(_filled(done["completed_ns"], np.iinfo(np.int64).max)) < rows["invoked_ns"]
    if early.any():
        op = ops["op"][int(early.argmax())]
        raise HistoryError(others["completions"].path, "", f"op {op} completed before it was invoked")
    merged.never_completed += done["completed_ns"].null_count
    emit("ops", _batch(OPS, ops))
    _emit_sends(ops, done, chunk, is_send, emit)
    missing = np.where(is_send, 0, records)
    for reads in others["reads"].groups(chunk.first, count):
        missing -= _emit_reads(ops, reads, chunk, emit, merged)
    if missing.any():
        op = ops["op"][int(np.abs(missing).argmax())]
        what = f"the records that poll {op} read are not those that it counted: this file is damaged or cut"
        raise HistoryError(others["reads"].path, "", what)
    for asked in others["bounds"].groups(chunk.first, count):
        places = _places(asked, chunk)
        columns = {name: asked[name] for name in BOUNDS.names if name in asked.column_names}
        columns |= {name: ops[name].take(places) for name in ("run", "invoked_ns", "completed_ns")}
        columns["phase"] = _coded(_ints(asked["phase"]), PHASES)
        emit("bounds", _batch(BOUNDS, columns))
    for found in others["positions"].groups(chunk.first, count):
        places = _places(found, chunk)
        columns = {
            name: found[name] if name in found.column_names else ops[name].take(places) for name in POSITIONS.names
        }
        emit("positions", _batch(POSITIONS, columns))


def _transactions(chunk: _Chunk, ids: pa.Array) -> pa.Array:
    """Each op's transaction; a begin is of its own."""
    named = np.where(chunk.rows["kind"] == _BEGIN, _int64_view(ids), chunk.transactions)
    return pa.array(named, mask=named < 0)


def _emit_sends(
    ops: dict[str, Any], done: dict[str, Any], chunk: _Chunk, is_send: npt.NDArray[np.bool_], emit: Emit
) -> None:
    if not is_send.any():
        return
    count = len(chunk.rows)
    columns = {name: ops[name] for name in RECORDS.names if name in ops}
    columns |= {name: done[name] for name in ("offset", "leader_epoch", "timestamp_ms")}
    columns["position"] = _int32(np.zeros(count))
    columns["sequence"] = _int64(chunk.rows["sequence"])
    columns["value"] = chunk.values
    batch = _batch(RECORDS, columns)
    emit("records", batch if is_send.all() else batch.filter(pa.array(is_send)))


def _emit_reads(ops: dict[str, Any], reads: pa.Table, chunk: _Chunk, emit: Emit, merged: Merged) -> Ints:
    """Returns how many records it emitted for each op of the chunk."""
    places = _places(reads, chunk)
    completed = ops["completed_ns"].take(places)
    if completed.null_count:
        merged.reads_left_out += completed.null_count
        reads = reads.filter(completed.is_valid())
        places = _places(reads, chunk)
    columns = {name: reads[name] for name in RECORDS.names if name in reads.column_names}
    of_op = ("run", "client", "process", "kind", "phase", "broker", "invoked_ns", "completed_ns", "outcome")
    columns |= {name: ops[name].take(places) for name in of_op}
    columns |= {name: pa.nulls(len(reads), pa.int64()) for name in ("sequence", "transaction")}
    if len(reads):
        emit("records", _batch(RECORDS, columns))
    return np.bincount(_ints(places), minlength=len(chunk.rows))


def _one_per_op(completions: pa.Table, chunk: _Chunk, path: Path) -> dict[str, Any]:
    """Columns of COMPLETIONS with one row for each op of the chunk, null where it never completed."""
    count = len(chunk.rows)
    places = _ints(_places(completions, chunk))
    row_of = np.full(count, -1, dtype=np.int64)
    row_of[places] = np.arange(len(places))
    if np.count_nonzero(row_of >= 0) != len(places):
        twice = int(np.bincount(places, minlength=count).argmax())
        raise HistoryError(path, "", f"op {chunk.first + twice} (counter) completed twice")
    take = pa.array(row_of, mask=row_of < 0)
    return {name: completions[name].combine_chunks().take(take) for name in COMPLETIONS.names[1:]}


def _chunks(reader: FrameReader) -> Iterator[_Chunk]:
    names: list[str] = []
    gathered = _Gathered(first=0)
    counter = 0
    for frame in reader.frames():
        if frame.kind == FrameKind.NAME:
            names.append(str(frame.payload, "utf-8"))
            continue
        if frame.kind not in (FrameKind.INVOCATIONS, FrameKind.TRANSACTION) or frame.first != counter:
            raise HistoryError(reader.path, f"byte {frame.at}", f"expected the invocation of op {counter} (counter)")
        counter += frame.rows
        gathered.add(frame)
        if counter - gathered.first >= CHUNK_ROWS or len(gathered.heap) >= CHUNK_BYTES:
            yield gathered.chunk(reader.path, names)
            gathered = _Gathered(first=counter)
    if counter > gathered.first:
        yield gathered.chunk(reader.path, names)


class _Gathered:
    """Frames on their way to a chunk, as bytes: a million objects that wait would cost more in garbage collection."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.fixed, self.heap = bytearray(), bytearray()
        self.transactions: list[tuple[int, int, int]] = []  # first row, row after the last, op id of the begin
        self.expected = 0
        self.at: tuple[int, int] | None = None

    def add(self, frame: Frame) -> None:
        payload = frame.payload
        if frame.kind == FrameKind.TRANSACTION:
            (begin,) = TRANSACTION.unpack_from(payload)
            payload = payload[TRANSACTION.size :]
            self.transactions.append((self.expected, self.expected + frame.rows, begin))
        split = frame.rows * INVOCATION.size
        self.fixed += payload[:split]
        self.heap += payload[split:]
        self.expected += frame.rows
        self.at = (frame.at if self.at is None else self.at[0], frame.at)

    def chunk(self, path: Path, names: list[str]) -> _Chunk:
        assert self.at is not None
        where = f"bytes {self.at[0]} .. {self.at[1]}"
        if len(self.fixed) != self.expected * INVOCATION.size:
            raise HistoryError(path, where, "these invocations are cut short")
        rows = np.frombuffer(self.fixed, dtype=_ROW)
        sizes = rows["value_bytes"]
        ends = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(np.maximum(sizes, 0), out=ends[1:])
        if ends[-1] != len(self.heap):
            raise HistoryError(path, where, "the values of these invocations do not add up")
        if rows["kind"].max() >= len(KINDS) or rows["phase"].max() >= len(PHASES):
            raise HistoryError(path, where, "a kind or phase that this krash does not know")
        if max(rows["client"].max(), rows["topic"].max()) >= len(names) or rows["client"].min() < 0:
            raise HistoryError(path, where, "a name that was never written down")
        offsets, valid = pa.py_buffer(ends.astype(np.int32)), pa.array(sizes >= 0).buffers()[1]
        missing = int(np.count_nonzero(sizes < 0))
        values = pa.StringArray.from_buffers(len(rows), offsets, pa.py_buffer(self.heap), valid, missing)
        transactions = np.full(len(rows), -1, dtype=np.int64)
        for start, stop, begin in self.transactions:
            transactions[start:stop] = begin
        return _Chunk(first=self.first, rows=rows, transactions=transactions, values=values, names=names)


class _Indexed:
    """A journal file of Arrow batches about ops, and where in it the ops of a block are spoken of."""

    def __init__(self, path: Path, schema: pa.Schema, writer: int) -> None:
        self.path, self.schema = path, schema
        self.reader = FrameReader(path)
        self._blocks: dict[int, list[tuple[int, int]]] = {}
        self._last = (-1, 0)  # highest op counter, and the offset of a frame that has it
        for frame in self.reader.frames():
            counters = self._counters(frame, writer)
            highest = int(counters.max(initial=-1))
            self._last = max(self._last, (highest, frame.at))
            for block in np.unique(counters >> BLOCK_SHIFT).tolist():
                self._blocks.setdefault(block, []).append((frame.at, len(frame.payload)))

    def expect_below(self, ops: int) -> None:
        highest, at = self._last
        if highest >= ops:
            what = f"speaks of op {highest} (counter), but only {ops} were invoked: the invocations are damaged or lost"
            raise HistoryError(self.path, f"byte {at}", what)

    def of(self, first: int, count: int) -> pa.Table:
        """All rows about ops `first` .. `first + count - 1`."""
        tables = list(self.groups(first, count, rows=None))
        return tables[0] if tables else self.schema.empty_table()

    def groups(self, first: int, count: int, rows: int | None = CHUNK_ROWS) -> Iterator[pa.Table]:
        """The same in pieces of about `rows` rows."""
        low, high = first >> BLOCK_SHIFT, (first + count - 1) >> BLOCK_SHIFT
        places = sorted({place for block in range(low, high + 1) for place in self._blocks.get(block, ())})
        pieces: list[pa.RecordBatch] = []
        size = 0
        for at, length in places:
            batch = self._decoded(self.reader.frame_at(at, length))
            counters = _int64_view(batch.column(0)) & _COUNTER
            inside = (counters >= first) & (counters < first + count)
            pieces.append(batch if inside.all() else batch.filter(pa.array(inside)))
            size += pieces[-1].num_rows
            if rows is not None and size >= rows:
                yield pa.Table.from_batches(pieces, schema=self.schema)
                pieces, size = [], 0
        if size:
            yield pa.Table.from_batches(pieces, schema=self.schema)

    def _counters(self, frame: Frame, writer: int) -> Ints:
        ops = _int64_view(self._decoded(frame).column(0))
        if (ops >> WRITER_SHIFT != writer).any():
            raise HistoryError(self.path, f"byte {frame.at}", f"speaks of an op that is not of writer {writer}")
        return ops & _COUNTER

    def _decoded(self, frame: Frame) -> pa.RecordBatch:
        return decoded(self.path, frame, self.schema)


def decoded(path: Path, frame: Frame, schema: pa.Schema) -> pa.RecordBatch:
    """The Arrow batch of a frame, checked against its schema."""
    try:
        if frame.kind != FrameKind.BATCH:
            raise ValueError(f"frame kind {frame.kind.name}")
        batch = pa.ipc.read_record_batch(pa.py_buffer(frame.payload), schema)
        batch.validate()
        if batch.num_rows != frame.rows:
            raise ValueError(f"{batch.num_rows} rows instead of {frame.rows}")
        return batch
    except (pa.ArrowException, ValueError, OSError) as error:
        raise HistoryError(path, f"byte {frame.at}", f"not a batch of this table: {error}") from error


def _places(table: pa.Table, chunk: _Chunk) -> pa.Array:
    """For each row the place of its op in the chunk."""
    return pc.subtract(pc.bit_wise_and(table["op"].combine_chunks(), _COUNTER), chunk.first)


def _batch(schema: pa.Schema, columns: dict[str, Any]) -> pa.RecordBatch:
    arrays = [columns[name] for name in schema.names]
    flat = [array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array for array in arrays]
    return pa.record_batch(flat, schema=schema)


def _filled(array: Any, value: int) -> Any:
    return pc.fill_null(array, value)


def _ints(array: Any) -> Ints:
    flat = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return np.asarray(flat.cast(pa.int64()).to_numpy(zero_copy_only=False), dtype=np.int64)


def _int64_view(array: pa.Array) -> Ints:
    return np.frombuffer(array.buffers()[1], dtype=np.int64)[array.offset : array.offset + len(array)]


def _int64(numbers: npt.NDArray[Any]) -> pa.Array:
    return pa.array(np.ascontiguousarray(numbers, dtype=np.int64))


def _int32(numbers: npt.NDArray[Any]) -> pa.Array:
    """Negative means none."""
    plain = np.ascontiguousarray(numbers, dtype=np.int32)
    return pa.array(plain, mask=plain < 0)


def _coded(numbers: npt.NDArray[Any], names: Iterable[str]) -> pa.Array:
    return _named(numbers, list(map(str, names)))


def _named(numbers: npt.NDArray[Any], names: list[str]) -> pa.Array:
    """Numbers to names; -1 means none."""
    plain = np.ascontiguousarray(numbers, dtype=np.int32)
    return pa.DictionaryArray.from_arrays(
        pa.array(plain, mask=plain < 0), pa.array(names, pa.string())
    ).dictionary_decode()
