"""A group and its offsets as records of `__consumer_offsets`, and back (Kafka's formats: schema.py).

of_group(group, {"m-1": b"..."})                 one record: generation, protocol, leader, members with assignments
of_offsets("g", {TopicPartition("t", 0): Offset(120)})     one record for each partition
read(record)                                     GroupRead("g", Group(...) | None) | OffsetRead("g", partition, Offset | None) | None
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kio.static.primitive import i32, i64

from nodes.reference.coordinator import framing
from nodes.reference.coordinator.groups.group import Group, GroupState, Member
from nodes.reference.coordinator.groups.requests import Offset, TopicPartition
from nodes.reference.coordinator.schema import (
    GroupMember,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from nodes.reference.log.keyed import KeyedRecord, Undecodable

_OFFSET_KEYS: Final = (0, 1)
_GROUP_KEY: Final = 2


def of_group(group: Group, assignments: Mapping[str, bytes]) -> tuple[KeyedRecord, ...]:
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=i32(group.generation),
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=i64(group.since),
        members=tuple(
            GroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=i32(member.rebalance_timeout),
                session_timeout=i32(member.session_timeout),
                subscription=member.metadata(group.protocol),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in group.members.values()
        ),
    )
    return (KeyedRecord(_group_key(group.group_id), framing.written(value)),)


def of_offsets(group_id: str, offsets: Mapping[TopicPartition, Offset]) -> tuple[KeyedRecord, ...]:
    return tuple(
        KeyedRecord(
            _offset_key(group_id, partition),
            framing.written(
                OffsetCommitValue(
                    offset=i64(offset.offset),
                    leader_epoch=i32(offset.leader_epoch),
                    metadata=offset.metadata,
                    commit_timestamp=i64(offset.timestamp),
                )
            ),
        )
        for partition, offset in offsets.items()
    )


def of_deleted_offsets(group_id: str, partitions: Iterable[TopicPartition]) -> tuple[KeyedRecord, ...]:
    return tuple(KeyedRecord(_offset_key(group_id, partition), None) for partition in partitions)


def of_deleted_group(group_id: str) -> KeyedRecord:
    return KeyedRecord(_group_key(group_id), None)


class GroupRead(NamedTuple):
    group_id: str
    group: Group | None  # None: deleted


class OffsetRead(NamedTuple):
    group_id: str
    partition: TopicPartition
    offset: Offset | None  # None: deleted


def read(record: KeyedRecord) -> GroupRead | OffsetRead | None:
    """None for what is of another kind (Kafka 4 keeps more here). Undecodable for what is of this kind and broken."""
    version = framing.version(record.key)
    if version == _GROUP_KEY:
        group_id = framing.read(GroupMetadataKey, record.key).group
        return GroupRead(group_id, None if record.value is None else _group(group_id, record.value))
    if version not in _OFFSET_KEYS:
        return None
    key = framing.read(OffsetCommitKey, record.key)
    partition = TopicPartition(key.topic, key.partition)
    if record.value is None:
        return OffsetRead(key.group, partition, None)
    _expect(record.value, OffsetCommitValue)
    value = framing.read(OffsetCommitValue, record.value)
    offset = Offset(value.offset, value.leader_epoch, value.metadata, value.commit_timestamp)
    return OffsetRead(key.group, partition, offset)


def _group(group_id: str, content: bytes) -> Group:
    _expect(content, GroupMetadataValue)
    value = framing.read(GroupMetadataValue, content)
    members = {
        member.member_id: Member(
            member_id=member.member_id,
            instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout,
            session_timeout=member.session_timeout,
            protocols=((value.protocol or "", member.subscription),),
            assignment=member.assignment,
        )
        for member in value.members
    }
    return Group(
        group_id=group_id,
        state=GroupState.STABLE if members else GroupState.EMPTY,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
        leader=value.leader,
        members=members,
        since=value.current_state_timestamp,
    )


def _expect(content: bytes, kind: type[GroupMetadataValue] | type[OffsetCommitValue]) -> None:
    found = framing.version(content)
    if found != kind.__version__:
        raise Undecodable(f"{kind.__name__} version {found}: this coordinator writes and reads {kind.__version__}")


def _group_key(group_id: str) -> bytes:
    return framing.written(GroupMetadataKey(group=group_id))


def _offset_key(group_id: str, partition: TopicPartition) -> bytes:
    return framing.written(OffsetCommitKey(group=group_id, topic=partition.topic, partition=i32(partition.partition)))
