"""The APIs of transactional producers, in all versions, and how the coordinator reaches the leaders of their partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId, TopicName
from kio.schema.write_txn_markers.v1.request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kio.static.primitive import i16, i32, i64

from nodes.protocol import transaction_state
from nodes.reference.coordinator.effects import SendMarkers
from nodes.reference.coordinator.groups.requests import TopicPartition
from nodes.reference.coordinator.partitioning import GROUPS_TOPIC, partition_of
from nodes.reference.coordinator.shard import Shard, Shards
from nodes.reference.coordinator.transactions.core import TransactionCoordinator
from nodes.reference.coordinator.transactions.requests import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    DescribedTransaction,
    Initialized,
    InitProducerId,
    Marked,
    Producer,
)
from nodes.reference.coordinator.transactions.state import TransactionState
from nodes.reference.environment import SECOND, Caller, Clock, Disconnected
from nodes.reference.server.schema import NO_TIME, fitted, in_milliseconds, response_module
from nodes.reference.server.services import Services

_DEADLINE: Final = 5 * SECOND
_FIRST_WITH_FENCED: Final = {
    22: 4,
    24: 2,
    25: 2,
    26: 2,
}  # api key -> the first version that knows PRODUCER_FENCED (KIP-588)
Handle = Callable[[Caller, Any], Awaitable[object | None]]


class TransactionHandlers:
    """without_id: serves InitProducerId of producers that are only idempotent."""

    def __init__(
        self, shards: Shards[TransactionCoordinator], services: Services, clock: Clock, without_id: Handle
    ) -> None:
        self._shards = shards
        self._services = services
        self._clock = clock
        self._without_id = without_id

    async def init_producer_id(self, caller: Caller, request: Any) -> Any:
        if request.transactional_id is None:
            return await self._without_id(caller, request)
        said = await self._initialize(request)
        initialized = Initialized(said) if isinstance(said, ErrorCode) else said
        assert isinstance(initialized, Initialized)
        return fitted(
            response_module(request).InitProducerIdResponse,
            throttle_time=NO_TIME,
            error_code=_known_to(request, initialized.error),
            producer_id=initialized.producer_id,
            producer_epoch=initialized.producer_epoch,
        )

    async def _initialize(self, request: Any) -> Any:
        shard, spare = self._shards.find(request.transactional_id), None
        if isinstance(shard, Shard) and shard.core.needs_producer_id(request.transactional_id):
            spare = await self._services.producer_id(deadline=self._clock.now() + _DEADLINE)
        asked = InitProducerId(
            transactional_id=request.transactional_id,
            timeout_ms=in_milliseconds(request.transaction_timeout),
            producer_id=getattr(request, "producer_id", NO_PRODUCER_ID),
            producer_epoch=getattr(request, "producer_epoch", NO_PRODUCER_EPOCH),
            spare=spare,
        )
        return await self._shards.ask(
            asked.transactional_id, lambda core, ticket, now: core.init_producer_id(ticket, asked, now)
        )

    async def add_partitions_to_txn(self, caller: Caller, request: Any) -> object:
        """Versions 0 to 3 are clients', 4 is brokers' (KIP-890): several transactions, and perhaps only to be looked at."""
        reply = response_module(request)
        if hasattr(request, "transactions"):
            results = []
            for asked in request.transactions:
                errors = await self._add(request, _producer(asked), asked.topics, verify_only=asked.verify_only)
                results.append(
                    reply.AddPartitionsToTxnResult(
                        transactional_id=asked.transactional_id, topic_results=_added(reply, asked.topics, errors)
                    )
                )
            return reply.AddPartitionsToTxnResponse(
                throttle_time=NO_TIME, error_code=ErrorCode.none, results_by_transaction=tuple(results)
            )
        producer = Producer(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
        )
        topics = request.v3_and_below_topics
        return fitted(
            reply.AddPartitionsToTxnResponse,
            throttle_time=NO_TIME,
            results_by_topic_v3_and_below=_added(reply, topics, await self._add(request, producer, topics)),
        )

    async def _add(
        self, request: Any, producer: Producer, topics: Iterable[Any], *, verify_only: bool = False
    ) -> Marked:
        """All or none are added."""
        partitions = {TopicPartition(topic.name, index) for topic in topics for index in topic.partitions}
        unknown = {partition for partition in partitions if not self._exists(partition)}
        if unknown:
            return {
                partition: ErrorCode.unknown_topic_or_partition
                if partition in unknown
                else ErrorCode.operation_not_attempted
                for partition in partitions
            }
        if verify_only:
            shard = self._shards.find(producer.transactional_id)
            if isinstance(shard, Shard):
                return shard.core.verify(producer, partitions)
            return dict.fromkeys(partitions, shard)
        error = await self._shards.ask(
            producer.transactional_id,
            lambda core, ticket, now: core.add_partitions(ticket, producer, partitions, now),
        )
        return dict.fromkeys(partitions, _known_to(request, error))

    async def add_offsets_to_txn(self, caller: Caller, request: Any) -> object:
        """The partition that will have the group's offsets becomes part of the transaction."""
        count = self._services.partition_count(GROUPS_TOPIC)
        error = ErrorCode.coordinator_not_available
        if count is not None:
            partition = TopicPartition(GROUPS_TOPIC, partition_of(request.group_id, count))
            producer = _producer(request)
            error = await self._shards.ask(
                producer.transactional_id,
                lambda core, ticket, now: core.add_partitions(ticket, producer, [partition], now),
            )
        reply = response_module(request)
        return fitted(reply.AddOffsetsToTxnResponse, throttle_time=NO_TIME, error_code=_known_to(request, error))

    async def end_txn(self, caller: Caller, request: Any) -> object:
        producer, commit = _producer(request), request.committed
        error = await self._shards.ask(
            producer.transactional_id, lambda core, ticket, now: core.end(ticket, producer, commit=commit, now=now)
        )
        reply = response_module(request)
        return fitted(reply.EndTxnResponse, throttle_time=NO_TIME, error_code=_known_to(request, error))

    async def describe_transactions(self, caller: Caller, request: Any) -> object:
        """KIP-664."""
        described = []
        for transactional_id in request.transactional_ids:
            shard = self._shards.find(transactional_id)
            described.append(
                shard.core.describe(transactional_id)
                if isinstance(shard, Shard)
                else DescribedTransaction(shard, transactional_id)
            )
        return transaction_state.DescribeTransactionsResponse(
            throttle_time=NO_TIME, transaction_states=tuple(_described(each) for each in described)
        )

    async def list_transactions(self, caller: Caller, request: Any) -> object:
        """KIP-664; KIP-994: only those that are open for longer than `duration_filter`."""
        reply, now = response_module(request), self._clock.wall()
        states, producers = set(request.state_filters), set(request.producer_id_filters)
        at_least = getattr(request, "duration_filter", -1)
        loading = any(shard.state is ErrorCode.coordinator_load_in_progress for shard in self._shards)
        found = [
            each
            for shard in self._shards
            if shard.state is ErrorCode.none
            for each in shard.core.describe_all()
            if (not states or each.state in states)
            and (not producers or each.producer_id in producers)
            and (at_least < 0 or (each.started >= 0 and now - each.started > at_least))
        ]
        return fitted(
            reply.ListTransactionsResponse,
            throttle_time=NO_TIME,
            error_code=ErrorCode.coordinator_load_in_progress if loading else ErrorCode.none,
            unknown_state_filters=tuple(states - {state.spelt for state in TransactionState}),
            transaction_states=tuple(
                reply.TransactionState(
                    transactional_id=each.transactional_id,
                    producer_id=each.producer_id,
                    transaction_state=each.state,
                )
                for each in found
            ),
        )

    # Markers

    async def send_markers(self, markers: SendMarkers) -> dict[TopicPartition, ErrorCode]:
        """WriteTxnMarkers to the leaders of all partitions at once; what each of them says."""
        by_leader: dict[int, list[TopicPartition]] = {}
        results: dict[TopicPartition, ErrorCode] = {}
        for topic, index in sorted(markers.partitions):
            partition = TopicPartition(topic, index)
            leader = self._services.leader_of(topic, index)
            if leader is not None:
                by_leader.setdefault(leader, []).append(partition)
            elif self._services.partition_count(topic) is None:
                results[partition] = ErrorCode.unknown_topic_or_partition
            else:
                results[partition] = ErrorCode.leader_not_available
        answers = await asyncio.gather(
            *(self._send(leader, markers, partitions) for leader, partitions in by_leader.items())
        )
        for answer in answers:
            results |= answer
        return results

    async def _send(self, leader: int, markers: SendMarkers, partitions: list[TopicPartition]) -> Marked:
        marker = WritableTxnMarker(
            producer_id=ProducerId(i64(markers.producer_id)),
            producer_epoch=i16(markers.producer_epoch),
            transaction_result=markers.commit,
            topics=tuple(_marker_topics(partitions)),
            coordinator_epoch=i32(markers.coordinator_epoch),
        )
        results: dict[TopicPartition, ErrorCode] = dict.fromkeys(partitions, ErrorCode.network_exception)
        try:
            answer: Any = await self._services.ask_broker(
                leader, WriteTxnMarkersRequest(markers=(marker,)), deadline=self._clock.now() + _DEADLINE
            )
        except Disconnected:
            return results
        for said in answer.markers:
            for topic in said.topics:
                for partition in topic.partitions:
                    results[TopicPartition(topic.name, partition.partition_index)] = partition.error_code
        return results

    def _exists(self, partition: TopicPartition) -> bool:
        count = self._services.partition_count(partition.topic)
        return count is not None and 0 <= partition.partition < count


