"""One file of record batches and the sparse index over it, which is kept in memory only and made anew by the scan after a start.

A partition has one file, however long: nothing is ever deleted from its front (retention is off), and the scan after a restart reads
everything anyway, because producers and epochs are functions of it. The name is Kafka's, the offset it begins with in 20 digits, so that
Kafka's own tools read it: `00000000000000000000.log`.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from nodes.reference.environment import File
from nodes.reference.log.batch import HEADER_SIZE, NO_TIMESTAMP, PREFIX_SIZE, BatchHeader, BatchRefused, parse

INDEX_INTERVAL: Final = 4096  # bytes, as log.index.interval.bytes
_CHUNK: Final = 1 << 20
_BOUNDS: Final = struct.Struct(">qi11xi")  # base offset, length, last offset delta


class StoredBatch(NamedTuple):
    """A batch as the scan finds it; its bytes are `content[start : start + header.size]`."""

    header: BatchHeader
    position: int  # in the file
    content: bytes
    start: int


class BatchFile:
    """Appends and reads whole batches. OSError of the disk goes through to the caller."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.size = 0  # bytes of whole batches
        self._clear_index()

    def scan(self, accepts: Callable[[StoredBatch], bool]) -> Iterator[StoredBatch]:
        """Read from the start, index what is accepted, and cut the file before the first batch that is not (a torn write)."""
        self.size = 0
        self._clear_index()
        for found in self._stored(0, self._file.size()):
            if not accepts(found):
                break
            self._index(found.header)
            yield found
        if self.size < self._file.size():
            self._file.truncate(self.size)

    def append(self, content: bytes | bytearray, headers: Iterable[BatchHeader]) -> None:
        """One or several whole batches, whose headers are given beside them."""
        self._file.append(content)
        for header in headers:
            self._index(header)

    def read(self, offset: int, upper_bound: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds an offset, as far as their records are below the upper bound.

        As many as fit max_bytes, but at least one (KIP-74); nothing where none is there.
        """
        position = self._floor(offset)
        end = self._ceiling(upper_bound)
        content = self._file.read(position, min(end - position, INDEX_INTERVAL + max(max_bytes, HEADER_SIZE)))
        start = _skip(content, offset)
        if start is None:
            return b""
        stop = _whole(content, start, upper_bound, max_bytes)
        if stop > start:
            return content[start:stop]
        return self._first(position + start, upper_bound)

    def from_position(self, offset: int) -> Iterator[StoredBatch]:
        """Batches from the one that holds an offset."""
        for found in self._stored(self._floor(offset), self.size):
            if found.header.next_offset > offset:
                yield found

    def first_at(self, timestamp: int) -> Iterator[StoredBatch]:
        """Batches from the first indexed stretch that has one with a timestamp at or after the given one."""
        entry = max(0, bisect_left(self._timestamps, timestamp) - 1)
        return self._stored(self._positions[entry] if self._positions else 0, self.size)

    def truncate(self, offset: int) -> int:
        """Cut before the batch that holds an offset; returns the offset at which the file ends now, never above the given one."""
        end = offset
        for found in self.from_position(offset):
            end = found.header.base_offset
            self._file.truncate(found.position)
            self.size = found.position
            break
        kept = bisect_left(self._positions, self.size)
        for column in (self._offsets, self._positions, self._timestamps):
            del column[kept:]
        self._highest = self._timestamps[-1] if kept else NO_TIMESTAMP
        for found in self._stored(self._positions[-1] if kept else 0, self.size):
            self._highest = max(self._highest, found.header.max_timestamp)
        return min(end, offset)

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()

    def _clear_index(self) -> None:
        self._offsets = array("q")
        self._positions = array("q")
        self._timestamps = array("q")  # the highest one before that position
        self._highest = NO_TIMESTAMP

    def _index(self, header: BatchHeader) -> None:
        if not self._positions or self.size - self._positions[-1] >= INDEX_INTERVAL:
            self._offsets.append(header.base_offset)
            self._positions.append(self.size)
            self._timestamps.append(self._highest)
        self._highest = max(self._highest, header.max_timestamp)
        self.size += header.size

    def _floor(self, offset: int) -> int:
        """A position at or before the batch that holds an offset."""
        after = bisect_right(self._offsets, offset)
        return self._positions[after - 1] if after else 0

    def _ceiling(self, offset: int) -> int:
        """A position at or after the end of the batch before an offset."""
        after = bisect_left(self._offsets, offset)
        return self._positions[after] if after < len(self._positions) else self.size

    def _stored(self, position: int, end: int) -> Iterator[StoredBatch]:
        """Batches up to the first that cannot be one."""
        content, origin = b"", position
        while position + HEADER_SIZE <= end:
            start = position - origin
            try:
                header = parse(content, start)
            except BatchRefused:
                size = self._size_at(position, end)
                if size is None or (content and origin == position):
                    return
                content, origin = self._file.read(position, max(_CHUNK, size)), position
                continue
            yield StoredBatch(header, position, content, start)
            position += header.size

    def _size_at(self, position: int, end: int) -> int | None:
        """What the header there says the batch takes; None if the file is too short for it."""
        prefix = self._file.read(position, PREFIX_SIZE)
        if len(prefix) < PREFIX_SIZE:
            return None
        length = int.from_bytes(prefix[8:], "big", signed=True)
        return PREFIX_SIZE + length if 0 < length <= end - position - PREFIX_SIZE else None

    def _first(self, position: int, upper_bound: int) -> bytes:
        """The one batch at a position, larger than was asked for; nothing if it reaches over the upper bound."""
        head = self._file.read(position, HEADER_SIZE)
        if len(head) < HEADER_SIZE:
            return b""
        base_offset, length, last_offset_delta = _BOUNDS.unpack_from(head)
        if base_offset + last_offset_delta >= upper_bound:
            return b""
        return self._file.read(position, PREFIX_SIZE + length)


def _skip(content: bytes, offset: int) -> int | None:
    """Where in the content the batch that holds an offset begins; None if it begins after it."""
    position = 0
    while position + _BOUNDS.size <= len(content):
        base_offset, length, last_offset_delta = _BOUNDS.unpack_from(content, position)
        if base_offset + last_offset_delta >= offset:
            return position
        position += PREFIX_SIZE + length
    return None


def _whole(content: bytes, position: int, upper_bound: int, max_bytes: int) -> int:
    """Where the last whole batch ends that is below the upper bound and within max_bytes."""
    limit = min(len(content), position + max_bytes)
    while position + _BOUNDS.size <= limit:
        base_offset, length, last_offset_delta = _BOUNDS.unpack_from(content, position)
        following: int = position + PREFIX_SIZE + length
        if following > limit or base_offset + last_offset_delta >= upper_bound:
            break
        position = following
    return position
