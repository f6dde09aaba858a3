"""Requests of group members, and what consumers write into each other's subscriptions and assignments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from kio.schema.consumer_protocol_assignment.v0.data import ConsumerProtocolAssignment, TopicPartition
from kio.schema.consumer_protocol_subscription.v0.data import ConsumerProtocolSubscription
from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v7.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.offset_commit.v8.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_fetch.v7.request import OffsetFetchRequest, OffsetFetchRequestTopic
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.schema.txn_offset_commit.v3.request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kio.schema.types import GroupId, ProducerId, TopicName, TransactionalId
from kio.static.primitive import i16, i32, i64

from harness.simulated.batches import Writer
from nodes.reference.coordinator import framing
from nodes.reference.server.schema import milliseconds

Place = tuple[str, int]
PROTOCOL_TYPE: Final = "consumer"
ASSIGNOR: Final = "roundrobin"
NO_GENERATION: Final = -1


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Who a member is in its group; `Standing(group="g0")` is in none."""

    group: str
    instance: str | None = None
    member: str = ""
    generation: int = NO_GENERATION


def join(who: Standing, topics: Sequence[str], *, session_ms: int, rebalance_ms: int) -> JoinGroupRequest:
    subscription = framing.written(ConsumerProtocolSubscription(topics=tuple(topics)))
    return JoinGroupRequest(
        group_id=GroupId(who.group),
        session_timeout=milliseconds(session_ms),
        rebalance_timeout=milliseconds(rebalance_ms),
        member_id=who.member,
        group_instance_id=who.instance,
        protocol_type=PROTOCOL_TYPE,
        protocols=(JoinGroupRequestProtocol(name=ASSIGNOR, metadata=subscription),),
    )


def sync(who: Standing, assignments: Mapping[str, Sequence[Place]]) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=GroupId(who.group),
        generation_id=i32(who.generation),
        member_id=who.member,
        group_instance_id=who.instance,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=ASSIGNOR,
        assignments=tuple(
            SyncGroupRequestAssignment(member_id=member, assignment=_assignment(places))
            for member, places in assignments.items()
        ),
    )


def heartbeat(who: Standing) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=GroupId(who.group),
        generation_id=i32(who.generation),
        member_id=who.member,
        group_instance_id=who.instance,
    )


def leave(who: Standing) -> LeaveGroupRequest:
    member = MemberIdentity(member_id=who.member, group_instance_id=who.instance)
    return LeaveGroupRequest(group_id=GroupId(who.group), members=(member,))


def commit(who: Standing, positions: Mapping[Place, int]) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=GroupId(who.group),
        generation_id_or_member_epoch=i32(who.generation),
        member_id=who.member,
        group_instance_id=who.instance,
        topics=_by_topic(positions, OffsetCommitRequestTopic, OffsetCommitRequestPartition),
    )


def transactional_commit(
    who: Standing, positions: Mapping[Place, int], transactional_id: str, writer: Writer
) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id=TransactionalId(transactional_id),
        group_id=GroupId(who.group),
        producer_id=ProducerId(i64(writer.producer_id)),
        producer_epoch=i16(writer.epoch),
        generation_id=i32(who.generation),
        member_id=who.member,
        group_instance_id=who.instance,
        topics=_by_topic(positions, TxnOffsetCommitRequestTopic, TxnOffsetCommitRequestPartition),
    )


def fetch(group: str, places: Sequence[Place]) -> OffsetFetchRequest:
    """Offsets of a transaction that is being ended are waited for (KIP-447)."""
    topics = tuple(
        OffsetFetchRequestTopic(name=TopicName(topic), partition_indexes=tuple(i32(number) for _, number in mine))
        for topic, mine in groupby(sorted(places), key=lambda place: place[0])
    )
    return OffsetFetchRequest(group_id=GroupId(group), topics=topics, require_stable=True)


def fetched(response: Any) -> dict[Place, int | None]:
    """What is committed; None: nothing."""
    return {
        (str(topic.name), int(one.partition_index)): int(one.committed_offset) if one.committed_offset >= 0 else None
        for topic in response.topics
        for one in topic.partitions
    }


def error_of_fetch(response: Any) -> ErrorCode:
    error: ErrorCode = response.error_code
    return error if error is not ErrorCode.none else error_of_topics(response)


def error_of_topics(response: Any) -> ErrorCode:
    """The first that there is."""
    errors = (one.error_code for topic in response.topics for one in topic.partitions)
    return next((error for error in errors if error is not ErrorCode.none), ErrorCode.none)


def shared_out(members: Sequence[str], places: Sequence[Place], generation: int) -> dict[str, list[Place]]:
    """In turn, to members in the order of their ids, beginning with another in each generation: partitions move whenever they can."""
    ordered = sorted(members)
    count = len(ordered)
    return {member: list(places[(number + generation) % count :: count]) for number, member in enumerate(ordered)}


def assigned(assignment: bytes) -> list[Place]:
    """Empty: nobody has assigned anything."""
    if not assignment:
        return []
    found = framing.read(ConsumerProtocolAssignment, assignment)
    return [(str(one.topic), int(number)) for one in found.assigned_partitions for number in one.partitions]


def _assignment(places: Sequence[Place]) -> bytes:
    topics = tuple(
        TopicPartition(topic=TopicName(topic), partitions=tuple(i32(number) for _, number in mine))
        for topic, mine in groupby(sorted(places), key=lambda place: place[0])
    )
    return framing.written(ConsumerProtocolAssignment(assigned_partitions=topics, user_data=None))


def _by_topic(positions: Mapping[Place, int], topic_entity: Any, partition_entity: Any) -> tuple[Any, ...]:
    return tuple(
        topic_entity(
            name=TopicName(topic),
            partitions=tuple(
                partition_entity(
                    partition_index=i32(number),
                    committed_offset=i64(offset),
                    committed_leader_epoch=i32(-1),
                    committed_metadata=None,
                )
                for (_, number), offset in mine
            ),
        )
        for topic, mine in groupby(sorted(positions.items()), key=lambda one: one[0][0])
    )
