"""Fetch, for consumers and for followers: answers when there is enough to read, or `max_wait` is over (KIP-74, KIP-227, KIP-903).

Sessions (KIP-227) are declined: the session id of every answer is 0, so every request names all its partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from kio.schema.errors import ErrorCode

from nodes.reference.broker.hosted import Hosted, Waiter
from nodes.reference.broker.serving import Serving, named
from nodes.reference.environment import MILLISECOND, Caller
from nodes.reference.log.epochs import NO_EPOCH, UNKNOWN_END
from nodes.reference.partition.effects import FetchAnswer
from nodes.reference.partition.requests import ClientFetch, Isolation, ReplicaFetch
from nodes.reference.partition.view import NO_BROKER_EPOCH
from nodes.reference.server.schema import NO_TIME, fitted, in_milliseconds, response_module

_CONSUMER: Final = -1


@dataclass(frozen=True, slots=True)
class _Asked:
    """One partition of a request."""

    hosted: Hosted | ErrorCode
    part: Any


@dataclass(frozen=True, slots=True)
class _Who:
    replica: int  # below 0: a consumer
    epoch: int

    @property
    def follower(self) -> bool:
        return self.replica >= 0


class FetchHandler:
    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    async def __call__(self, caller: Caller, request: Any) -> object:
        who, asked = _who(request), self._asked(request)
        deadline = self._serving.clock.now() + in_milliseconds(request.max_wait) * MILLISECOND
        hosted = dict.fromkeys(each.hosted for each in asked if isinstance(each.hosted, Hosted))
        with Waiter(hosted, follower=who.follower) as waiter:
            timer = None
            while True:
                waiter.event.clear()
                answers = self._read(request, who, asked)
                if _enough(answers, request.min_bytes) or self._serving.clock.now() >= deadline:
                    break
                if timer is None:
                    timer = self._serving.clock.call_at(deadline, waiter.event.set)
                await waiter.event.wait()
            if timer is not None:
                timer.cancel()
        return _response(request, answers)

    def _asked(self, request: Any) -> list[_Asked]:
        serving, follower = self._serving, _who(request).follower
        may_serve = follower or serving.may_serve
        asked = []
        for topic in request.topics:
            for part in topic.partitions:
                if not may_serve:
                    hosted: Hosted | ErrorCode = ErrorCode.not_leader_or_follower
                elif hasattr(topic, "topic_id"):
                    hosted = serving.partition_by_id(topic.topic_id, part.partition)
                else:
                    hosted = serving.partition(topic.topic, part.partition)
                asked.append(_Asked(hosted, part))
        return asked

    def _read(self, request: Any, who: _Who, asked: list[_Asked]) -> list[FetchAnswer]:
        """Partition by partition, until the answer is full; the first that has something may go beyond (KIP-74)."""
        left = min(getattr(request, "max_bytes", 1 << 30), self._serving.settings.fetch_max_bytes)
        isolation = Isolation(getattr(request, "isolation_level", 0) and 1)
        answers = []
        for each in asked:
            if isinstance(each.hosted, ErrorCode):
                answers.append(FetchAnswer(each.hosted))
                continue
            size = max(min(each.part.partition_max_bytes, left), 0)
            if who.follower:
                answer = self._replica_fetch(each.hosted, each.part, who, size)
            else:
                answer = each.hosted.partition.client_fetch(_client_fetch(each.part, isolation, size))
            if left <= 0 and answer.records:
                answer = replace(answer, records=b"", aborted=None if answer.aborted is None else ())
            left -= len(answer.records)
            answers.append(answer)
        return answers

    def _replica_fetch(self, hosted: Hosted, part: Any, who: _Who, size: int) -> FetchAnswer:
        fetch = ReplicaFetch(
            replica=who.replica,
            replica_epoch=who.epoch,
            leader_epoch=getattr(part, "current_leader_epoch", NO_EPOCH),
            offset=part.fetch_offset,
            last_fetched_epoch=getattr(part, "last_fetched_epoch", NO_EPOCH),
            log_start_offset=getattr(part, "log_start_offset", -1),
            max_bytes=size,
        )
        answer, effects = hosted.partition.replica_fetch(fetch, self._serving.clock.now())
        self._serving.replicas.carry_out(hosted, effects)
        return answer


def _who(request: Any) -> _Who:
    """KIP-903: from version 15 on the replica's id and epoch are in ReplicaState."""
    state = getattr(request, "replica_state", None)
    if state is not None:
        return _Who(state.replica_id, state.replica_epoch)
    return _Who(request.replica_id, NO_BROKER_EPOCH)


def _client_fetch(part: Any, isolation: Isolation, size: int) -> ClientFetch:
    return ClientFetch(
        offset=part.fetch_offset,
        isolation=isolation,
        leader_epoch=getattr(part, "current_leader_epoch", NO_EPOCH),
        last_fetched_epoch=getattr(part, "last_fetched_epoch", NO_EPOCH),
        max_bytes=size,
    )


def _enough(answers: list[FetchAnswer], min_bytes: int) -> bool:
    if not answers or sum(len(answer.records) for answer in answers) >= max(min_bytes, 0):
        return True
    return any(answer.error is not ErrorCode.none or answer.diverging != UNKNOWN_END for answer in answers)


def _response(request: Any, answers: list[FetchAnswer]) -> object:
    reply, remaining = response_module(request), iter(answers)
    return fitted(
        reply.FetchResponse,
        throttle_time=NO_TIME,
        error_code=ErrorCode.none,
        session_id=0,
        responses=tuple(
            reply.FetchableTopicResponse(
                **named(topic, request),
                partitions=tuple(_partition(reply, part.partition, next(remaining)) for part in topic.partitions),
            )
            for topic in request.topics
        ),
    )


def _partition(reply: Any, index: int, answer: FetchAnswer) -> Any:
    diverging: dict[str, Any] = {}
    if answer.diverging != UNKNOWN_END and hasattr(reply, "EpochEndOffset"):
        diverging["diverging_epoch"] = reply.EpochEndOffset(
            epoch=answer.diverging.epoch, end_offset=answer.diverging.offset
        )
    return fitted(
        reply.PartitionData,
        partition_index=index,
        error_code=answer.error,
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.last_stable_offset,
        log_start_offset=answer.log_start_offset,
        aborted_transactions=None
        if answer.aborted is None
        else tuple(
            reply.AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
            for aborted in answer.aborted
        ),
        preferred_read_replica=-1,
        records=answer.records,
        **diverging,
    )
