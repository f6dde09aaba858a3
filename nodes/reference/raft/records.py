"""Batches of the metadata log as Kafka's record batches (format 2): on disk, in snapshots, and in Fetch responses to others.

A value is a metadata record with a null key (KIP-631, Record Formats); a control batch has one record, whose key says what it is: leader
change 2, snapshot header 3, footer 4 as in Kafka, and the voter assignment of `schema.py`.

    encode(Batch(base_offset=5, epoch=2, timestamp=0, values=(b"a", b"b")), "k")    b"\x00...\x05..."
    decode(content, 0)                                                          (Batch(...), position after it)
"""

from __future__ import annotations

import io
import struct
from typing import Final

from kio.schema.leader_change_message.v0.data import LeaderChangeMessage
from kio.schema.leader_change_message.v0.data import Voter as ElectingVoter
from kio.schema.snapshot_footer_record.v0.data import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0.data import SnapshotHeaderRecord
from kio.schema.types import BrokerId
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32, i64
from kio.static.protocol import Entity

from nodes.reference.log.batch import (
    CONTROL,
    HEADER_SIZE,
    BatchRefused,
    assembled,
    intact,
    parse,
    read_sized,
    signed_varint,
    sized,
    varint,
)
from nodes.reference.raft.log import Batch, Control, LeaderChange, SnapshotFooter, SnapshotHeader, Voters
from nodes.reference.raft.schema import VOTER_ASSIGNMENT_TYPE, Voter, VoterAssignmentMessage

_KEY: Final = struct.Struct(">hh")  # version, type
_TYPES: Final[dict[int, type[Entity]]] = {
    2: LeaderChangeMessage,
    3: SnapshotHeaderRecord,
    4: SnapshotFooterRecord,
    VOTER_ASSIGNMENT_TYPE: VoterAssignmentMessage,
}


class CorruptBatch(Exception):
    """No whole, intact batch begins here."""


def encode(batch: Batch, cluster_id: str) -> bytes:
    records = (
        [_record(0, None, value, delta) for delta, value in enumerate(batch.values)]
        if batch.control is None
        else [_record(0, *_control(batch.control, cluster_id), 0)]
    )
    content = b"".join(records)
    return assembled(
        content,
        count=len(records),
        timestamp=batch.timestamp,
        base_offset=batch.base_offset,
        leader_epoch=batch.epoch,
        attributes=0 if batch.control is None else CONTROL,
    )


def decode(content: bytes, position: int) -> tuple[Batch, int]:
    """The batch at a position, and where the next begins. CorruptBatch if it is torn or not one of ours."""
    try:
        header = parse(content, position)
        if not intact(content, position, header):
            raise CorruptBatch(f"position {position}: the checksum does not fit")
        at, pairs = position + HEADER_SIZE, []
        for _ in range(header.records):
            key, value, at = _read_record(content, at)
            pairs.append((key, value))
        if header.control:
            ((key, value),) = pairs
            control = _read_control(key or b"", value)
            batch = Batch(header.base_offset, header.leader_epoch, header.base_timestamp, control=control)
        else:
            values = tuple(value for _, value in pairs)
            batch = Batch(header.base_offset, header.leader_epoch, header.base_timestamp, values)
    except (BatchRefused, struct.error, IndexError, ValueError) as error:
        raise CorruptBatch(f"position {position}: {error}") from error
    return batch, position + header.size


def decode_all(content: bytes) -> list[Batch]:
    """CorruptBatch if any of them is."""
    position, batches = 0, []
    while position < len(content):
        batch, position = decode(content, position)
        batches.append(batch)
    return batches


def _record(attributes: int, key: bytes | None, value: bytes, delta: int) -> bytes:
    body = b"".join(
        (bytes((attributes,)), signed_varint(0), signed_varint(delta), sized(key), sized(value), signed_varint(0))
    )
    return signed_varint(len(body)) + body


def _read_record(content: bytes, at: int) -> tuple[bytes | None, bytes, int]:
    size, at = varint(content, at)
    end = at + size
    _, at = varint(content, at + 1)  # timestamp delta, after the attributes
    _, at = varint(content, at)  # offset delta
    key, at = read_sized(content, at)
    value, at = read_sized(content, at)
    headers, at = varint(content, at)
    if headers or at != end or value is None:
        raise ValueError("not a record of the metadata log")
    return key, value, at


def _control(control: Control, cluster_id: str) -> tuple[bytes, bytes]:
    kind, message = _message(control, cluster_id)
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return _KEY.pack(0, kind), buffer.getvalue()


def _message(control: Control, cluster_id: str) -> tuple[int, Entity]:
    match control:
        case LeaderChange(leader_id, voters, granting):
            return 2, LeaderChangeMessage(
                version=i16(0),
                leader_id=BrokerId(i32(leader_id)),
                voters=tuple(ElectingVoter(voter_id=i32(voter)) for voter in voters),
                granting_voters=tuple(ElectingVoter(voter_id=i32(voter)) for voter in granting),
            )
        case Voters(current, target):
            return VOTER_ASSIGNMENT_TYPE, VoterAssignmentMessage(
                cluster_id=cluster_id,
                current_voters=tuple(Voter(voter_id=i32(voter)) for voter in current),
                target_voters=None if target is None else tuple(Voter(voter_id=i32(voter)) for voter in target),
            )
        case SnapshotHeader(timestamp):
            return 3, SnapshotHeaderRecord(version=i16(0), last_contained_log_timestamp=i64(timestamp))
        case SnapshotFooter():
            return 4, SnapshotFooterRecord(version=i16(0))


def _read_control(key: bytes, value: bytes) -> Control:
    _, kind = _KEY.unpack(key)
    if kind not in _TYPES:
        raise ValueError(f"a control record of type {kind}")
    message, _ = entity_reader(_TYPES[kind])(value, 0)
    match message:
        case LeaderChangeMessage():
            voters = tuple(voter.voter_id for voter in message.voters)
            return LeaderChange(message.leader_id, voters, tuple(voter.voter_id for voter in message.granting_voters))
        case VoterAssignmentMessage():
            target = message.target_voters
            return Voters(
                tuple(voter.voter_id for voter in message.current_voters),
                None if target is None else tuple(voter.voter_id for voter in target),
            )
        case SnapshotHeaderRecord():
            return SnapshotHeader(message.last_contained_log_timestamp)
        case _:
            return SnapshotFooter()
