"""WriteTxnMarkers: coordinators of transactions end them on the partitions that this broker leads (KIP-98).

Sent by brokers only, and served like what followers ask: a broker whose lease is over may still hold the partition's only leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from nodes.reference.broker.serving import Serving
from nodes.reference.environment import SECOND, Caller
from nodes.reference.log.batch import Marker
from nodes.reference.partition.requests import WriteMarker
from nodes.reference.server.schema import response_module

_DEADLINE: Final = 4 * SECOND  # less than the coordinator waits: then it tries again
Marked = Callable[[str, int, int, bool], None]  # topic, partition, producer id, committed


class MarkerHandler:
    """marked: told of every marker that is committed."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self.marked: list[Marked] = []

    async def __call__(self, caller: Caller, request: Any) -> object:
        reply = response_module(request)
        asked = [
            (marker, topic.name, index)
            for marker in request.markers
            for topic in marker.topics
            for index in topic.partition_indexes
        ]
        answers = iter(await asyncio.gather(*(self._write(*each) for each in asked)))
        return reply.WriteTxnMarkersResponse(
            markers=tuple(
                reply.WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=tuple(
                        reply.WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=tuple(
                                reply.WritableTxnMarkerPartitionResult(partition_index=index, error_code=next(answers))
                                for index in topic.partition_indexes
                            ),
                        )
                        for topic in marker.topics
                    ),
                )
                for marker in request.markers
            )
        )

    async def _write(self, marker: Any, topic: str, index: int) -> ErrorCode:
        hosted, clock = self._serving.partition(topic, index), self._serving.clock
        if isinstance(hosted, ErrorCode):
            return hosted
        answer = await self._serving.replicas.write_marker(
            hosted,
            lambda ticket: WriteMarker(
                ticket=ticket,
                marker=Marker.COMMIT if marker.transaction_result else Marker.ABORT,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                timestamp=clock.wall(),
                deadline=clock.now() + _DEADLINE,
            ),
        )
        if answer.error is ErrorCode.none:
            for marked in self.marked:
                marked(topic, index, marker.producer_id, marker.transaction_result)
        return answer.error
