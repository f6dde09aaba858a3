"""Record batches as they are stored and sent (message format 2, KIP-98), handled by their headers: records are never decoded.

A broker writes two fields of a batch, the base offset and the partition leader epoch; neither is covered by the checksum, so a batch
goes from a producer to the file and on to followers and consumers without being encoded anew, whatever its codec.

    byte 0  base offset     8  length        12  leader epoch       16  magic (2)       17  crc of all that follows
        21  attributes     23  last offset delta    27  base timestamp      35  max timestamp
        43  producer id    51  producer epoch       53  base sequence       57  records        61  the records

    header = parse(content, 0)           # BatchHeader(base_offset=0, length=68, ..., records=2)
    check_produced(content, header)      # BatchRefused(CORRUPT_MESSAGE) and others, with the error that Kafka answers
    stored = stamped(content, base_offset=200, leader_epoch=3)
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import google_crc32c
from kio.schema.errors import ErrorCode

Content = bytes | bytearray | memoryview
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_STAMP: Final = struct.Struct(">qii")  # base offset, length, leader epoch
_LENGTH: Final = struct.Struct(">i")
_CONTROL_KEY: Final = struct.Struct(">hh")  # version, type
_CONTROL_VALUE: Final = struct.Struct(">hi")  # version, coordinator epoch
HEADER_SIZE: Final = _HEADER.size
PREFIX_SIZE: Final = 12  # base offset and length, which the length does not count
_CHECKED_FROM: Final = 21  # the checksum covers attributes and what follows
MAGIC: Final = 2
NO_PRODUCER: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
_CODEC, TRANSACTIONAL, CONTROL = 0x07, 0x10, 0x20  # bits of attributes


class Codec(enum.IntEnum):
    """Compression of a batch's records, by the id in its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class Marker(enum.IntEnum):
    """What a control record of a transaction says (KIP-98, Control Records)."""

    ABORT = 0
    COMMIT = 1


class BatchRefused(Exception):
    """A batch that is not appended; `error` is what the producer is told."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


class BatchHeader(NamedTuple):
    base_offset: int
    length: int  # bytes after this field
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int  # ms
    max_timestamp: int  # ms
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return PREFIX_SIZE + self.length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequences wrap to 0 after 2^31 - 1 (KIP-98)."""
        return (self.base_sequence + self.last_offset_delta) & 0x7FFF_FFFF

    @property
    def codec(self) -> int:
        return self.attributes & _CODEC

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def control(self) -> bool:
        return bool(self.attributes & CONTROL)


def parse(content: Content, position: int) -> BatchHeader:
    """The header at a position. BatchRefused(CORRUPT_MESSAGE) where no whole batch of a possible length is."""
    if len(content) - position < HEADER_SIZE:
        raise BatchRefused(ErrorCode.corrupt_message, f"{len(content) - position} bytes are less than a batch header")
    header = BatchHeader._make(_HEADER.unpack_from(content, position))
    if header.magic != MAGIC:
        raise BatchRefused(
            ErrorCode.unsupported_for_message_format if header.magic in (0, 1) else ErrorCode.corrupt_message,
            f"magic {header.magic}: only record batches of format 2 are stored",
        )
    if not HEADER_SIZE - PREFIX_SIZE <= header.length <= len(content) - position - PREFIX_SIZE:
        raise BatchRefused(
            ErrorCode.corrupt_message,
            f"a batch of {header.length} bytes where {len(content) - position - PREFIX_SIZE} are",
        )
    return header


