"""KIP-890, part 1: the leader asks the coordinator before it appends the first batch of a transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from kio.schema.add_partitions_to_txn.v4 import response
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName, TransactionalId
from kio.static.primitive import i32

from nodes.reference.coordinator.verification import Verification
from nodes.reference.environment import Clock, Disconnected
from nodes.reference.log.batch import Marker
from nodes.reference.log.log import Log, LogSettings
from nodes.reference.protections import ALL_ON, Protection, Protections
from nodes.reference.server.schema import NO_TIME
from nodes.reference.server.services import Services
from tests.nodes.reference.lone_disk import LoneDisk
from tests.nodes.reference.producing import produced


class FakeBroker:
    """Answers what a coordinator would; `meanwhile` happens while it is asked."""

    def __init__(self, *errors: ErrorCode) -> None:
        self.errors = list(errors)
        self.asked: list[Any] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def partition_count(self, topic: str) -> int | None:
        return 5

    def leader_of(self, topic: str, partition: int) -> int | None:
        return 2

    async def ask_broker(self, broker: int, request: Any, *, deadline: int) -> object:
        self.asked.append(request)
        self.meanwhile()
        self.meanwhile = lambda: None
        error = self.errors.pop(0)
        if error is ErrorCode.network_exception:
            raise Disconnected
        result = response.AddPartitionsToTxnPartitionResult(partition_index=i32(0), partition_error_code=error)
        topic = response.AddPartitionsToTxnTopicResult(name=TopicName("t"), results_by_partition=(result,))
        return response.AddPartitionsToTxnResponse(
            throttle_time=NO_TIME,
            error_code=ErrorCode.none,
            results_by_transaction=(
                response.AddPartitionsToTxnResult(transactional_id=TransactionalId("x"), topic_results=(topic,)),
            ),
        )


class FakeClock:
    def now(self) -> int:
        return 0


def batch(*, transactional: bool = True) -> bytes:
    return produced(b"x", producer=7, epoch=0, sequence=0, transactional=transactional)


def marker(log: Log) -> None:
    log.append_marker(
        Marker.ABORT, producer_id=7, producer_epoch=0, coordinator_epoch=0, leader_epoch=0, timestamp=0, now=0
    )


def check(
    broker: FakeBroker,
    log: Log | None = None,
    content: bytes | None = None,
    *,
    protections: Protections = ALL_ON,
    enabled: bool = True,
) -> ErrorCode:
    verification = Verification(cast(Services, broker), cast(Clock, FakeClock()), protections, enabled=enabled)
    return asyncio.run(verification.check(log or opened(), content or batch(), "x", "t", 0))


def opened() -> Log:
    return Log.open(LoneDisk(), "t-0", LogSettings(), ALL_ON)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (ErrorCode.none, ErrorCode.none),
        (ErrorCode.invalid_txn_state, ErrorCode.invalid_txn_state),
        (ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch),
        (ErrorCode.not_coordinator, ErrorCode.not_enough_replicas),
        (ErrorCode.concurrent_transactions, ErrorCode.not_enough_replicas),
        (ErrorCode.network_exception, ErrorCode.not_enough_replicas),
    ],
)
def test_what_the_coordinator_says_decides(said: ErrorCode, error: ErrorCode) -> None:
    broker = FakeBroker(said)
    assert check(broker) is error
    (asked,) = broker.asked[0].transactions
    assert (asked.transactional_id, asked.producer_id, asked.verify_only) == ("x", 7, True)


def test_only_the_first_batch_of_a_transaction_is_asked_about() -> None:
    broker, log = FakeBroker(), opened()
    log.append_as_leader(batch(), leader_epoch=0, now=0)
    assert check(broker, log) is ErrorCode.none
    assert check(broker, content=batch(transactional=False)) is ErrorCode.none
    assert check(broker, content=b"junk") is ErrorCode.none  # the log says what is wrong with it
    assert broker.asked == []


def test_a_marker_that_comes_meanwhile_makes_it_ask_again() -> None:
    broker, log = FakeBroker(ErrorCode.none, ErrorCode.invalid_txn_state), opened()
    broker.meanwhile = lambda: marker(log)
    assert check(broker, log) is ErrorCode.invalid_txn_state


def test_without_verification_a_late_record_is_let_in() -> None:
    broker = FakeBroker()
    assert check(broker, protections=Protections([Protection.TRANSACTION_VERIFIED])) is ErrorCode.none
    assert check(broker, enabled=False) is ErrorCode.none
    assert broker.asked == []
