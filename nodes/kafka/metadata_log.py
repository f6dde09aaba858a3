"""The controllers' own account of what happened: records of `__cluster_metadata-0/*.log`, as rows.

    for row in rows(path.read_bytes()):
        Row(offset=41, epoch=2, timestamp_ms=..., kind="partition-change",
            fields={"partition_id": 0, "topic_id": "LoVvxrzgTf-kqdz3YCBmOg", "isr": (2, 3), "leader": 2})

Every change of a leader, an ISR or a registration is here, in the one order that all agreed on, which no log file and no poll can give.
A record's value is `uvarint frame version (1) | uvarint type | uvarint version | payload`; payloads are flexible-version Kafka messages.
kio has no schemas for them, so the ones that explain a finding are declared here, after Kafka's
metadata/src/main/resources/common/metadata/*.json; other types are left out. The log's last batch may be torn; reading ends there.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kio.records.readers import read_batch
from kio.serial.errors import SerialError
from kio.serial.readers import (
    read_boolean,
    read_compact_array_length,
    read_compact_string,
    read_compact_string_nullable,
    read_int8,
    read_int16,
    read_int32,
    read_int64,
    read_uint16,
    read_unsigned_varint,
    read_uuid,
)

from nodes.protocol.requests import text

CONTROL: Final = 0x20  # attribute bit of a batch
LEADER_CHANGE: Final = 2  # control record type
_ZERO: Final = uuid.UUID(int=0)  # kio reads it as None; Kafka writes it, for a directory that is not assigned yet
Reader = Callable[[bytes, int], tuple[Any, int]]


class BadLog(Exception):
    """The bytes are no metadata log; the message names the place."""


@dataclass(frozen=True, kw_only=True)
class Row:
    offset: int
    epoch: int  # of the controller that wrote it
    timestamp_ms: int  # wall clock of that controller
    kind: str
    fields: Mapping[str, object]


@dataclass(frozen=True)
class Field:
    name: str
    read: Reader
    since: int = 0  # first version of the record that has it
    tag: int | None = None  # tagged fields may be missing: unchanged


def _uuid(buffer: bytes, offset: int) -> tuple[str, int]:
    value, size = read_uuid(buffer, offset)
    return text(value or _ZERO), size


def _array(of: Reader) -> Reader:
    def read(buffer: bytes, offset: int) -> tuple[tuple[Any, ...] | None, int]:
        length, size = read_compact_array_length(buffer, offset)
        items = []
        for _ in range(length or 0):
            item, used = of(buffer, offset + size)
            items.append(item)
            size += used
        return (None if length is None else tuple(items)), size

    return read


def _struct(*fields: Field) -> Reader:
    def read(buffer: bytes, offset: int) -> tuple[dict[str, object], int]:
        return _read_fields(fields, 0, buffer, offset)

    return read


_IDS = _array(read_int32)
_UUIDS = _array(_uuid)
_ENDPOINT = _struct(
    Field("name", read_compact_string),
    Field("host", read_compact_string),
    Field("port", read_uint16),
    Field("security", read_int16),
)
_FEATURE = _struct(Field("name", read_compact_string), Field("min", read_int16), Field("max", read_int16))

# record type -> (kind, fields in wire order)
RECORDS: Final[Mapping[int, tuple[str, Sequence[Field]]]] = {
    0: (
        "register-broker",
        (
            Field("broker_id", read_int32),
            Field("is_migrating_zk_broker", read_boolean, since=2),
            Field("incarnation_id", _uuid),
            Field("broker_epoch", read_int64),
            Field("end_points", _array(_ENDPOINT)),
            Field("features", _array(_FEATURE)),
            Field("rack", read_compact_string_nullable),
            Field("fenced", read_boolean),
            Field("in_controlled_shutdown", read_boolean, since=1),
            Field("log_dirs", _UUIDS, since=3, tag=0),
            Field("cordoned_log_dirs", _UUIDS, since=4, tag=1),
        ),
    ),
    1: ("unregister-broker", (Field("broker_id", read_int32), Field("broker_epoch", read_int64))),
    2: ("topic", (Field("name", read_compact_string), Field("topic_id", _uuid))),
    3: (
        "partition",
        (
            Field("partition_id", read_int32),
            Field("topic_id", _uuid),
            Field("replicas", _IDS),
            Field("isr", _IDS),
            Field("removing_replicas", _IDS),
            Field("adding_replicas", _IDS),
            Field("leader", read_int32),
            Field("leader_epoch", read_int32),
            Field("partition_epoch", read_int32),
            Field("directories", _UUIDS, since=1),
            Field("leader_recovery_state", read_int8, tag=0),
            Field("eligible_leader_replicas", _IDS, since=2, tag=1),
            Field("last_known_elr", _IDS, since=2, tag=2),
        ),
    ),
    5: (
        "partition-change",
        (
            Field("partition_id", read_int32),
            Field("topic_id", _uuid),
            Field("isr", _IDS, tag=0),
            Field("leader", read_int32, tag=1),
            Field("replicas", _IDS, tag=2),
            Field("removing_replicas", _IDS, tag=3),
            Field("adding_replicas", _IDS, tag=4),
            Field("leader_recovery_state", read_int8, tag=5),
            Field("eligible_leader_replicas", _IDS, since=2, tag=6),
            Field("last_known_elr", _IDS, since=2, tag=7),
            Field("directories", _UUIDS, since=1, tag=8),
        ),
    ),
    # before 3.3; later releases write broker-registration-change instead
    7: ("fence-broker", (Field("broker_id", read_int32), Field("broker_epoch", read_int64))),
    8: ("unfence-broker", (Field("broker_id", read_int32), Field("broker_epoch", read_int64))),
    9: ("remove-topic", (Field("topic_id", _uuid),)),
    12: ("feature-level", (Field("name", read_compact_string), Field("feature_level", read_int16))),
    17: (
        "broker-registration-change",
        (
            Field("broker_id", read_int32),
            Field("broker_epoch", read_int64),
            Field("fenced", read_int8, tag=0),  # 1: fenced, -1: unfenced
            Field("in_controlled_shutdown", read_int8, since=1, tag=1),
            Field("log_dirs", _UUIDS, since=2, tag=2),
            Field("cordoned_log_dirs", _UUIDS, since=3, tag=3),
        ),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Batch:
    end: int  # byte after it
    base_offset: int
    next_offset: int
    rows: tuple[Row, ...]


def rows(log: bytes) -> Iterator[Row]:
    """Rows of one segment (or snapshot) in log order. BadLog names the byte at which something whole does not decode."""
    for batch in batches(log):
        yield from batch.rows


def batches(log: bytes) -> Iterator[Batch]:
    """The whole batches that a piece of a log begins with. BadLog as above."""
    at = 0
    while at + 12 <= len(log):
        (length,) = struct.unpack_from(">i", log, at + 8)
        if length <= 0 or at + 12 + length > len(log):
            return  # torn, or preallocated and not written yet
        end = at + 12 + length
        try:
            yield _batch(log[at:end], end)
        except (SerialError, ValueError, TypeError, OverflowError, struct.error) as error:
            raise BadLog(f"metadata log, batch at byte {at}: {error}") from error
        at = end


def _batch(content: bytes, end: int) -> Batch:
    batch, _ = read_batch(content, 0)
    told = [
        Row(
            offset=int(record.offset),
            epoch=int(batch.partition_leader_epoch),
            timestamp_ms=int(batch.base_timestamp),
            kind=said[0],
            fields=said[1],
        )
        for record in batch.records
        if (said := _control(record) if batch.attributes & CONTROL else _data(record.value or b"")) is not None
    ]
    next_offset = int(batch.base_offset) + int(batch.last_offset_delta) + 1
    return Batch(end=end, base_offset=int(batch.base_offset), next_offset=next_offset, rows=tuple(told))


def _control(record: Any) -> tuple[str, dict[str, object]] | None:
    _, kind = struct.unpack_from(">hh", record.key or b"\0\0\0\0")
    if kind != LEADER_CHANGE:
        return None
    _, leader = struct.unpack_from(">hi", record.value or b"")  # LeaderChangeMessage begins so in all its versions
    return "leader-change", {"leader": leader}


def _data(value: bytes) -> tuple[str, dict[str, object]] | None:
    at = 0
    head = []
    for _ in range(3):  # frame version, type, version
        number, size = read_unsigned_varint(value, at)
        head.append(int(number))
        at += size
    if head[1] not in RECORDS:
        return None
    kind, fields = RECORDS[head[1]]
    return kind, _read_fields(fields, head[2], value, at)[0]


def _read_fields(fields: Sequence[Field], version: int, buffer: bytes, offset: int) -> tuple[dict[str, object], int]:
    """Fields of a struct, then its tagged ones; tags that are not declared are skipped."""
    at = offset
    told: dict[str, object] = {}
    for field in fields:
        if field.tag is None and field.since <= version:
            told[field.name], size = field.read(buffer, at)
            at += size
    tags = {field.tag: field for field in fields if field.tag is not None and field.since <= version}
    count, size = read_unsigned_varint(buffer, at)
    at += size
    for _ in range(count):
        tag, size = read_unsigned_varint(buffer, at)
        length, more = read_unsigned_varint(buffer, at + size)
        at += size + more
        if (known := tags.get(int(tag))) is not None:
            told[known.name], _ = known.read(buffer, at)
        at += length
    return told, at - offset
