"""A transactional id as a record of `__transaction_state`, and back (Kafka's formats: schema.py).

of_transaction(Transaction(transactional_id="t", ...), version=1)     KeyedRecord(key, value)
read(record)                                                         ("t", Transaction(...) | None)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kio.static.primitive import i8, i16, i32, i64

from nodes.reference.coordinator import framing
from nodes.reference.coordinator.groups.requests import TopicPartition
from nodes.reference.coordinator.schema import (
    PartitionsV0,
    PartitionsV1,
    TransactionLogKey,
    TransactionLogValueV0,
    TransactionLogValueV1,
)
from nodes.reference.coordinator.transactions.requests import NO_PRODUCER_ID
from nodes.reference.coordinator.transactions.state import Transaction, TransactionState
from nodes.reference.log.keyed import KeyedRecord, Undecodable

_STATES: Final = {state.number: state for state in TransactionState}


def of_transaction(transaction: Transaction, *, version: int) -> KeyedRecord:
    """version: of the value, 0 or 1. Only 1 says which producer id came before this one."""
    key = framing.written(TransactionLogKey(transactional_id=transaction.transactional_id))
    topics = sorted({partition.topic for partition in transaction.partitions})
    ids = {
        topic: tuple(sorted(i32(one.partition) for one in transaction.partitions if one.topic == topic))
        for topic in topics
    }
    # an Empty transaction has no partitions, which is not the same as none (TransactionLog.valueToBytes)
    empty = transaction.state is TransactionState.EMPTY
    producer_id, epoch = i64(transaction.producer_id), i16(transaction.producer_epoch)
    timeout, status = i32(transaction.timeout_ms), i8(transaction.state.number)
    updated, started = i64(transaction.updated), i64(transaction.started)
    if version == 0:
        return KeyedRecord(
            key,
            framing.written(
                TransactionLogValueV0(
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    transaction_timeout_ms=timeout,
                    transaction_status=status,
                    transaction_partitions=None
                    if empty
                    else tuple(PartitionsV0(topic=topic, partition_ids=ids[topic]) for topic in topics),
                    transaction_last_update_timestamp_ms=updated,
                    transaction_start_timestamp_ms=started,
                )
            ),
        )
    return KeyedRecord(
        key,
        framing.written(
            TransactionLogValueV1(
                producer_id=producer_id,
                previous_producer_id=i64(transaction.last_producer_id),
                producer_epoch=epoch,
                transaction_timeout_ms=timeout,
                transaction_status=status,
                transaction_partitions=None
                if empty
                else tuple(PartitionsV1(topic=topic, partition_ids=ids[topic]) for topic in topics),
                transaction_last_update_timestamp_ms=updated,
                transaction_start_timestamp_ms=started,
            )
        ),
    )


def of_expired(transactional_id: str) -> KeyedRecord:
    return KeyedRecord(framing.written(TransactionLogKey(transactional_id=transactional_id)), None)


def read(record: KeyedRecord) -> tuple[str, Transaction | None]:
    """None: the id is deleted. Undecodable for what no coordinator has written."""
    if framing.version(record.key) != 0:
        raise Undecodable(f"{record.key!r} is no key of a transactional id")
    transactional_id = framing.read(TransactionLogKey, record.key).transactional_id
    if record.value is None:
        return transactional_id, None
    previous, value = NO_PRODUCER_ID, _value(record.value)
    if isinstance(value, TransactionLogValueV1):
        previous = value.previous_producer_id
    if value.transaction_status not in _STATES:
        raise Undecodable(f"transactional id {transactional_id!r} is in state {value.transaction_status}")
    return transactional_id, Transaction(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        last_producer_id=previous,
        timeout_ms=value.transaction_timeout_ms,
        state=_STATES[value.transaction_status],
        partitions=frozenset(_partitions(value.transaction_partitions or ())),
        started=value.transaction_start_timestamp_ms,
        updated=value.transaction_last_update_timestamp_ms,
    )


def _value(content: bytes) -> TransactionLogValueV0 | TransactionLogValueV1:
    version = framing.version(content)
    if version == 0:
        return framing.read(TransactionLogValueV0, content)
    if version == 1:
        return framing.read(TransactionLogValueV1, content)
    raise Undecodable(f"TransactionLogValue version {version}: this coordinator reads 0 and 1")


def _partitions(topics: Iterable[PartitionsV0 | PartitionsV1]) -> Iterable[TopicPartition]:
    for topic in topics:
        for partition in topic.partition_ids:
            yield TopicPartition(topic.topic, partition)
