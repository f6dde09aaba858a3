"""Produce: appends what clients send, and answers when `acks` says so."""

from __future__ import annotations

import asyncio
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference.broker.serving import Serving
from nodes.reference.coordinator.verification import Verification
from nodes.reference.environment import MILLISECOND, Caller, Refused
from nodes.reference.partition.effects import ProduceAnswered
from nodes.reference.partition.requests import Acks
from nodes.reference.server.schema import NO_TIME, fitted, in_milliseconds, response_module


class ProduceHandler:
    """verification: of what is written in transactions (KIP-890)."""

    def __init__(self, serving: Serving, verification: Verification) -> None:
        self._serving = serving
        self._verification = verification

    async def __call__(self, caller: Caller, request: Any) -> object | None:
        """acks=0 gets no answer; where there would have been an error, the connection ends, so that the producer learns of it."""
        deadline = self._serving.clock.now() + in_milliseconds(request.timeout) * MILLISECOND
        id = request.transactional_id
        asked = [
            (topic.name, partition.index, partition.records, id)
            for topic in request.topic_data
            for partition in topic.partition_data
        ]
        if len(asked) == 1:
            answers = [await self._append(*asked[0], request.acks, deadline)]
        else:
            answers = await asyncio.gather(*(self._append(*each, request.acks, deadline) for each in asked))
        if request.acks == Acks.NONE:
            if any(answer.error is not ErrorCode.none for answer in answers):
                raise Refused(f"a record with acks=0 was not appended: {answers}")
            return None
        return self._response(request, answers)

    async def _append(
        self, topic: str, index: int, content: bytes | None, transactional_id: str | None, acks: int, deadline: int
    ) -> ProduceAnswered:
        hosted = self._serving.client_partition(topic, index)
        if isinstance(hosted, ErrorCode):
            return ProduceAnswered(0, hosted)
        if transactional_id is not None:
            log = hosted.partition.local.log
            error = await self._verification.check(log, content or b"", transactional_id, topic, index)
            if error is not ErrorCode.none:
                return ProduceAnswered(0, error)
        return await self._serving.replicas.produce(hosted, content or b"", acks=acks, deadline=deadline)

    def _response(self, request: Any, answers: list[ProduceAnswered]) -> object:
        reply, remaining = response_module(request), iter(answers)
        return fitted(
            reply.ProduceResponse,
            throttle_time=NO_TIME,
            responses=tuple(
                reply.TopicProduceResponse(
                    name=topic.name,
                    partition_responses=tuple(
                        _partition(reply, partition.index, next(remaining)) for partition in topic.partition_data
                    ),
                )
                for topic in request.topic_data
            ),
        )


def _partition(reply: Any, index: int, answer: ProduceAnswered) -> Any:
    return fitted(
        reply.PartitionProduceResponse,
        index=index,
        error_code=answer.error,
        base_offset=answer.base_offset,
        log_append_time=None,  # the timestamps are the producer's
        log_start_offset=answer.log_start_offset,
        record_errors=(),
        error_message=answer.message,
    )
