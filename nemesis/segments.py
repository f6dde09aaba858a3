"""Kafka's log files, as far as throwing away their end needs it: where each record batch begins.

A segment `00000000000000000000.log` is a row of record batches. Big-endian header of each (Kafka protocol guide, "Record Batch"):

    baseOffset int64 | batchLength int32 (bytes after this field) | partitionLeaderEpoch int32 | magic int8 | crc | attributes int16 |
    lastOffsetDelta int32 | ...

`recovery-point-offset-checkpoint` in each log directory says up to which offset each partition was flushed:

    0                    version
    2                    entries
    log 0 512            topic, partition, offset
    log 1 0
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_HEADER = struct.Struct(
    ">qiibIhi"
)  # baseOffset, batchLength, partitionLeaderEpoch, magic, crc, attributes, lastOffsetDelta
_LENGTH_FIELDS = 12
_CURRENT_MAGIC = 2


@dataclass(frozen=True, kw_only=True)
class Batch:
    base_offset: int
    next_offset: int
    position: int  # byte in the segment
    end: int  # byte after it


def batches(segment: bytes) -> Iterator[Batch]:
    """The whole batches of a segment in order; ends silently at a torn one, as Kafka's own recovery does."""
    position = 0
    while position + _HEADER.size <= len(segment):
        base, length, _, magic, _, _, last_delta = _HEADER.unpack_from(segment, position)
        end = position + _LENGTH_FIELDS + length
        if length <= 0 or end > len(segment):
            return
        last = base + last_delta if magic >= _CURRENT_MAGIC else base
        yield Batch(base_offset=base, next_offset=last + 1, position=position, end=end)
        position = end


def recovery_points(checkpoint: str) -> dict[tuple[str, int], int]:
    """(topic, partition) -> offset up to which it was flushed; {} from the empty file that a new broker makes.

    ValueError names what is wrong with the file.
    """
    if not checkpoint:
        return {}
    lines = checkpoint.splitlines()
    if len(lines) < 2 or lines[0] != "0" or len(lines) - 2 != int(lines[1]):
        raise ValueError(f"not an offset checkpoint of version 0: {checkpoint[:80]!r}")
    points = {}
    for line in lines[2:]:
        topic, partition, offset = line.rsplit(" ", 2)
        points[topic, int(partition)] = int(offset)
    return points


@dataclass(frozen=True, kw_only=True)
class Truncation:
    """How to shorten one partition directory: which file to cut where, and which files to delete."""

    segment: str | None  # file that is cut; None: nothing to throw away
    size: int  # its new size in bytes
    delete: tuple[str, ...]  # later segments, and the indexes and snapshots of what is thrown away
    first_lost: int  # first offset that is thrown away
    next_offset: int  # offset after the last one thrown away; equal to first_lost: nothing
    lost_bytes: int


def truncation(files: Mapping[str, bytes | None], keep_to: int) -> Truncation:
    """Throw away every batch at or above offset `keep_to`.

    files: name -> content for segments that reach above `keep_to` (`unsynced_segments`), None for all others.
    """
    found = [
        (name, batch)
        for name in sorted(files)
        if name.endswith(".log") and (content := files[name]) is not None
        for batch in batches(content)
        if batch.base_offset >= keep_to
    ]
    if not found:
        return Truncation(segment=None, size=0, delete=(), first_lost=keep_to, next_offset=keep_to, lost_bytes=0)
    segment, first = found[0]
    base = _base(segment)
    delete = [
        name
        for name in sorted(files)
        if (_numbered(name) and _base(name) > base)
        or (_numbered(name) and _base(name) == base and not name.endswith((".log", ".snapshot")))
        or (name.endswith(".snapshot") and _numbered(name) and _base(name) > first.base_offset)
    ]
    return Truncation(
        segment=segment,
        size=first.position,
        delete=tuple(delete),
        first_lost=first.base_offset,
        next_offset=found[-1][1].next_offset,
        lost_bytes=sum(batch.end - batch.position for _, batch in found),
    )


def flushed_to(files: Mapping[str, bytes | None], every: int | None) -> int:
    """The offset below which a log is flushed that is flushed whenever `every` records are not: fewer than that are left over.

    files: as for `truncation`. 0 where there is no such policy, or no batch.
    """
    found = [batch for content in files.values() if content is not None for batch in batches(content)]
    if every is None or not found:
        return 0
    end = max(batch.next_offset for batch in found)
    return min((batch.base_offset for batch in found if batch.base_offset > end - every), default=end)


def unsynced_segments(names: list[str], recovery_point: int) -> list[str]:
    """The segment that contains the recovery point, and all later ones."""
    segments = sorted(name for name in names if name.endswith(".log") and _numbered(name))
    later = [name for name in segments if _base(name) > recovery_point]
    before = [name for name in segments if _base(name) <= recovery_point]
    return before[-1:] + later


def _numbered(name: str) -> bool:
    return name.split(".")[0].isdigit()


def _base(name: str) -> int:
    return int(name.split(".")[0])
