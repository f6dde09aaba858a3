"""Raw requests of a transactional producer and its coordinator (KIP-98, KIP-664, KIP-890).

    writer = await transactions.begin(connection, "tx", timeout=5)                      # InitProducerId: Writer(producer_id=1000, epoch=0)
    await transactions.add_partitions(connection, writer, [("t", 0)], timeout=5)       # "NONE", "CONCURRENT_TRANSACTIONS", ...
    await logs.produce(leader, "t", 0, [b"a"], writer=writer, base_sequence=0, timeout=5)
    ended = await transactions.end(connection, writer, commit=True, timeout=5)

EndTxn up to version 4 ends whatever transaction of that producer epoch is open when it arrives, which is how a late one hits the wrong
one (KAFKA-17754); version 5 (transaction.version 2) bumps the epoch with every transaction, so `Ended.writer` is the one to go on with.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

from kio.schema.add_partitions_to_txn.v3 import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnTopic
from kio.schema.describe_transactions.v0 import DescribeTransactionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v4 import FindCoordinatorRequest, FindCoordinatorResponse
from kio.schema.init_producer_id.v4 import InitProducerIdRequest, InitProducerIdResponse
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import i8, i16, i32

from nodes.protocol.connection import Connection
from nodes.protocol.logs import Writer
from nodes.protocol.requests import Declined, error_name, milliseconds
from nodes.protocol.transaction_state import DescribeTransactionsResponse

GROUP, TRANSACTION = 0, 1  # key types of FindCoordinator
RETRY_S: Final = 0.1
_PASSING: Final = frozenset(
    {
        ErrorCode.not_coordinator,  # also from one that has not loaded its partition yet
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.concurrent_transactions,
    }
)
BUMPS_EPOCH: Final = 5  # EndTxn version of transaction.version 2


@dataclass(frozen=True, kw_only=True)
class Ended:
    error: str  # NONE, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, CONCURRENT_TRANSACTIONS, ...
    writer: Writer  # to go on with


@dataclass(frozen=True, kw_only=True)
class Transaction:
    """What a coordinator knows of a transactional id."""

    error: str
    state: str  # Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead; "" with an error
    producer_id: int
    epoch: int
    timeout_ms: int
    partitions: frozenset[tuple[str, int]]


async def coordinator(connection: Connection, key: str, *, kind: int, timeout: float) -> tuple[str, int]:
    """(error name, broker id) of who coordinates a transactional id or a group; -1 with an error."""
    request = FindCoordinatorRequest(key_type=i8(kind), coordinator_keys=(key,))
    for one in (await connection.ask(request, FindCoordinatorResponse, timeout=timeout)).coordinators:
        return error_name(one.error_code), int(one.node_id)
    return error_name(ErrorCode.coordinator_not_available), -1


async def begin(
    connection: Connection, transactional_id: str | None, *, transaction_timeout: float = 60.0, timeout: float
) -> Writer:
    """InitProducerId: a producer id and epoch, fencing earlier ones of that transactional id.

    A coordinator that still loads, or ends an earlier transaction, is asked again for `timeout` seconds; then Declined has its error.
    transactional_id: None for an idempotent producer without transactions. transaction_timeout: seconds.
    """
    request = InitProducerIdRequest(
        transactional_id=None if transactional_id is None else TransactionalId(transactional_id),
        transaction_timeout=milliseconds(transaction_timeout),
    )
    until = time.monotonic() + timeout
    while True:
        answer = await connection.ask(request, InitProducerIdResponse, timeout=timeout)
        if answer.error_code is ErrorCode.none:
            return Writer(
                producer_id=int(answer.producer_id), epoch=int(answer.producer_epoch), transactional_id=transactional_id
            )
        if answer.error_code not in _PASSING or time.monotonic() > until:
            raise Declined(f"no producer id for {transactional_id}", answer.error_code, None)
        await asyncio.sleep(RETRY_S)


async def add_partitions(
    connection: Connection, writer: Writer, partitions: Iterable[tuple[str, int]], *, timeout: float
) -> str:
    """AddPartitionsToTxn v3: the first error among the partitions, NONE when all were added.

    CONCURRENT_TRANSACTIONS right after an end means: ask again, its markers are still being written.
    """
    topics = tuple(
        AddPartitionsToTxnTopic(name=TopicName(topic), partitions=tuple(i32(number) for _, number in group))
        for topic, group in groupby(sorted(partitions), key=lambda one: one[0])
    )
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=_id(writer),
        v3_and_below_producer_id=ProducerId(writer.producer_id),
        v3_and_below_producer_epoch=i16(writer.epoch),
        v3_and_below_topics=topics,
    )
    answer = await connection.ask(request, AddPartitionsToTxnResponse, timeout=timeout)
    codes = [
        one.partition_error_code for told in answer.results_by_topic_v3_and_below for one in told.results_by_partition
    ]
    return error_name(next((code for code in codes if code is not ErrorCode.none), ErrorCode.none))


async def end(connection: Connection, writer: Writer, *, commit: bool, version: int = 3, timeout: float) -> Ended:
    """EndTxn in a version of one's own choice, 0 to 5 (see above)."""
    schema: Any = importlib.import_module(f"kio.schema.end_txn.v{version}")
    request = schema.EndTxnRequest(
        transactional_id=_id(writer),
        producer_id=ProducerId(writer.producer_id),
        producer_epoch=i16(writer.epoch),
        committed=commit,
    )
    answer = await connection.ask(request, schema.EndTxnResponse, timeout=timeout)
    if version >= BUMPS_EPOCH and answer.error_code is ErrorCode.none:
        writer = replace(writer, producer_id=int(answer.producer_id), epoch=int(answer.producer_epoch))
    return Ended(error=error_name(answer.error_code), writer=writer)


async def describe(connection: Connection, transactional_id: str, *, timeout: float) -> Transaction:
    """DescribeTransactions, of the coordinator (KIP-664)."""
    request = DescribeTransactionsRequest(transactional_ids=(TransactionalId(transactional_id),))
    for one in (await connection.ask(request, DescribeTransactionsResponse, timeout=timeout)).transaction_states:
        return Transaction(
            error=error_name(one.error_code),
            state=one.transaction_state,
            producer_id=int(one.producer_id),
            epoch=int(one.producer_epoch),
            timeout_ms=int(one.transaction_timeout_ms),
            partitions=frozenset((str(told.topic), int(number)) for told in one.topics for number in told.partitions),
        )
    return Transaction(
        error=error_name(ErrorCode.coordinator_not_available),
        state="",
        producer_id=-1,
        epoch=-1,
        timeout_ms=-1,
        partitions=frozenset(),
    )


def _id(writer: Writer) -> TransactionalId:
    if writer.transactional_id is None:
        raise ValueError("this producer has no transactional id; get one with begin(connection, 'some-id')")
    return TransactionalId(writer.transactional_id)
