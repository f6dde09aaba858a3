"""The APIs of committed offsets, in all versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference.coordinator.effects import Effect, Ticket
from nodes.reference.coordinator.groups.core import GroupCoordinator
from nodes.reference.coordinator.groups.requests import (
    NO_GENERATION,
    UNKNOWN_MEMBER,
    Commit,
    DeletedOffsets,
    Fetched,
    Offset,
    TopicPartition,
    TransactionalCommit,
    unfetched,
)
from nodes.reference.coordinator.shard import Shard, Shards
from nodes.reference.environment import Caller, Clock
from nodes.reference.server.schema import NO_TIME, fitted, response_module
from nodes.reference.server.services import Services

Errors = Mapping[TopicPartition, ErrorCode]


class OffsetHandlers:
    def __init__(self, shards: Shards[GroupCoordinator], services: Services, clock: Clock) -> None:
        self._shards = shards
        self._services = services
        self._clock = clock

    async def offset_commit(self, caller: Caller, request: Any) -> object:
        def commit(
            core: GroupCoordinator, ticket: Ticket, now: int, offsets: dict[TopicPartition, Offset]
        ) -> list[Effect]:
            asked = Commit(
                group=request.group_id,
                offsets=offsets,
                generation=request.generation_id_or_member_epoch,
                member_id=request.member_id,
                instance_id=getattr(request, "group_instance_id", None),
            )
            return core.commit(ticket, asked, now)

        errors, reply = await self._commit(request, commit), response_module(request)
        return fitted(
            reply.OffsetCommitResponse,
            throttle_time=NO_TIME,
            topics=_by_topic(
                request.topics, errors, reply.OffsetCommitResponseTopic, reply.OffsetCommitResponsePartition
            ),
        )

    async def txn_offset_commit(self, caller: Caller, request: Any) -> object:
        def commit(
            core: GroupCoordinator, ticket: Ticket, now: int, offsets: dict[TopicPartition, Offset]
        ) -> list[Effect]:
            asked = Commit(
                group=request.group_id,
                offsets=offsets,
                generation=getattr(request, "generation_id", NO_GENERATION),
                member_id=getattr(request, "member_id", UNKNOWN_MEMBER),
                instance_id=getattr(request, "group_instance_id", None),
            )
            transactional = TransactionalCommit(
                commit=asked, producer_id=request.producer_id, producer_epoch=request.producer_epoch
            )
            return core.transactional_commit(ticket, transactional, now)

        errors, reply = await self._commit(request, commit), response_module(request)
        return fitted(
            reply.TxnOffsetCommitResponse,
            throttle_time=NO_TIME,
            topics=_by_topic(
                request.topics, errors, reply.TxnOffsetCommitResponseTopic, reply.TxnOffsetCommitResponsePartition
            ),
        )

    async def _commit(
        self,
        request: Any,
        call: Callable[[GroupCoordinator, Ticket, int, dict[TopicPartition, Offset]], list[Effect]],
    ) -> Errors:
        """Partitions that do not exist are refused, the others are committed."""
        wall = self._clock.wall()
        asked = {
            TopicPartition(topic.name, partition.partition_index): Offset(
                partition.committed_offset,
                getattr(partition, "committed_leader_epoch", -1),
                partition.committed_metadata or "",
                wall,
            )
            for topic in request.topics
            for partition in topic.partitions
        }
        known = {partition: offset for partition, offset in asked.items() if self._exists(partition)}
        errors: dict[TopicPartition, ErrorCode] = dict.fromkeys(asked, ErrorCode.unknown_topic_or_partition)
        if known or not asked:
            said = await self._shards.ask(request.group_id, lambda core, ticket, now: call(core, ticket, now, known))
            errors |= dict.fromkeys(known, said) if isinstance(said, ErrorCode) else said
        return errors

    def _exists(self, partition: TopicPartition) -> bool:
        count = self._services.partition_count(partition.topic)
        return count is not None and 0 <= partition.partition < count

    async def offset_fetch(self, caller: Caller, request: Any) -> object:
        """Versions up to 7 ask for one group, 8 for several (KIP-709)."""
        reply, stable = response_module(request), getattr(request, "require_stable", False)
        if hasattr(request, "groups"):
            groups = [self._fetch(group.group_id, group.topics, stable=stable) for group in request.groups]
            return reply.OffsetFetchResponse(
                throttle_time=NO_TIME,
                groups=tuple(
                    reply.OffsetFetchResponseGroup(
                        group_id=group.group_id,
                        topics=_fetched(fetched, reply.OffsetFetchResponseTopics, reply.OffsetFetchResponsePartitions),
                        error_code=fetched.error,
                    )
                    for group, fetched in zip(request.groups, groups, strict=True)
                ),
            )
        fetched = self._fetch(request.group_id, request.topics, stable=stable)
        return fitted(
            reply.OffsetFetchResponse,
            throttle_time=NO_TIME,
            topics=_fetched(fetched, reply.OffsetFetchResponseTopic, reply.OffsetFetchResponsePartition),
            error_code=fetched.error,
        )

    def _fetch(self, group_id: str, topics: Any, *, stable: bool) -> Fetched:
        wanted = None
        if topics is not None:
            wanted = [TopicPartition(topic.name, index) for topic in topics for index in topic.partition_indexes]
        shard = self._shards.find(group_id)
        if isinstance(shard, Shard):
            return shard.core.fetch(group_id, wanted, stable=stable)
        return unfetched(shard, wanted or ())

    async def offset_delete(self, caller: Caller, request: Any) -> object:
        """KIP-496."""
        asked = [
            TopicPartition(topic.name, partition.partition_index)
            for topic in request.topics
            for partition in topic.partitions
        ]
        known, group_id = [partition for partition in asked if self._exists(partition)], request.group_id
        said = await self._shards.ask(group_id, lambda core, ticket, now: core.delete_offsets(ticket, group_id, known))
        deleted = DeletedOffsets(said) if isinstance(said, ErrorCode) else said
        assert isinstance(deleted, DeletedOffsets)
        reply = response_module(request)
        errors = dict.fromkeys(asked, ErrorCode.unknown_topic_or_partition) | dict(deleted.partitions)
        return reply.OffsetDeleteResponse(
            error_code=deleted.error,
            throttle_time=NO_TIME,
            topics=_by_topic(
                request.topics if deleted.error is ErrorCode.none else (),
                errors,
                reply.OffsetDeleteResponseTopic,
                reply.OffsetDeleteResponsePartition,
            ),
        )


def _by_topic(topics: Iterable[Any], errors: Errors, topic_entity: Any, partition_entity: Any) -> tuple[Any, ...]:
    return tuple(
        topic_entity(
            name=topic.name,
            partitions=tuple(
                partition_entity(
                    partition_index=partition.partition_index,
                    error_code=errors[TopicPartition(topic.name, partition.partition_index)],
                )
                for partition in topic.partitions
            ),
        )
        for topic in topics
    )


def _fetched(fetched: Fetched, topic_entity: Any, partition_entity: Any) -> tuple[Any, ...]:
    topics: dict[str, list[Any]] = {}
    for partition, (error, offset) in fetched.offsets.items():
        topics.setdefault(partition.topic, []).append(
            fitted(
                partition_entity,
                partition_index=partition.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                metadata=offset.metadata,
                error_code=error,
            )
        )
    return tuple(topic_entity(name=topic, partitions=tuple(partitions)) for topic, partitions in topics.items())