def batches(content: Content) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch; BatchRefused at one that is cut off."""
    position = 0
    while position < len(content):
        header = parse(content, position)
        yield position, header
        position += header.size


def intact(content: Content, position: int, header: BatchHeader) -> bool:
    """Does the checksum (CRC-32C) fit what it covers?"""
    whole = memoryview(content)[position + _CHECKED_FROM : position + header.size]
    return _checksum(whole) == header.crc


def _checksum(covered: Content) -> int:
    """CRC-32C (Castagnoli)."""
    found: int = google_crc32c.value(bytes(covered))  # the library takes nothing but bytes
    return found


def check_produced(content: Content, header: BatchHeader, *, max_size: int) -> None:
    """Refuse what a client may not append, with the error that Kafka gives (LogValidator). max_size: message.max.bytes."""
    if header.size != len(content):
        raise BatchRefused(ErrorCode.invalid_record, "a Produce has exactly one record batch for each partition")
    if header.size > max_size:
        raise BatchRefused(
            ErrorCode.message_too_large, f"a batch of {header.size} bytes, message.max.bytes is {max_size}"
        )
    if not intact(content, 0, header):
        raise BatchRefused(ErrorCode.corrupt_message, "the checksum does not fit the batch")
    if header.codec > Codec.ZSTD:
        raise BatchRefused(ErrorCode.unsupported_compression_type, f"codec {header.codec} is unknown")
    if header.records <= 0 or header.records != header.last_offset_delta + 1:
        raise BatchRefused(
            ErrorCode.invalid_record, f"{header.records} records over {header.last_offset_delta + 1} offsets"
        )
    if header.control:
        raise BatchRefused(ErrorCode.invalid_record, "clients may not write control records")
    if header.producer_id != NO_PRODUCER and header.base_sequence < 0:
        raise BatchRefused(ErrorCode.invalid_record, f"sequence {header.base_sequence} of an idempotent producer")
    if header.transactional and header.producer_id == NO_PRODUCER:
        raise BatchRefused(ErrorCode.invalid_record, "a transactional batch has no producer id")


def stamped(content: Content, header: BatchHeader, *, base_offset: int, leader_epoch: int) -> bytearray:
    """The batch with the two fields that the leader assigns; all else stays as the producer wrote it."""
    stored = bytearray(content)
    _STAMP.pack_into(stored, 0, base_offset, header.length, leader_epoch)
    return stored


def marker_batch(
    marker: Marker, *, producer_id: int, producer_epoch: int, coordinator_epoch: int, timestamp: int
) -> bytes:
    """The control batch that ends a transaction on one partition (KIP-98, WriteTxnMarkers)."""
    key = _CONTROL_KEY.pack(0, marker)
    value = _CONTROL_VALUE.pack(0, coordinator_epoch)
    # attributes, timestamp delta and offset delta are 0; lengths are zigzag varints below 64, one byte each
    body = b"\x00\x00\x00" + bytes([2 * len(key)]) + key + bytes([2 * len(value)]) + value + b"\x00"
    records = bytes([2 * len(body)]) + body
    return assembled(
        records,
        count=1,
        timestamp=timestamp,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def assembled(
    records: bytes,
    *,
    count: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    attributes: int = 0,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
) -> bytes:
    """One batch of `count` encoded records, all of one time (ms); by default as a producer without an id sends it."""
    header = BatchHeader(
        base_offset=base_offset,
        length=HEADER_SIZE - PREFIX_SIZE + len(records),
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records=count,
    )
    return sealed(header, records)


def sealed(header: BatchHeader, records: bytes) -> bytes:
    """Header and records as one batch, with its checksum."""
    whole = bytearray(_HEADER.pack(*header) + records)
    struct.pack_into(">I", whole, 17, _checksum(memoryview(whole)[_CHECKED_FROM:]))
    return bytes(whole)


class EndOfTransaction(NamedTuple):
    marker: Marker
    coordinator_epoch: int


def read_marker(content: Content, position: int, header: BatchHeader) -> EndOfTransaction | None:
    """What a control batch says; None for other control records (leader changes and snapshots of the metadata log).

    BatchRefused(INVALID_RECORD) if it does not decode.
    """
    try:
        at = position + HEADER_SIZE
        _, at = varint(content, at)  # length of the record
        at += 1  # attributes
        _, at = varint(content, at)  # timestamp delta
        _, at = varint(content, at)  # offset delta
        key_size, at = varint(content, at)
        _, kind = _CONTROL_KEY.unpack_from(content, at)
        if kind not in (Marker.ABORT, Marker.COMMIT):
            return None
        _, at = varint(content, at + key_size)
        _, coordinator_epoch = _CONTROL_VALUE.unpack_from(content, at)
    except (struct.error, IndexError) as error:
        raise BatchRefused(
            ErrorCode.invalid_record, f"control batch at offset {header.base_offset}: {error}"
        ) from error
    return EndOfTransaction(Marker(kind), coordinator_epoch)


def varint(content: Content, position: int) -> tuple[int, int]:
    """A zigzag varint of at most ten bytes, and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
    raise IndexError("a varint of more than ten bytes")


def signed_varint(value: int) -> bytes:
    """The zigzag varint that `varint` reads, as lengths and deltas in records are."""
    zigzag, written = (value << 1) ^ (value >> 63), bytearray()
    while zigzag >= 0x80:
        written.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    written.append(zigzag)
    return bytes(written)


def sized(content: bytes | None) -> bytes:
    """A key or a value in a record: its length, -1 for none, and it."""
    return signed_varint(-1) if content is None else signed_varint(len(content)) + content


def read_sized(content: Content, position: int) -> tuple[bytes | None, int]:
    """What `sized` wrote, and the position after it. IndexError, ValueError where it is cut off."""
    size, at = varint(content, position)
    if size < 0:
        return None, at
    if at + size > len(content):
        raise ValueError(f"{size} bytes where {len(content) - at} are")
    return bytes(content[at : at + size]), at + size
