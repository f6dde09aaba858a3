"""What one client process did, into the run's journal: invocations before they are sent, completions soon after.

The rule that makes a killed run judgeable: **an invocation is in the kernel's hands before its request is sent**, so
that no record can be read whose send the history does not know. Completions and read records may be lost with the
process (at most 100 ms of them): the op then counts as unknown, which is true. Files of writer 3, as `frame` has them:

    journal/3.invocations   rows of INVOCATION (journal.py): a frame per call of `invoke*`, written under a lock: op order, no gaps
    journal/3.completions   COMPLETIONS, 3.reads READS, 3.bounds BOUNDS_ASKED: Arrow batches, one each per flush
    journal/3.positions     POSITIONS_FOUND: an Arrow batch per call, written at once

Op ids are `writer << 40 | counter`: unique in the run without talking to anyone. So are process numbers, `counter * 1000 + writer`,
which people read: they are in every value and every sentence.

How it stays cheap: completions and reads are kept as the columns they came in (a list append: atomic, no lock); a
flusher thread that sleeps while nothing happens joins them into batches. What goes wrong there (disk full) fails the
client's next call: a client must not go on unrecorded.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from harness.history.frame import FrameFile, FrameKind, Identity, encode
from harness.history.journal import (
    BOUNDS_ASKED,
    COMPLETIONS,
    INVOCATION,
    KIND,
    OUTCOME,
    PHASE,
    POSITIONS_FOUND,
    PROCESS_STRIDE,
    READS,
    TRANSACTION,
    WRITER_SHIFT,
    WRITERS,
)
from workloads.op import OpKind, Outcome, Phase
from workloads.workload import Positions, Reads

FLUSH_SECONDS = 0.05
BUFFERED_ROWS = 100_000  # about; then whoever records helps to flush


class RecordingError(Exception):
    """The journal could not be written; the client must stop, since what it does from here on would be unknown."""


class _Completed(NamedTuple):
    """Ops that completed together; `columns` as in COMPLETIONS from `outcome` on, None: nothing in this column."""

    ops: Sequence[int]
    completed_ns: int
    records: int
    columns: tuple[Sequence[Any] | None, ...]


class JournalRecorder:
    """The `Recorder` of workloads/workload.py. Thread-safe. Columns handed over must not be changed afterwards."""

    def __init__(self, journal: Path, *, run: str, clock: str, writer: int, client: str) -> None:
        """FileExistsError when the journal has a writer with this number already."""
        if not 0 <= writer < WRITERS:
            raise ValueError(f"writer number {writer} is not within 0..{WRITERS - 1}")

        def file(table: str) -> FrameFile:
            identity = Identity(run=run, clock=clock, writer=writer, client=client, table=table)
            return FrameFile(journal / f"{writer}.{table}", identity)

        self._invocations = file("invocations")
        self._streams = {table: file(table) for table in ("completions", "reads", "bounds", "positions")}
        self._base = writer << WRITER_SHIFT
        readable = writer < PROCESS_STRIDE  # beyond, numbers as large as op ids
        self._processes = itertools.count(writer, PROCESS_STRIDE) if readable else itertools.count(self._base)
        self._next = 0
        self._open: set[int] = set()
        self._names: dict[str | None, int] = {None: -1}
        self._lock = threading.Lock()
        self._completed: list[_Completed] = []
        self._read: list[tuple[int, Reads]] = []
        self._asked: list[tuple[Any, ...]] = []
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._flushing = threading.Lock()
        self._buffered = 0
        self._failure: BaseException | None = None
        self._flusher = threading.Thread(target=self._flush_loop, name="recorder", daemon=True)
        self._flusher.start()

    now_ns = staticmethod(time.monotonic_ns)

    def new_process(self) -> int:
        return next(self._processes)

    def invoke_sends(
        self,
        *,
        client: str,
        phase: Phase,
        topics: Sequence[str],
        partitions: Sequence[int],
        processes: Sequence[int],
        sequences: Sequence[int],
        values: Sequence[str],
        transaction: int | None = None,
    ) -> range:
        rows = len(values)
        if not rows == len(topics) == len(partitions) == len(processes) == len(sequences):
            raise ValueError("topics, partitions, processes, sequences and values must be equally long")
        if rows == 0:
            return range(0)
        text = "".join(values)
        heap = text.encode()
        sizes: Iterable[int] = map(len, values) if len(heap) == len(text) else [len(value.encode()) for value in values]
        kind, phase_number = repeat(KIND[OpKind.SEND]), repeat(PHASE[phase])
        with self._lock:
            (by,), places = self._numbers((client,)), self._numbers(topics)
            now = repeat(time.monotonic_ns())
            packed = map(
                INVOCATION.pack, processes, sequences, now, partitions, sizes, repeat(by), places, kind, phase_number
            )
            return self._write(rows, b"".join((*packed, heap)), transaction)

    def invoke(
        self,
        *,
        client: str,
        kind: OpKind,
        phase: Phase,
        process: int,
        topic: str | None = None,
        partition: int | None = None,
        transaction: int | None = None,
    ) -> int:
        place = -1 if partition is None else partition
        with self._lock:
            by, name = self._numbers((client, topic))
            now = time.monotonic_ns()
            row = INVOCATION.pack(process, -1, now, place, -1, by, name, KIND[kind], PHASE[phase])
            return self._write(1, row, transaction).start

    def complete_sends(
        self,
        *,
        ops: Sequence[int],
        outcomes: Sequence[Outcome],
        errors: Sequence[str | None],
        offsets: Sequence[int | None],
        timestamps_ms: Sequence[int | None],
        leader_epochs: Sequence[int | None] | None = None,
        brokers: Sequence[int | None] | None = None,
    ) -> None:
        """ValueError when an op was never invoked here or completed before; nothing is recorded then."""
        rows = len(ops)
        if rows == 0:
            return
        columns = (outcomes, errors, brokers, offsets, leader_epochs, timestamps_ms)
        if any(column is not None and len(column) != rows for column in columns):
            raise ValueError("the columns of completed sends must be equally long")
        self._retire(ops)
        self._completed.append(_Completed(ops, time.monotonic_ns(), 1, columns))
        self._appended(rows)

    def complete(
        self,
        op: int,
        outcome: Outcome,
        *,
        error: str | None = None,
        broker: int | None = None,
        reads: Reads | None = None,
    ) -> None:
        """ValueError as `complete_sends`."""
        count = 0 if reads is None else len(reads.offsets)
        if reads is not None and any(len(column) != count for column in reads):
            raise ValueError("the columns of reads must be equally long")
        self._retire((op,))
        now = time.monotonic_ns()
        if reads is not None and count:
            self._read.append((op, reads))  # before its completion: a completion on disk always has its reads there too
        columns = ((outcome,), (error,), (broker,), None, None, None)
        self._completed.append(_Completed((op,), now, count, columns))
        self._appended(1 + count)

    def bounds(
        self,
        op: int,
        *,
        phase: Phase,
        topic: str,
        partition: int,
        log_start: int | None,
        log_end: int | None,
        read_to: int | None,
        error: str | None,
        stable_end: int | None = None,
    ) -> None:
        """Of an op that was invoked here; before or after its completion."""
        self._asked.append((op, PHASE[phase], topic, partition, log_start, log_end, read_to, error, stable_end))
        self._appended(1)

    def positions(self, op: int, found: Positions) -> None:
        """ValueError when the op was never invoked here, or was completed before, or the columns do not fit."""
        rows = len(found.offsets)
        if not rows == len(found.topics) == len(found.partitions):
            raise ValueError("the columns of positions must be equally long")
        if op not in self._open:
            raise ValueError(f"op {op} was never invoked here, or was completed before")
        of_op = (op, found.group, found.protocol, found.member, found.generation)
        columns = [*([value] * rows for value in of_op), found.topics, found.partitions, found.offsets]
        with self._lock:
            self._raise_failure()
            self._write_batch("positions", POSITIONS_FOUND, columns if rows else [])

    def flush(self) -> None:
        """Everything recorded so far is in the kernel's hands when this returns."""
        self._drain()
        self._raise_failure()

    def close(self) -> None:
        self._closing.set()
        self._wake.set()
        self._flusher.join()
        self._drain()
        for file in (self._invocations, *self._streams.values()):
            file.close()
        self._raise_failure()

    def __enter__(self) -> JournalRecorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _numbers(self, names: Sequence[str | None]) -> list[int]:
        """Numbers of names; new ones are written down first. The caller holds the lock."""
        try:
            return list(map(self._names.__getitem__, names))
        except KeyError:
            self._raise_failure()
            for name in dict.fromkeys(names):
                if name is not None and name not in self._names:
                    self._append(self._invocations, encode(FrameKind.NAME, 0, 0, name.encode()))
                    self._names[name] = len(self._names) - 1
            return list(map(self._names.__getitem__, names))

    def _write(self, rows: int, payload: bytes, transaction: int | None) -> range:
        """Append a frame of invocations and hand out their op ids. The caller holds the lock."""
        self._raise_failure()
        first = self._next
        kind = FrameKind.INVOCATIONS
        if transaction is not None:
            kind, payload = FrameKind.TRANSACTION, TRANSACTION.pack(transaction) + payload
        self._append(self._invocations, encode(kind, rows, first, payload))
        self._next = first + rows
        ops = range(self._base + first, self._base + self._next)
        self._open.update(ops)
        return ops

    def _retire(self, ops: Sequence[int]) -> None:
        if not self._open.issuperset(ops):
            op = next(op for op in ops if op not in self._open)
            raise ValueError(f"op {op} was never invoked here, or was completed before")
        self._open.difference_update(ops)

    def _appended(self, rows: int) -> None:
        if not self._wake.is_set():
            self._wake.set()
        self._buffered += rows  # threads may lose each other's addition: it is a limit for memory, not a count
        if self._buffered > BUFFERED_ROWS:
            self.flush()

    def _append(self, file: FrameFile, frame: bytes) -> None:
        try:
            file.append(frame)
        except OSError as error:
            self._failure = error
            raise RecordingError(f"{file.path}: {error}") from error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise RecordingError(f"the journal could not be written: {self._failure}") from self._failure

    def _flush_loop(self) -> None:
        while not self._closing.is_set():
            self._wake.wait()
            self._closing.wait(FLUSH_SECONDS)
            self._drain()

    def _drain(self) -> None:
        """Write what is buffered. Never raises: a failure is kept for the next call of a client."""
        with self._flushing:
            self._wake.clear()
            self._buffered = 0
            if self._failure is not None:
                return
            try:
                completed, read, asked = _take(self._completed), _take(self._read), _take(self._asked)
                self._write_batch("reads", READS, _read_columns(read))
                self._write_batch("bounds", BOUNDS_ASKED, list(zip(*asked, strict=True)))
                self._write_batch("completions", COMPLETIONS, _completion_columns(completed))
            except Exception as error:  # noqa: BLE001  a thread has nobody to raise to; the client's next call does it
                self._failure = error

    def _write_batch(self, table: str, schema: pa.Schema, columns: Sequence[Any]) -> None:
        if columns:
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            for field, array in zip(schema, arrays, strict=True):
                if array.null_count and not field.nullable:
                    raise ValueError(f"{table}: {field.name} may not be None")
            batch = pa.record_batch(arrays, schema=schema)
            frame = encode(FrameKind.BATCH, batch.num_rows, 0, memoryview(batch.serialize()))
            self._append(self._streams[table], frame)


