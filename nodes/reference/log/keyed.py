"""Batches of records with keys, as the coordinators write them into their internal topics and read them back after a failover.

Elsewhere records are never decoded; these logs are the one place where a broker reads what it stores. Only coordinators write them, so the
records are not compressed and have no headers.

    content = encode((KeyedRecord(b"k", b"v"), KeyedRecord(b"old", None)), timestamp=1_700_000_000_000)
    for batch in decode(content):
        batch.header.base_offset, batch.records, batch.end      # 0, (KeyedRecord(b"k", b"v"), ...), None
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from nodes.reference.log.batch import (
    HEADER_SIZE,
    TRANSACTIONAL,
    BatchHeader,
    Codec,
    Content,
    EndOfTransaction,
    assembled,
    batches,
    read_marker,
    read_sized,
    signed_varint,
    sized,
    varint,
)


class KeyedRecord(NamedTuple):
    key: bytes
    value: bytes | None  # None: the key is deleted


class Writer(NamedTuple):
    """Of a transactional batch: whose transaction decides whether it counts."""

    producer_id: int
    producer_epoch: int


class KeyedBatch(NamedTuple):
    """Either records or, in a control batch, the end of a transaction."""

    header: BatchHeader
    records: tuple[KeyedRecord, ...]
    end: EndOfTransaction | None


class Undecodable(Exception):
    """A batch that no coordinator has written; says where."""


def encode(records: tuple[KeyedRecord, ...], *, timestamp: int, writer: Writer | None = None) -> bytes:
    """One batch. timestamp: ms. With a writer it is transactional; its sequence is 0 as in Kafka, and nobody checks it."""
    content = b"".join(_record(record, delta) for delta, record in enumerate(records))
    if writer is None:
        return assembled(content, count=len(records), timestamp=timestamp)
    return assembled(
        content,
        count=len(records),
        timestamp=timestamp,
        attributes=TRANSACTIONAL,
        producer_id=writer.producer_id,
        producer_epoch=writer.producer_epoch,
        base_sequence=0,
    )


def decode(content: Content) -> Iterator[KeyedBatch]:
    """Whole batches in order. Undecodable, BatchRefused where there is none."""
    for position, header in batches(content):
        if header.control:
            yield KeyedBatch(header, (), read_marker(content, position, header))
            continue
        if header.codec != Codec.NONE:
            raise Undecodable(f"the batch at offset {header.base_offset} is compressed; no coordinator writes such")
        try:
            yield KeyedBatch(header, tuple(_records(content, position + HEADER_SIZE, header.records)), None)
        except (IndexError, ValueError, struct.error) as error:
            raise Undecodable(f"the batch at offset {header.base_offset}: {error}") from error


def _record(record: KeyedRecord, delta: int) -> bytes:
    body = b"".join((b"\x00\x00", signed_varint(delta), sized(record.key), sized(record.value), b"\x00"))
    return signed_varint(len(body)) + body


def _records(content: Content, at: int, count: int) -> Iterator[KeyedRecord]:
    for _ in range(count):
        size, at = varint(content, at)
        end = at + size
        _, at = varint(content, at + 1)  # timestamp delta, after the attributes
        _, at = varint(content, at)  # offset delta
        key, at = read_sized(content, at)
        value, _ = read_sized(content, at)
        if key is None:
            raise ValueError("a record without a key")
        yield KeyedRecord(key, value)
        at = end
