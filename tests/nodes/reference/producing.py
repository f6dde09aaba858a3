"""Batches as clients make them, encoded by kio."""

from __future__ import annotations

import datetime
import gzip
import io
import struct

import google_crc32c
from kio.records.schema import NewRecordBatch, Record
from kio.records.writers import write_new_batch
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from nodes.protocol.logs import FetchedRecord, read
from nodes.reference.log.batch import HEADER_SIZE

TRANSACTIONAL = 0x10
_ATTRIBUTES = struct.Struct(">h")


def produced(
    *values: bytes,
    producer: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    timestamps: tuple[int, ...] = (),
) -> bytes:
    """timestamps: ms, of each record."""
    stamps = timestamps or (1_000,) * len(values)
    records = tuple(
        Record(
            attributes=i8(0),
            timestamp=TZAwareMicros.parse(datetime.datetime.fromtimestamp(stamp / 1000, datetime.UTC)),
            offset=i64(number),
            key=None,
            value=value,
            headers=(),
        )
        for number, (value, stamp) in enumerate(zip(values, stamps, strict=True))
    )
    batch = NewRecordBatch(
        producer_id=i64(producer),
        producer_epoch=i16(epoch),
        base_sequence=i32(sequence),
        records=records,
        attributes=i16(TRANSACTIONAL if transactional else 0),
    )
    buffer = io.BytesIO()
    write_new_batch(buffer, batch)
    return buffer.getvalue()


def with_attributes(content: bytes, attributes: int) -> bytes:
    """The batch with other attribute bits and a checksum that fits."""
    changed = bytearray(content)
    _ATTRIBUTES.pack_into(changed, 21, attributes)
    return summed(changed)


def gzipped(content: bytes) -> bytes:
    """The batch with its records compressed by gzip."""
    changed = bytearray(content[:HEADER_SIZE] + gzip.compress(content[HEADER_SIZE:]))
    struct.pack_into(">i", changed, 8, len(changed) - 12)
    return with_attributes(bytes(changed), 1)


def summed(content: bytearray) -> bytes:
    struct.pack_into(">I", content, 17, google_crc32c.value(bytes(content[21:])))
    return bytes(content)


def values(content: bytes) -> list[bytes | None]:
    """Values of data records, as kio decodes them; markers are left out."""
    return [record.value for record in records(content) if not record.control]


def records(content: bytes) -> list[FetchedRecord]:
    return read(content)
