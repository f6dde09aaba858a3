"""KIP-890, part 1: before a leader appends the first batch of a transaction, it asks the coordinator whether the partition was added to it.

A batch that comes late, when its transaction has been ended by a time-out or a new producer, would else open a transaction that no
coordinator knows of and nobody ends: readers of committed records would see nothing behind it, or the producer's next transaction would
decide about it (KAFKA-14402).

    error = await verification.check(log, batch, "my-transactional-id", "orders", 0)
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.add_partitions_to_txn.v4.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import i16, i32, i64

from nodes.reference.coordinator.partitioning import TRANSACTIONS_TOPIC, partition_of
from nodes.reference.environment import SECOND, Clock, Disconnected
from nodes.reference.log.batch import BatchHeader, BatchRefused, parse
from nodes.reference.log.log import Log
from nodes.reference.protections import Protection, Protections
from nodes.reference.server.services import Services

_DEADLINE: Final = 5 * SECOND
# ReplicaManager: what producers of these versions do not expect from a leader becomes something that they try again
_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.concurrent_transactions,
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)


class Verification:
    def __init__(self, services: Services, clock: Clock, protections: Protections, *, enabled: bool) -> None:
        """enabled: `transaction.partition.verification.enable`."""
        self._services = services
        self._clock = clock
        self._protections = protections
        self._enabled = enabled

    async def check(self, log: Log, batch: bytes, transactional_id: str | None, topic: str, index: int) -> ErrorCode:
        """May this batch be appended, as far as transactions go? What is wrong with it otherwise is not said here."""
        try:
            header = parse(batch, 0)
        except BatchRefused:
            return ErrorCode.none
        if not header.transactional or not self._enabled or not self._protections.on(Protection.TRANSACTION_VERIFIED):
            return ErrorCode.none
        while not log.transactions.is_open(header.producer_id):
            known = log.producers.get(header.producer_id)
            error = await self._ask(transactional_id or "", header, topic, index)
            if error is not ErrorCode.none:
                return ErrorCode.not_enough_replicas if error in _TRY_AGAIN else error
            if log.producers.get(header.producer_id) is known:
                break  # no marker has come meanwhile (Kafka's VerificationGuard)
        return ErrorCode.none

    async def _ask(self, transactional_id: str, header: BatchHeader, topic: str, index: int) -> ErrorCode:
        partitions = self._services.partition_count(TRANSACTIONS_TOPIC)
        if partitions is None:
            return ErrorCode.coordinator_not_available
        coordinator = self._services.leader_of(TRANSACTIONS_TOPIC, partition_of(transactional_id, partitions))
        if coordinator is None:
            return ErrorCode.coordinator_not_available
        asked = AddPartitionsToTxnTransaction(
            transactional_id=TransactionalId(transactional_id),
            producer_id=ProducerId(i64(header.producer_id)),
            producer_epoch=i16(header.producer_epoch),
            verify_only=True,
            topics=(AddPartitionsToTxnTopic(name=TopicName(topic), partitions=(i32(index),)),),
        )
        try:
            answer: Any = await self._services.ask_broker(
                coordinator,
                AddPartitionsToTxnRequest(transactions=(asked,)),
                deadline=self._clock.now() + _DEADLINE,
            )
        except Disconnected:
            return ErrorCode.network_exception
        ((said,),) = (each.topic_results for each in answer.results_by_transaction)
        error: ErrorCode = said.results_by_partition[0].partition_error_code
        return ErrorCode.invalid_producer_epoch if error is ErrorCode.producer_fenced else error
