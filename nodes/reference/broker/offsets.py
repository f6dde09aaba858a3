"""ListOffsets (KIP-79, KIP-207, KIP-734) and OffsetForLeaderEpoch (KIP-101, KIP-320)."""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from nodes.reference.broker.hosted import Hosted
from nodes.reference.broker.serving import Serving, named
from nodes.reference.environment import Caller
from nodes.reference.log.epochs import NO_EPOCH
from nodes.reference.partition.effects import OffsetAnswer
from nodes.reference.partition.requests import Isolation
from nodes.reference.server.schema import NO_TIME, fitted, response_module

_ANY_REPLICA: Final = -2  # Kafka's "debugging" replica id: whoever is asked tells of its own log, leader or not


class OffsetHandlers:
    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    async def list_offsets(self, caller: Caller, request: Any) -> object:
        reply = response_module(request)
        listed = self._list_own if request.replica_id == _ANY_REPLICA else self._list
        isolation = None if request.replica_id >= 0 else Isolation(getattr(request, "isolation_level", 0) and 1)
        return fitted(
            reply.ListOffsetsResponse,
            throttle_time=NO_TIME,
            topics=tuple(
                reply.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        _listed(reply, part.partition_index, listed(topic.name, part, isolation))
                        for part in topic.partitions
                    ),
                )
                for topic in request.topics
            ),
        )

    def _list(self, topic: str, part: Any, isolation: Isolation | None) -> OffsetAnswer:
        hosted = self._find(topic, part.partition_index, follower=isolation is None)
        if isinstance(hosted, ErrorCode):
            return OffsetAnswer(hosted)
        return hosted.partition.list_offset(part.timestamp, isolation, getattr(part, "current_leader_epoch", NO_EPOCH))

    def _list_own(self, topic: str, part: Any, isolation: Isolation | None) -> OffsetAnswer:
        hosted = self._serving.partition(topic, part.partition_index)
        return (
            OffsetAnswer(hosted) if isinstance(hosted, ErrorCode) else hosted.partition.list_own_offset(part.timestamp)
        )

    def _find(self, topic: str, index: int, *, follower: bool) -> Hosted | ErrorCode:
        serving = self._serving
        return serving.partition(topic, index) if follower else serving.client_partition(topic, index)

    async def offset_for_leader_epoch(self, caller: Caller, request: Any) -> object:
        reply = response_module(request)
        follower = getattr(request, "replica_id", -1) >= 0
        return fitted(
            reply.OffsetForLeaderEpochResponse,
            throttle_time=NO_TIME,
            topics=tuple(
                reply.OffsetForLeaderTopicResult(
                    **named(topic, request),
                    partitions=tuple(
                        self._end_of_epoch(reply, topic.topic, part, follower) for part in topic.partitions
                    ),
                )
                for topic in request.topics
            ),
        )

    def _end_of_epoch(self, reply: Any, topic: str, part: Any, follower: bool) -> Any:
        hosted = self._find(topic, part.partition, follower=follower)
        if isinstance(hosted, ErrorCode):
            error, epoch, offset = hosted, -1, -1
        else:
            error, end = hosted.partition.end_of_epoch(
                getattr(part, "current_leader_epoch", NO_EPOCH), part.leader_epoch
            )
            epoch, offset = end
        return reply.EpochEndOffset(error_code=error, partition=part.partition, leader_epoch=epoch, end_offset=offset)


def _listed(reply: Any, index: int, answer: OffsetAnswer) -> Any:
    return fitted(
        reply.ListOffsetsPartitionResponse,
        partition_index=index,
        error_code=answer.error,
        timestamp=answer.timestamp,
        offset=answer.offset,
        leader_epoch=answer.leader_epoch,
    )
