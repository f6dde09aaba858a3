"""Frames of the wire gate, into the run's journal: the recorder for the one table that gets tens of thousands of rows a second.

`write` packs a frame into bytes (about 1 us); `flush`, called every 50 ms, makes one Arrow batch of MESSAGES of them, strings by their
numbers. A frame is written when it has gone out or never will, so rows of held frames come late; `merge_messages` puts them in order.

    journal/1000001.messages      frames (frame.py) of MESSAGES
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import Any, Final

import numpy as np
import pyarrow as pa

from harness.history.frame import FrameFile, FrameKind, FrameReader, Identity, encode
from harness.history.merge import decoded
from harness.history.tables import MESSAGES_TABLE
from nemesis.wire.apis import api_name
from nemesis.wire.frame import Frame
from nemesis.wire.message import MESSAGES

BLOCK_SHIFT: Final = 16
_ROW: Final = Struct("<qqqqqqiiiiiiihhB")
_FIELDS: Final = np.dtype(
    [
        ("message", "<i8"),
        ("connection", "<i8"),
        ("answers", "<i8"),  # -1: none
        ("size", "<i8"),
        ("in_ns", "<i8"),
        ("out_ns", "<i8"),  # -1: none
        ("correlation", "<i4"),
        ("source", "<i4"),  # numbers of strings; 0 is None
        ("destination", "<i4"),
        ("client_id", "<i4"),
        ("action", "<i4"),
        ("rule", "<i4"),
        ("error", "<i4"),
        ("api", "<i2"),
        ("version", "<i2"),
        ("is_response", "u1"),
    ]
)
_STRINGS: Final = ("source", "destination", "client_id", "action", "rule", "error")
_MANY_STRINGS: Final = 100_000  # client ids that never repeat must not fill the memory


class MessageRecorder:
    """The `Recorder` of nemesis/wire/engine.py. Not thread-safe: the gate has one thread."""

    def __init__(self, journal: Path, *, run: str, clock: str, writer: int) -> None:
        identity = Identity(run=run, clock=clock, writer=writer, client="", table=MESSAGES_TABLE.name)
        self._file = FrameFile(journal / f"{writer}.{MESSAGES_TABLE.name}", identity)
        self._run, self._clock = run, clock
        self._rows = bytearray()
        self._fields: dict[int, str] = {}  # place of a row -> its decoded fields
        self._count = 0
        self._numbers: dict[str | None, int] = {None: 0}
        self._directions = pa.array(["request", "response"])

    def write(self, frame: Frame) -> None:
        number = self._number
        request, decoded, out_ns, link = frame.request, frame.decoded, frame.out_ns, frame.connection
        here, there = number(link.source), number(link.destination)
        error = None
        if decoded is not None:
            self._fields[self._count] = decoded.as_text()
            error = decoded.error
        self._count += 1
        self._rows += _ROW.pack(
            frame.message,
            link.number,
            -1 if request is None else request.message,
            frame.size,
            frame.in_ns,
            -1 if out_ns is None else out_ns,
            frame.correlation,
            here if request is None else there,
            there if request is None else here,
            number(frame.client_id),
            number(frame.action),
            number(frame.rule),
            number(error),
            frame.api,
            frame.version,
            request is not None,
        )

    def flush(self) -> None:
        if not self._count:
            return
        batch = self._batch(np.frombuffer(self._rows, dtype=_FIELDS))
        self._file.append(encode(FrameKind.BATCH, batch.num_rows, 0, memoryview(batch.serialize())))
        self._rows, self._fields, self._count = bytearray(), {}, 0
        if len(self._numbers) > _MANY_STRINGS:
            self._numbers = {None: 0}

    def close(self) -> None:
        self.flush()
        self._file.close()

    def _number(self, text: str | None) -> int:
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self._numbers)
        return number

    def _batch(self, rows: Any) -> pa.RecordBatch:
        strings = pa.array([None if text is None else str(text) for text in self._numbers], pa.string())
        apis, places = np.unique(rows["api"], return_inverse=True)
        fields = [None] * len(rows)
        for place, text in self._fields.items():
            fields[place] = text  # type: ignore[call-overload]
        columns: dict[str, Any] = {name: strings.take(pa.array(rows[name])) for name in _STRINGS}
        columns |= {
            "run": pa.repeat(self._run, len(rows)),
            "clock": pa.repeat(self._clock, len(rows)),
            "direction": self._directions.take(pa.array(rows["is_response"])),
            "api_name": pa.array([api_name(int(api)) for api in apis]).take(pa.array(places)),
            "answers": pa.array(rows["answers"], mask=rows["answers"] < 0),
            "out_ns": pa.array(rows["out_ns"], mask=rows["out_ns"] < 0),
            "fields": pa.array(fields, pa.string()),
        }
        return pa.RecordBatch.from_arrays(
            [
                columns[name] if name in columns else pa.array(np.ascontiguousarray(rows[name]))
                for name in MESSAGES.names
            ],
            schema=MESSAGES,
        )


def merge_messages(path: Path, emit: Callable[[pa.RecordBatch], None]) -> int:
    """Hand all rows of one writer to `emit`, ordered by `message`, a block of 65,536 numbers at a time; bytes of a torn end.

    One pass notes which frames of the file speak of which block; then each block is put together from those.
    """
    reader = FrameReader(path)
    blocks: dict[int, list[tuple[int, int]]] = {}
    for frame in reader.frames():
        numbers = _numbers_of(decoded(path, frame, MESSAGES))
        for block in np.unique(numbers >> BLOCK_SHIFT).tolist():
            blocks.setdefault(block, []).append((frame.at, len(frame.payload)))
    for block in sorted(blocks):
        pieces = []
        for at, size in blocks[block]:
            batch = decoded(path, reader.frame_at(at, size), MESSAGES)
            inside = _numbers_of(batch) >> BLOCK_SHIFT == block
            pieces.append(batch if inside.all() else batch.filter(pa.array(inside)))
        rows = pa.Table.from_batches(pieces, schema=MESSAGES).sort_by(MESSAGES_TABLE.order).combine_chunks()
        for each in rows.to_batches():
            emit(each)
    return reader.torn_bytes


def _numbers_of(batch: pa.RecordBatch) -> Any:
    return batch.column(MESSAGES.get_field_index("message")).to_numpy()
