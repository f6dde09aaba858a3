"""Metadata logs as bytes, written as Kafka writes them: what tests feed to the reader."""

from __future__ import annotations

import datetime
import io
import struct
import uuid

from kio.records.schema import NewRecordBatch, Record
from kio.records.writers import write_new_batch
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from nodes.kafka.metadata_log import CONTROL

TOPIC = uuid.UUID(int=7)
AT = TZAwareMicros.parse(datetime.datetime(2026, 11, 21, 9, 0, 0, tzinfo=datetime.UTC))


def batch(offset: int, *values: bytes, epoch: int = 1) -> bytes:
    return _batch(offset, [(None, value) for value in values], epoch, 0)


def leader_change(offset: int, leader: int, *, epoch: int) -> bytes:
    return _batch(offset, [(struct.pack(">hh", 0, 2), struct.pack(">hi", 0, leader) + b"\x01\x01\x00")], epoch, CONTROL)


def _batch(offset: int, records: list[tuple[bytes | None, bytes]], epoch: int, attributes: int) -> bytes:
    made = NewRecordBatch(
        producer_id=i64(-1),
        producer_epoch=i16(-1),
        partition_leader_epoch=i32(epoch),
        base_sequence=i32(-1),
        attributes=i16(attributes),
        records=tuple(
            Record(attributes=i8(0), timestamp=AT, offset=i64(offset + number), key=key, value=value, headers=())
            for number, (key, value) in enumerate(records)
        ),
    )
    buffer = io.BytesIO()
    write_new_batch(buffer, made)
    return buffer.getvalue()


def topic(name: str = "t") -> bytes:
    return b"\x01\x02\x00" + _string(name) + TOPIC.bytes + b"\x00"


def partition(replicas: list[int], isr: list[int], *, leader: int, leader_epoch: int = 0, epoch: int = 0) -> bytes:
    head = b"\x01\x03\x00" + struct.pack(">i", 0) + TOPIC.bytes + _ids(replicas) + _ids(isr) + b"\x01\x01"
    return head + struct.pack(">iii", leader, leader_epoch, epoch) + b"\x00"


def change(*, isr: list[int] | None = None, leader: int | None = None, elr: list[int] | None = None) -> bytes:
    tags = {0: _ids(isr) if isr is not None else None, 1: struct.pack(">i", leader) if leader is not None else None}
    tags[6] = _ids(elr) if elr is not None else None
    said = {tag: content for tag, content in tags.items() if content is not None}
    body = b"".join(bytes([tag, len(content)]) + content for tag, content in said.items())
    return b"\x01\x05\x02" + struct.pack(">i", 0) + TOPIC.bytes + bytes([len(said)]) + body


def register(broker: int, epoch: int) -> bytes:
    incarnation = uuid.UUID(int=epoch).bytes
    return (
        b"\x01\x00\x00" + struct.pack(">i", broker) + incarnation + struct.pack(">q", epoch) + b"\x01\x01\x00\x01\x00"
    )


def fence(broker: int, epoch: int, *, fenced: bool) -> bytes:
    said = b"\x01\x00\x01" + (b"\x01" if fenced else b"\xff")
    return b"\x01\x11\x00" + struct.pack(">iq", broker, epoch) + said


def old_fence(broker: int, epoch: int, *, fenced: bool) -> bytes:
    """As releases before 3.3 wrote it."""
    return (b"\x01\x07\x00" if fenced else b"\x01\x08\x00") + struct.pack(">iq", broker, epoch) + b"\x00"


def remove() -> bytes:
    return b"\x01\x09\x00" + TOPIC.bytes + b"\x00"


def _string(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


def _ids(ids: list[int]) -> bytes:
    return bytes([len(ids) + 1]) + b"".join(struct.pack(">i", one) for one in ids)
