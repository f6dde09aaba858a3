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
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import IntEnum
from pathlib import Path
from zlib import crc32

from harness.history.errors import HistoryError

JOURNAL_FORMAT = 1
MAGIC = b"kJ"
_FIELDS = struct.Struct("<2sBBIIqI")
_CHECK = struct.Struct("<I")
HEADER_BYTES = _FIELDS.size + _CHECK.size
PAYLOAD_LIMIT = 1 << 30
_READ_BYTES = 8 << 20


class FrameKind(IntEnum):
    IDENTITY = 0  # JSON of `Identity`; the first frame of every file, only there
    NAME = 1  # UTF-8 of a name; its number is its place among the NAME frames of the file
    INVOCATIONS = (
        2  # rows of recorder.INVOCATION, then the UTF-8 of their values; `first` is the op counter of the first row
    )
    BATCH = 3  # an Arrow IPC record batch message, schema by the file's table


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who writes a journal file. `writer` is unique in the run and part of its op ids and process numbers."""

    run: str
    clock: str
    writer: int
    client: str
    table: str
    format: int = JOURNAL_FORMAT


@dataclass(frozen=True, slots=True)
class Frame:
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
        for frame in FrameReader(self.path)._frames(0):
            return self._identity_of(frame)
        return None

    def frames(self) -> Iterator[Frame]:
        """All frames but the IDENTITY. Payloads are views into a buffer that lives as long as they do."""
        for number, frame in enumerate(self._frames(0)):
            if (frame.kind == FrameKind.IDENTITY) != (number == 0):
                raise HistoryError(
                    self.path, f"byte {frame.at}", "the identity frame is not the first one, or is missing"
                )
            if number:
                yield frame

    def frame_at(self, offset: int) -> Frame:
        """One frame again, by the offset at which it was seen."""
        for frame in self._frames(offset, block=64 << 10):
            return frame
        raise HistoryError(
            self.path, f"byte {offset}", "a frame that was there is gone: the file changed while it was read"
        )

    def _identity_of(self, frame: Frame) -> Identity:
        try:
            if frame.kind != FrameKind.IDENTITY:
                raise ValueError("its first frame is not an identity")
            identity = Identity(**json.loads(bytes(frame.payload)))
        except (ValueError, TypeError) as error:
            raise HistoryError(self.path, f"byte {frame.at}", f"not a journal of krash: {error}") from error
        if identity.format != JOURNAL_FORMAT:
            raise HistoryError(
                self.path, f"byte {frame.at}", f"journal format {identity.format}; this krash reads {JOURNAL_FORMAT}"
            )
        return identity

    def _frames(self, offset: int, block: int = _READ_BYTES) -> Iterator[Frame]:
        """Reads blocks and cuts frames out of them; a frame that crosses a block's end starts the next block."""
        with self.path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            while offset < size:
                file.seek(offset)
                data = memoryview(file.read(min(block, size - offset)))
                used = 0
                while (length := self._whole(data, used, offset)) is not None and used + length <= len(data):
                    yield self._cut(data, used, offset)
                    used += length
                offset += used
                if used:
                    block = _READ_BYTES
                elif offset + max(length or HEADER_BYTES, 1) > size:
                    self.torn_bytes = size - offset
                    return
                else:
                    block = max(length or HEADER_BYTES, _READ_BYTES)

    def _whole(self, data: memoryview, at: int, base: int) -> int | None:
        """Length of the frame at `at`, header included; None when its header is not whole in `data`."""
        if len(data) - at < HEADER_BYTES:
            rest = bytes(data[at : at + 2])
            if rest != MAGIC[: len(rest)]:
                raise HistoryError(self.path, f"byte {base + at}", "not a frame: corrupt, or not a journal of krash")
            return None
        magic, kind, _, _, length, _, _ = _FIELDS.unpack_from(data, at)
        (check,) = _CHECK.unpack_from(data, at + _FIELDS.size)
        if magic != MAGIC:
            raise HistoryError(self.path, f"byte {base + at}", "not a frame: corrupt, or not a journal of krash")
        if crc32(data[at : at + _FIELDS.size]) != check or length > PAYLOAD_LIMIT or kind > FrameKind.BATCH:
            raise HistoryError(self.path, f"byte {base + at}", "the header of this frame is corrupt")
        return HEADER_BYTES + int(length)

    def _cut(self, data: memoryview, at: int, base: int) -> Frame:
        _, kind, _, rows, length, first, check = _FIELDS.unpack_from(data, at)
        payload = data[at + HEADER_BYTES : at + HEADER_BYTES + length]
        if crc32(payload) != check:
            raise HistoryError(self.path, f"byte {base + at}", "the payload of this frame is corrupt (checksum)")
        return Frame(FrameKind(kind), rows, first, payload, base + at)