def _take(rows: list[Any]) -> list[Any]:
    """Empty a list that others append to: slicing and deleting a prefix are atomic, and appends go behind it."""
    taken = rows[:]
    del rows[: len(taken)]
    return taken


def _completion_columns(completed: Sequence[_Completed]) -> list[Any]:
    if not completed:
        return []
    sizes = [len(chunk.ops) for chunk in completed]
    outcomes, *others = [
        list(chain.from_iterable(repeat(None, size) if column is None else column for column, size in pairs))
        for pairs in (
            list(zip(column, sizes, strict=True)) for column in zip(*(c.columns for c in completed), strict=True)
        )
    ]
    return [
        list(chain.from_iterable(chunk.ops for chunk in completed)),
        np.repeat(np.array([chunk.completed_ns for chunk in completed], dtype=np.int64), sizes),
        np.repeat(np.array([chunk.records for chunk in completed], dtype=np.int64), sizes),
        list(map(OUTCOME.__getitem__, outcomes)),
        *others,
    ]


def _read_columns(read: Sequence[tuple[int, Reads]]) -> list[Any]:
    if not read:
        return []
    sizes = [len(reads.offsets) for _, reads in read]
    return [
        np.repeat(np.array([op for op, _ in read], dtype=np.int64), sizes),
        list(chain.from_iterable(map(range, sizes))),
        *(list(chain.from_iterable(column)) for column in zip(*(reads for _, reads in read), strict=True)),
    ]
