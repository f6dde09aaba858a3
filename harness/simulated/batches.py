"""Record batches as simulated clients make and read them: uncompressed, no keys, no headers.

batch(["a", "b"], Writer(producer_id=7, epoch=0), base_sequence=12, timestamp=1_600_000_000_000)
[(offset, value), ...] = readable(content, from_offset=17, aborted=[(7, 12)])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from nodes.reference.log.batch import (
    HEADER_SIZE,
    NO_PRODUCER,
    NO_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
    Marker,
    assembled,
    batches,
    read_marker,
    signed_varint,
    varint,
)


class Writer(NamedTuple):
    producer_id: int = NO_PRODUCER
    epoch: int = -1
    transactional: bool = False


NOBODY: Final = Writer()


def batch(values: Sequence[str], writer: Writer = NOBODY, *, base_sequence: int = NO_SEQUENCE, timestamp: int) -> bytes:
    """timestamp: ms."""
    content = b"".join(_record(delta, value.encode()) for delta, value in enumerate(values))
    return assembled(
        content,
        count=len(values),
        timestamp=timestamp,
        attributes=TRANSACTIONAL if writer.transactional else 0,
        producer_id=writer.producer_id,
        producer_epoch=writer.epoch,
        base_sequence=base_sequence,
    )


class Piece(NamedTuple):
    """What a Fetch brought: data records in order, and the next offset to ask for."""

    records: list[tuple[int, str | None]]
    next_offset: int


def readable(content: bytes, from_offset: int, aborted: Sequence[tuple[int, int]] | None = None) -> Piece:
    """Records from an offset on. aborted: (producer id, first offset) as read_committed is told; None: read_uncommitted.

    As Kafka's consumer does it: a producer's records count as aborted from the first offset of an aborted transaction to its marker.
    """
    records: list[tuple[int, str | None]] = []
    beginning = sorted(aborted or (), key=lambda one: one[1])
    aborting: set[int] = set()
    next_offset = from_offset
    for position, header in batches(content):
        while beginning and beginning[0][1] <= header.last_offset:
            aborting.add(beginning.pop(0)[0])
        next_offset = max(next_offset, header.next_offset)
        if header.control:
            ended = read_marker(content, position, header)
            if ended is not None and ended.marker is Marker.ABORT:
                aborting.discard(header.producer_id)
        elif not (header.transactional and header.producer_id in aborting):
            records += [one for one in _values(content, position, header) if one[0] >= from_offset]
    return Piece(records, next_offset)


def _values(content: bytes, position: int, header: BatchHeader) -> Iterator[tuple[int, str | None]]:
    at = position + HEADER_SIZE
    for _ in range(header.records):
        size, at = varint(content, at)
        end = at + size
        _, at = varint(content, at + 1)  # timestamp delta, after the attributes
        delta, at = varint(content, at)
        key_size, at = varint(content, at)
        value_size, at = varint(content, at + max(0, key_size))
        yield header.base_offset + delta, None if value_size < 0 else content[at : at + value_size].decode()
        at = end


def _record(delta: int, value: bytes) -> bytes:
    body = b"\x00\x00" + signed_varint(delta) + b"\x01" + signed_varint(len(value)) + value + b"\x00"
    return signed_varint(len(body)) + body
