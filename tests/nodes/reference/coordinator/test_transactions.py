"""The coordinator of transactions, rule by rule."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.coordinator.groups.requests import TopicPartition
from nodes.reference.coordinator.transactions import records
from nodes.reference.coordinator.transactions.requests import Initialized, Producer, TransactionSettings
from nodes.reference.coordinator.transactions.state import Transaction, TransactionState
from nodes.reference.log.keyed import KeyedRecord, Undecodable
from nodes.reference.protections import Protection, Protections
from tests.nodes.reference.coordinator.transaction_stage import P0, P1, TIMEOUT, TransactionStage


def test_a_transaction_from_beginning_to_end() -> None:
    stage = TransactionStage(marks=False)
    producer = stage.producer()
    assert (producer.producer_id, producer.producer_epoch) == (7, 0)
    assert stage.add(producer, P0, P1) is ErrorCode.none
    assert stage.state() == "Ongoing"
    assert stage.end(producer) is ErrorCode.none
    assert stage.state() == "PrepareCommit"
    (sent,) = stage.mark()
    assert (sent.producer_id, sent.producer_epoch, sent.coordinator_epoch, sent.commit) == (7, 0, 0, True)
    assert sent.partitions == {P0, P1}
    assert stage.state() == "CompleteCommit"
    assert stage.coordinator.describe("x").partitions == frozenset()


def test_nobody_is_answered_before_it_is_in_the_log() -> None:
    stage = TransactionStage(writes=False)
    initializing = stage.initializing()
    assert initializing not in stage.answers
    stage.write()
    assert stage.answers[initializing] == Initialized(ErrorCode.none, 7, 0)
    producer = Producer(transactional_id="x", producer_id=7, producer_epoch=0)
    adding = stage.adding(producer, P0)
    assert stage.said(stage.adding(producer, P1)) is ErrorCode.concurrent_transactions
    stage.write()
    assert stage.said(adding) is ErrorCode.none
    ending = stage.ending(producer)
    assert ending not in stage.answers
    assert stage.markers == []  # the decision comes first
    stage.write()
    assert stage.said(ending) is ErrorCode.none


def test_without_the_decision_first_partitions_hear_of_it_too_early() -> None:
    stage = TransactionStage(protections=Protections([Protection.DECISION_BEFORE_MARKERS]), marks=False)
    producer = stage.producer()
    stage.add(producer, P0)
    stage.writes_at_once = False
    stage.ending(producer)
    assert [sent.commit for sent in stage.mark()] == [True]
    stage.fail_over()
    stage.pass_ms(TIMEOUT)
    stage.write()
    assert [sent.commit for sent in stage.mark()] == [False]


def test_a_marker_to_one_partition_is_lost() -> None:
    stage = TransactionStage(protections=Protections([Protection.MARKERS_TO_ALL_PARTITIONS]), marks=False)
    producer = stage.producer()
    stage.add(producer, P0, P1)
    stage.end(producer)
    assert stage.mark()[0].partitions == {P0}
    assert stage.state() == "CompleteCommit"


@pytest.mark.parametrize("commit", [True, False])
def test_ending_again_is_answered_alike(commit: bool) -> None:
    stage = TransactionStage(marks=False)
    producer = stage.producer()
    assert stage.end(producer, commit=commit) is ErrorCode.invalid_txn_state  # nothing is open
    stage.add(producer, P0)
    stage.end(producer, commit=commit)
    assert stage.end(producer, commit=commit) is ErrorCode.concurrent_transactions
    assert stage.end(producer, commit=not commit) is ErrorCode.invalid_txn_state
    assert stage.add(producer, P1) is ErrorCode.concurrent_transactions
    stage.mark()
    assert stage.end(producer, commit=commit) is ErrorCode.none
    assert stage.end(producer, commit=not commit) is ErrorCode.invalid_txn_state


def test_a_coordinator_that_has_been_replaced_does_not_take_a_commit_for_the_one_before() -> None:
    """Its successor has heard of the next transaction, and it has not: only the log can tell it."""
    stage = TransactionStage()
    producer = stage.producer()
    stage.add(producer, P0)
    assert stage.end(producer, commit=True) is ErrorCode.none
    stage.writes_at_once = False
    ticket = stage.ending(producer)
    assert ticket not in stage.answers
    stage.write(ErrorCode.not_leader_or_follower)
    assert stage.answers[ticket] is ErrorCode.not_coordinator


def test_partitions_that_are_added_already_need_no_record() -> None:
    stage = TransactionStage()
    producer = stage.producer()
    stage.add(producer, P0, P1)
    before = len(stage.ledger.batches)
    assert stage.add(producer, P1) is ErrorCode.none
    assert len(stage.ledger.batches) == before


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"transactional_id": ""}, ErrorCode.invalid_request),
        ({"transactional_id": "y"}, ErrorCode.invalid_producer_id_mapping),
        ({"producer_id": 8}, ErrorCode.invalid_producer_id_mapping),
        ({"producer_epoch": 1}, ErrorCode.producer_fenced),
        ({"producer_epoch": -1}, ErrorCode.producer_fenced),
    ],
)
def test_who_may_not(changes: dict[str, object], error: ErrorCode) -> None:
    stage = TransactionStage()
    producer = stage.producer()
    stage.add(producer, P0)
    other = replace(producer, **changes)  # type: ignore[arg-type]
    assert stage.add(other, P1) is error
    assert stage.end(other) is error
    assert stage.coordinator.verify(other, [P0]) == {P0: error}


def test_verifying() -> None:
    """KIP-890."""
    stage = TransactionStage(marks=False)
    producer = stage.producer()
    stage.add(producer, P0)
    assert stage.coordinator.verify(producer, [P0, P1]) == {P0: ErrorCode.none, P1: ErrorCode.invalid_txn_state}
    stage.end(producer)
    assert stage.coordinator.verify(producer, [P0]) == {P0: ErrorCode.concurrent_transactions}
    stage.mark()
    assert stage.coordinator.verify(producer, [P0]) == {P0: ErrorCode.invalid_txn_state}


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_timeouts_have_limits(timeout_ms: int) -> None:
    assert TransactionStage().initialize(timeout_ms=timeout_ms).error is ErrorCode.invalid_transaction_timeout


def test_without_a_producer_id_at_hand() -> None:
    """KAFKA-14417: something that clients try again."""
    stage = TransactionStage()
    assert stage.initialize(spare=None).error is ErrorCode.coordinator_load_in_progress
    assert stage.initialize("").error is ErrorCode.invalid_request


# Fencing


def test_a_new_producer_fences_the_former_one() -> None:
    stage = TransactionStage()
    old = stage.producer()
    new = stage.producer()
    assert (new.producer_id, new.producer_epoch) == (old.producer_id, 1)
    assert stage.add(old, P0) is ErrorCode.producer_fenced
    assert stage.add(new, P0) is ErrorCode.none
    assert stage.end(old) is ErrorCode.producer_fenced


def test_without_fencing_the_former_one_ends_its_successors_transaction() -> None:
    stage = TransactionStage(protections=Protections([Protection.PRODUCER_EPOCH_AT_COORDINATOR]))
    old, new = stage.producer(), stage.producer()
    stage.add(new, P0)
    assert stage.end(old, commit=False) is ErrorCode.none
    assert stage.state() == "CompleteAbort"


def test_a_new_producer_aborts_what_is_open() -> None:
    stage = TransactionStage(marks=False)
    old = stage.producer()
    stage.add(old, P0)
    assert stage.initialize().error is ErrorCode.concurrent_transactions
    assert stage.state() == "PrepareAbort"
    assert stage.initialize().error is ErrorCode.concurrent_transactions
    (sent,) = stage.mark()
    assert (sent.commit, sent.producer_epoch) == (False, 1)  # the partitions fence it, too
    assert stage.producer().producer_epoch == 2


def test_an_open_transaction_times_out() -> None:
    stage = TransactionStage(marks=False)
    producer = stage.producer()
    stage.add(producer, P0)
    assert stage.coordinator.next_deadline == stage.now + TIMEOUT
    stage.pass_ms(TIMEOUT - 1)
    stage.add(producer, P1)  # does not prolong it
    assert stage.state() == "Ongoing"
    stage.pass_ms(1)
    assert stage.state() == "PrepareAbort"
    stage.mark()
    assert stage.end(producer) is ErrorCode.producer_fenced
    assert stage.producer().producer_epoch == 2


def test_a_time_out_survives_a_failover() -> None:
    stage = TransactionStage()
    producer = stage.producer()
    stage.add(producer, P0)
    stage.pass_ms(TIMEOUT - 1)
    stage.fail_over()
    assert stage.state() == "Ongoing"
    stage.pass_ms(1)
    assert stage.state() == "CompleteAbort"


def test_an_epoch_that_could_not_be_written_is_bumped_once() -> None:
    stage = TransactionStage()
    producer = stage.producer()
    stage.add(producer, P0)
    stage.writes_at_once = False
    stage.pass_ms(TIMEOUT)
    for _ in range(3):
        stage.write(ErrorCode.not_enough_replicas)
        stage.pass_ms(1)
    stage.writes_at_once = True
    stage.write()
    assert stage.coordinator.describe("x").producer_epoch == 1


# KIP-360


def test_a_producer_goes_on_after_an_error() -> None:
    stage = TransactionStage()
    producer = stage.producer()
    again = stage.producer(producer_id=7, producer_epoch=0)
    assert again.producer_epoch == 1
    retry = stage.producer(producer_id=7, producer_epoch=0)  # it did not get the answer
    assert retry.producer_epoch == 1
    assert stage.end(producer) is ErrorCode.producer_fenced


def test_a_replaced_producer_does_not_go_on() -> None:
    stage = TransactionStage()
    stage.producer()
    stage.producer()
    assert stage.initialize(producer_id=7, producer_epoch=0).error is ErrorCode.producer_fenced
    assert stage.initialize(producer_id=9, producer_epoch=1).error is ErrorCode.producer_fenced


def used_up(stage: TransactionStage) -> None:
    stage.producer()
    known = stage.coordinator.ids["x"]
    known.transaction = replace(known.transaction, producer_epoch=(1 << 15) - 2)


def test_when_its_epochs_are_used_up_the_producer_gets_another_id() -> None:
    stage = TransactionStage()
    used_up(stage)
    assert stage.initialize(spare=None).error is ErrorCode.coordinator_load_in_progress
    new = stage.producer(producer_id=7, producer_epoch=(1 << 15) - 2)
    assert new.producer_id > 7
    assert new.producer_epoch == 0
    retry = stage.producer(producer_id=7, producer_epoch=(1 << 15) - 2)
    assert (retry.producer_id, retry.producer_epoch) == (new.producer_id, 0)


# Markers


def test_markers_are_sent_until_all_have_theirs() -> None:
    stage = TransactionStage(marks=False)
    producer = stage.producer()
    stage.add(producer, P0, P1)
    stage.end(producer)
    stage.mark(p0=ErrorCode.not_leader_or_follower)
    stage.pass_ms(99)
    assert stage.markers == []
    stage.pass_ms(1)
    assert [sent.partitions for sent in stage.mark(p0=ErrorCode.request_timed_out)] == [{P0}]
    assert stage.state() == "PrepareCommit"
    stage.pass_ms(100)
    stage.mark()
    assert stage.state() == "CompleteCommit"


def test_a_topic_that_is_gone_needs_no_marker() -> None:
    stage = TransactionStage(TransactionSettings(topic_gone_after_ms=200), marks=False)
    producer = stage.producer()
    stage.add(producer, P0)
    stage.end(producer)
    for _ in range(2):
        stage.mark(p0=ErrorCode.unknown_topic_or_partition)
        assert stage.state() == "PrepareCommit"
        stage.pass_ms(100)
    stage.mark(p0=ErrorCode.unknown_topic_or_partition)
    assert stage.state() == "CompleteCommit"


@pytest.mark.parametrize("error", [ErrorCode.transaction_coordinator_fenced, ErrorCode.invalid_producer_epoch])
def test_a_replaced_coordinator_ends_nothing(error: ErrorCode) -> None:
    stage = TransactionStage(marks=False)
    producer = stage.producer()
    stage.add(producer, P0, P1)
    stage.end(producer)
    stage.mark(p0=error)
    stage.pass_ms(10_000)
    assert (stage.markers, stage.state()) == ([], "PrepareCommit")


def test_an_answer_about_a_former_transaction_says_nothing() -> None:
    stage = TransactionStage(marks=False)
    producer = stage.producer()
    stage.add(producer, P0)
    stage.end(producer)
    (sent,) = stage.mark(p0=ErrorCode.request_timed_out)
    stage.take(stage.coordinator.marked(sent, {P0: ErrorCode.none}, stage.now))
    assert stage.state() == "PrepareCommit"


def test_an_end_that_could_not_be_written_down_is_written_later() -> None:
    stage = TransactionStage(writes=False)
    stage.initializing()
    stage.write()
    producer = Producer(transactional_id="x", producer_id=7, producer_epoch=0)
    stage.adding(producer, P0)
    stage.write()
    stage.ending(producer)
    stage.write()
    stage.write(ErrorCode.not_enough_replicas)
    assert stage.state() == "PrepareCommit"
    stage.pass_ms(100)
    stage.write()
    assert stage.state() == "CompleteCommit"


# Failover


@pytest.mark.parametrize("commit", [True, False])
def test_the_next_coordinator_ends_what_was_decided(commit: bool) -> None:
    stage = TransactionStage(marks=False)
    producer = stage.producer()
    stage.add(producer, P0, P1)
    stage.end(producer, commit=commit)
    stage.mark(p0=ErrorCode.request_timed_out, p1=ErrorCode.request_timed_out)
    stage.fail_over()
    (sent,) = stage.mark()
    assert (sent.coordinator_epoch, sent.commit, sent.partitions) == (1, commit, {P0, P1})
    assert stage.state() == ("CompleteCommit" if commit else "CompleteAbort")


def test_who_waits_is_told_to_look_elsewhere() -> None:
    stage = TransactionStage(writes=False)
    initializing = stage.initializing()
    stage.fail_over()
    assert stage.answers[initializing] == Initialized(ErrorCode.not_coordinator)
    assert stage.coordinator.ids == {}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ErrorCode.not_leader_or_follower, ErrorCode.not_coordinator),
        (ErrorCode.request_timed_out, ErrorCode.coordinator_not_available),
        (ErrorCode.message_too_large, ErrorCode.unknown_server_error),
    ],
)
def test_what_the_log_refuses(error: ErrorCode, said: ErrorCode) -> None:
    stage = TransactionStage(writes=False)
    ticket = stage.initializing()
    stage.write(error)
    assert stage.answers[ticket] == Initialized(said)


# Formats


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("state", TransactionState)
def test_records_come_back(version: int, state: TransactionState) -> None:
    transaction = Transaction(
        transactional_id="x",
        producer_id=7,
        producer_epoch=3,
        last_producer_id=5 if version else -1,
        timeout_ms=1_000,
        state=state,
        partitions=frozenset({P0, P1, TopicPartition("u", 9)}) if state is TransactionState.ONGOING else frozenset(),
        started=11,
        updated=12,
    )
    assert records.read(records.of_transaction(transaction, version=version)) == ("x", transaction)


@pytest.mark.parametrize(
    "record", [KeyedRecord(b"\x00\x01\x00\x01x", None), KeyedRecord(b"\x00\x00\x00\x01x", b"\x00\x02")]
)
def test_what_no_coordinator_has_written(record: KeyedRecord) -> None:
    with pytest.raises(Undecodable):
        records.read(record)


def test_listing() -> None:
    stage = TransactionStage()
    stage.producer()
    stage.add(stage.producer("y"), P0)
    assert {(one.transactional_id, one.state) for one in stage.coordinator.describe_all()} == {
        ("x", "Empty"),
        ("y", "Ongoing"),
    }
    assert stage.coordinator.describe("z").error is ErrorCode.transactional_id_not_found