def _producer(request: Any) -> Producer:
    return Producer(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
    )


def _added(reply: Any, topics: Iterable[Any], errors: Marked) -> tuple[Any, ...]:
    return tuple(
        reply.AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=tuple(
                reply.AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=errors[TopicPartition(topic.name, index)]
                )
                for index in topic.partitions
            ),
        )
        for topic in topics
    )


def _known_to(request: Any, error: ErrorCode) -> ErrorCode:
    """KIP-588: older clients take PRODUCER_FENCED for something unknown."""
    if error is ErrorCode.producer_fenced and request.__version__ < _FIRST_WITH_FENCED[request.__api_key__]:
        return ErrorCode.invalid_producer_epoch
    return error


def _described(described: DescribedTransaction) -> Any:
    topics: dict[str, list[int]] = {}
    for partition in sorted(described.partitions):
        topics.setdefault(partition.topic, []).append(partition.partition)
    return fitted(
        transaction_state.TransactionState,
        error_code=described.error,
        transactional_id=described.transactional_id,
        transaction_state=described.state,
        transaction_timeout_ms=described.timeout_ms,
        transaction_start_time_ms=described.started,
        producer_id=described.producer_id,
        producer_epoch=described.producer_epoch,
        topics=tuple(
            fitted(transaction_state.TopicData, topic=topic, partitions=tuple(indexes))
            for topic, indexes in topics.items()
        ),
    )


def _marker_topics(partitions: Iterable[TopicPartition]) -> Iterable[WritableTxnMarkerTopic]:
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    for topic, indexes in topics.items():
        yield WritableTxnMarkerTopic(name=TopicName(topic), partition_indexes=tuple(i32(index) for index in indexes))
