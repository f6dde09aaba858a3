"""Offsets by time, as ListOffsets asks for them (KIP-79, KIP-734): the only place where records of a batch are looked at.

Records of a compressed batch are not: such a batch answers with its first offset, so a consumer that starts there may first see a few
records that are older than asked for, and misses none.
"""

from __future__ import annotations

from typing import NamedTuple

from nodes.reference.log.batch import HEADER_SIZE, Codec, varint
from nodes.reference.log.batch_file import StoredBatch
from nodes.reference.log.log import Log


class TimedOffset(NamedTuple):
    offset: int
    timestamp: int  # ms, of the record there
    leader_epoch: int


def first_at(log: Log, timestamp: int, upper_bound: int) -> TimedOffset | None:
    """The first record below the upper bound with a timestamp (ms) at or after the given one."""
    for found in log.batches_since(timestamp):
        for offset, at in _records(found):
            if offset >= upper_bound:
                return None
            if at >= timestamp and offset >= log.log_start_offset:
                return TimedOffset(offset, at, found.header.leader_epoch)
    return None


def latest(log: Log, upper_bound: int) -> TimedOffset | None:
    """The record below the upper bound with the highest timestamp; the first of several (KIP-734)."""
    highest: TimedOffset | None = None
    for found in log.stored_batches(log.log_start_offset):
        if found.header.last_offset >= upper_bound:
            break
        if highest is None or found.header.max_timestamp > highest.timestamp:
            offset = next(
                (offset for offset, at in _records(found) if at == found.header.max_timestamp),
                found.header.last_offset,
            )
            highest = TimedOffset(offset, found.header.max_timestamp, found.header.leader_epoch)
    return highest


def _records(found: StoredBatch) -> list[tuple[int, int]]:
    """Offset and timestamp of each record; of a compressed batch, or one that does not decode, its first offset and highest timestamp."""
    header = found.header
    whole = [(header.base_offset, header.max_timestamp)]
    if header.codec != Codec.NONE:
        return whole
    records = []
    position = found.start + HEADER_SIZE
    try:
        for _ in range(header.records):
            length, position = varint(found.content, position)
            timestamp_delta, inside = varint(found.content, position + 1)
            offset_delta, _ = varint(found.content, inside)
            records.append((header.base_offset + offset_delta, header.base_timestamp + timestamp_delta))
            position += length
    except IndexError:
        return whole
    return records
