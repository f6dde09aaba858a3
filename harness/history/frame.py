"""The journal's file format: frames, each whole or not there.

Why not plain Arrow IPC streams: (1) they carry no checksums, so that a flipped byte in the middle of a journal would
become a false anomaly or hide a true one; (2) a one-row Arrow batch costs about 40 us and 1 KB, a one-row frame 2 us
and 100 bytes, and a process with one request in flight pays that for every op. So a journal is a sequence of
checksummed frames; where many rows come together (completions, reads, bounds, faults, events) the payload of a frame
is an Arrow record batch, only invocations have a row format of their own (`recorder.INVOCATION`).

    header (28 bytes, little endian):  magic "kJ", kind, 0, rows, length, first, CRC-32 of the payload, CRC-32 of the
    header before it payload (`length` bytes)

The first frame of a file is its IDENTITY (JSON). Frames are appended by one write(2) each. The threat is SIGKILL of
the writer, not power loss: what was written is in the kernel's hands and needs no fsync. A killed write leaves a
prefix, so a file may end in a torn frame, which was never reported as written; that is tolerated and counted.
Anything else that does not add up is corruption. The header has a checksum of its own, so that a damaged length in
the middle cannot pass for a torn end and take all later frames with it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import IntEnum
from pathlib import Path
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from harness.history.errors import HistoryError

JOURNAL_FORMAT = 1
MAGIC = b"kJ"
_FIELDS = Struct("<2sBBIIqI")
_CHECK = Struct("<I")
_HEADER = Struct("<2sBBIIqII")
HEADER_BYTES = _HEADER.size
PAYLOAD_LIMIT = 1 << 30
_READ_BYTES = 8 << 20


class FrameKind(IntEnum):
    IDENTITY = 0  # JSON of `Identity`; the first frame of every file, only there
    NAME = 1  # UTF-8 of a name; its number is its place among the NAME frames of the file
    INVOCATIONS = 2  # rows of recorder.INVOCATION, then the UTF-8 of their values; `first`: op counter of the first row
    BATCH = 3  # an Arrow IPC record batch message, schema by the file's table
    TRANSACTION = 4  # INVOCATIONS of one transaction: the op id of its begin (8 bytes), then as INVOCATIONS


_KINDS = {int(kind): kind for kind in FrameKind}


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who writes a journal file. `writer` is unique in the run and part of its op ids and process numbers."""

    run: str
    clock: str
    writer: int
    client: str
    table: str
    format: int = JOURNAL_FORMAT


class Frame(NamedTuple):
    kind: FrameKind
    rows: int
    first: int
    payload: memoryview
    at: int  # byte offset of its header


def encode(kind: FrameKind, rows: int, first: int, payload: bytes | memoryview) -> bytes:
    fields = _FIELDS.pack(MAGIC, kind, 0, rows, len(payload), first, crc32(payload))
    return b"".join((fields, _CHECK.pack(crc32(fields)), payload))


class FrameFile:
    """An append-only journal file of one live writer; a shared flock says so for as long as the process lives."""

    def __init__(self, path: Path, identity: Identity) -> None:
        """Creates the file; FileExistsError when another writer has the same number."""
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        fcntl.flock(self._fd, fcntl.LOCK_SH)
        self.append(encode(FrameKind.IDENTITY, 0, 0, json.dumps(asdict(identity)).encode()))

    def append(self, frame: bytes) -> None:
        """In the kernel's hands when it returns. After an OSError (disk full) append nothing more: the end is torn."""
        written = os.write(self._fd, frame)
        while written < len(frame):
            written += os.write(self._fd, memoryview(frame)[written:])

    def close(self) -> None:
        os.close(self._fd)


class FrameReader:
    """Frames of one journal file, in order, checked. After an iteration `torn_bytes` says how long a torn end was."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn_bytes = 0

    def identity(self) -> Identity | None:
        """None: the writer died before it could write one (then there is nothing else in the file)."""
        for frame in self._cut(block=4096):
            return self._identity_of(frame)
        return None

    def frames(self) -> Iterator[Frame]:
        """All frames but the IDENTITY. Payloads are views into a buffer that lives as long as they do."""
        for number, frame in enumerate(self._cut(block=_READ_BYTES)):
            if (frame.kind == FrameKind.IDENTITY) != (number == 0):
                raise self._corrupt(frame.at, "the identity frame is missing, or not the first one")
            if number:
                yield frame

    def frame_at(self, offset: int, payload_bytes: int) -> Frame:
        """One frame again, by the place and the size with which it was seen."""
        with self.path.open("rb", buffering=0) as file:
            data = memoryview(os.pread(file.fileno(), HEADER_BYTES + payload_bytes, offset))
        kind, rows, length, first, check = self._header(data, 0, offset)
        if length != len(data) - HEADER_BYTES:
            raise self._corrupt(offset, "the file changed while it was read")
        return self._frame(kind, rows, first, data[HEADER_BYTES:], check, offset)

    def _identity_of(self, frame: Frame) -> Identity:
        try:
            if frame.kind != FrameKind.IDENTITY:
                raise ValueError("its first frame is not an identity")
            identity = Identity(**json.loads(bytes(frame.payload)))
        except (ValueError, TypeError) as error:
            raise self._corrupt(frame.at, f"not a journal of krash: {error}") from error
        if identity.format != JOURNAL_FORMAT:
            raise self._corrupt(frame.at, f"journal format {identity.format}; this krash reads {JOURNAL_FORMAT}")
        return identity

    def _cut(self, block: int) -> Iterator[Frame]:
        """Read blocks and cut frames out of them; a frame that crosses a block's end starts the next block."""
        self.torn_bytes = 0
        with self.path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            base, needed = 0, block
            while base < size:
                data = memoryview(os.pread(file.fileno(), min(needed, size - base), base))
                at, end = 0, len(data)
                needed = block
                while end - at >= HEADER_BYTES:
                    kind, rows, length, first, check = self._header(data, at, base)
                    after = at + HEADER_BYTES + length
                    if after > end:
                        needed = max(block, after - at)
                        break
                    yield self._frame(kind, rows, first, data[at + HEADER_BYTES : after], check, base + at)
                    at = after
                base += at
                if at < end and base + end - at >= size:
                    self._torn_end(data[at:], base)
                    return

    def _torn_end(self, rest: memoryview, at: int) -> None:
        """What is left at the end of the file and is not a whole frame: the prefix of one, or foreign bytes."""
        if bytes(rest[: len(MAGIC)]) != MAGIC[: len(rest)]:
            raise self._corrupt(at, "not a frame: corrupt, or not a journal of krash")
        self.torn_bytes = len(rest)

    def _header(self, data: memoryview, at: int, base: int) -> tuple[int, int, int, int, int]:
        magic, kind, _, rows, length, first, check, own = _HEADER.unpack_from(data, at)
        if magic != MAGIC:
            raise self._corrupt(base + at, "not a frame: corrupt, or not a journal of krash")
        if crc32(data[at : at + _FIELDS.size]) != own or length > PAYLOAD_LIMIT or kind not in _KINDS:
            raise self._corrupt(base + at, "the header of this frame is corrupt")
        return kind, rows, length, first, check

    def _frame(self, kind: int, rows: int, first: int, payload: memoryview, check: int, at: int) -> Frame:
        if crc32(payload) != check:
            raise self._corrupt(at, "the payload of this frame is corrupt (checksum)")
        return Frame(_KINDS[kind], rows, first, payload, at)

    def _corrupt(self, at: int, reason: str) -> HistoryError:
        return HistoryError(self.path, f"byte {at}", reason)
