"""What is forgotten when nobody uses it any more: offsets of groups (KIP-211) and transactional ids, by tombstones."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.coordinator.effects import Write
from nodes.reference.coordinator.groups.requests import NOTHING_COMMITTED, Leaving, TopicPartition
from nodes.reference.coordinator.groups.settings import GroupSettings
from nodes.reference.coordinator.transactions.requests import Producer, TransactionSettings
from tests.nodes.reference.coordinator.group_stage import DELAY, SESSION, GroupStage
from tests.nodes.reference.coordinator.transaction_stage import P0, TransactionStage

MINUTE = 60_000
RETENTION = 10 * MINUTE
SETTINGS = GroupSettings(
    group_initial_rebalance_delay_ms=DELAY, offsets_retention_minutes=10, offsets_retention_check_interval_ms=MINUTE
)
IDS = TransactionSettings(
    transactional_id_expiration_ms=10 * MINUTE, transaction_remove_expired_transaction_cleanup_interval_ms=MINUTE
)


def groups(*, writes: bool = True) -> GroupStage:
    stage = GroupStage(SETTINGS, writes=writes)
    stage.coordinator.loaded(stage.now)
    return stage


def pass_minutes(stage: GroupStage, minutes: int, alive: str | None = None) -> None:
    """alive: this member's heartbeats go on."""
    for _ in range(minutes * (MINUTE // SESSION * 2)):
        stage.pass_ms(SESSION // 2)
        if alive is not None:
            stage.heartbeat(alive, stage.group().generation)


def tombstones(stage: GroupStage | TransactionStage, before: int) -> int:
    return len(stage.ledger.batches) - before


def test_offsets_of_a_group_that_only_commits_go_each_in_its_time() -> None:
    stage, other = groups(), TopicPartition("t", 1)
    stage.commit(120)
    pass_minutes(stage, 5)
    stage.committing(7, partition=other)
    pass_minutes(stage, 4)
    assert stage.offset() == 120
    pass_minutes(stage, 2)
    assert stage.fetched() == NOTHING_COMMITTED
    assert stage.coordinator.fetch("g", [other]).offsets[other].offset.offset == 7
    stage.fail_over()
    assert stage.fetched() == NOTHING_COMMITTED
    pass_minutes(stage, 5)
    assert "g" not in stage.coordinator.groups


def test_a_group_that_commits_keeps_what_it_commits_again() -> None:
    stage = groups()
    for number in range(4):
        stage.commit(number)
        pass_minutes(stage, 6)
    assert stage.offset() == 3


def test_a_group_with_members_keeps_its_offsets() -> None:
    stage = groups()
    (member,) = stage.stable()
    assert stage.commit(120, generation=1, member_id=member) is ErrorCode.none
    stage.coordinator.groups["g"].protocol_type = "connect"  # of which nobody knows what it reads
    pass_minutes(stage, 30, alive=member)
    assert stage.offset() == 120


def test_it_counts_from_when_the_group_became_empty() -> None:
    stage = groups()
    (member,) = stage.stable()
    stage.commit(120, generation=1, member_id=member)
    pass_minutes(stage, 8, alive=member)
    stage.leave(Leaving(member))
    pass_minutes(stage, 9)
    assert stage.offset() == 120
    before = len(stage.ledger.batches)
    pass_minutes(stage, 2)
    assert "g" not in stage.coordinator.groups
    assert tombstones(stage, before) == 1
    stage.fail_over()
    assert stage.coordinator.groups == {}


def test_the_next_coordinator_goes_on_counting() -> None:
    stage = groups()
    (member,) = stage.stable()
    stage.commit(120, generation=1, member_id=member)
    stage.leave(Leaving(member))
    pass_minutes(stage, 6)
    stage.fail_over()
    pass_minutes(stage, 3)
    assert stage.offset() == 120
    pass_minutes(stage, 2)
    assert "g" not in stage.coordinator.groups


def test_topics_that_nobody_is_subscribed_to_any_more() -> None:
    """A stable group of consumers that reads `other` now."""
    stage = groups()
    subscription = b"\x00\x00\x00\x00\x00\x01\x00\x05other\xff\xff\xff\xff"
    (member,) = stage.stable(protocols=(("range", subscription),))
    read_now = TopicPartition("other", 0)
    stage.commit(120, generation=1, member_id=member)
    stage.committing(8, partition=read_now, generation=1, member_id=member)
    pass_minutes(stage, 11, alive=member)
    assert stage.fetched() == NOTHING_COMMITTED
    assert stage.coordinator.fetch("g", [read_now]).offsets[read_now].offset.offset == 8


def test_nothing_goes_while_a_transaction_may_bring_more() -> None:
    stage = groups()
    stage.commit(120)
    stage.commit_in_transaction(130)
    pass_minutes(stage, 12)
    assert stage.offset() == 120
    stage.end_transaction(commit=True)
    assert stage.offset() == 130


def test_what_is_committed_behind_the_tombstones_stays() -> None:
    """They were on their way when somebody committed again; so it is for whoever loads this log."""
    stage = groups(writes=False)
    other = TopicPartition("t", 1)
    stage.committing(1)
    stage.write()
    pass_minutes(stage, 9)
    stage.committing(7, partition=other)
    stage.write()
    pass_minutes(stage, 1)
    assert [write.records[0].value for write in stage.waiting] == [None]
    ticket = stage.committing(2)
    stage.write()
    assert stage.error(ticket) is ErrorCode.none
    assert stage.offset() == 2
    stage.fail_over()
    assert stage.offset() == 2


def test_a_group_that_is_on_its_way_out_is_not_there_for_a_moment() -> None:
    stage = groups(writes=False)
    stage.committing(1)
    stage.write()
    pass_minutes(stage, 11)
    ticket = stage.committing(2)
    assert stage.error(ticket) is ErrorCode.coordinator_not_available
    stage.write()
    assert "g" not in stage.coordinator.groups


def test_tombstones_that_could_not_be_written_delete_nothing() -> None:
    stage = groups(writes=False)
    stage.committing(1)
    stage.write()
    pass_minutes(stage, 11)
    stage.write(ErrorCode.not_enough_replicas)
    assert stage.offset() == 1
    pass_minutes(stage, 1)
    stage.write()
    assert "g" not in stage.coordinator.groups


def test_without_looking_nothing_goes() -> None:
    stage = GroupStage(SETTINGS)  # never told that its log is loaded
    stage.commit(1)
    pass_minutes(stage, 30)
    assert stage.offset() == 1


# Transactional ids


def ids(*, writes: bool = True) -> TransactionStage:
    stage = TransactionStage(IDS, writes=writes)
    stage.coordinator.loaded(stage.now)
    return stage


@pytest.mark.parametrize("ends", [None, True, False], ids=["never used", "committed", "aborted"])
def test_an_id_that_nobody_uses_goes(ends: bool | None) -> None:
    stage = ids()
    producer = stage.producer()
    if ends is not None:
        stage.add(producer, P0)
        stage.end(producer, commit=ends)
    stage.pass_ms(9 * MINUTE)
    assert "x" in stage.coordinator.ids
    stage.pass_ms(2 * MINUTE)
    assert "x" not in stage.coordinator.ids
    stage.fail_over()
    assert stage.coordinator.ids == {}
    assert stage.add(producer, P0) is ErrorCode.invalid_producer_id_mapping
    assert stage.producer().producer_id != producer.producer_id


def test_an_open_transaction_keeps_its_id() -> None:
    """Until it has timed out, and the id been at rest for long enough."""
    stage = TransactionStage(IDS)
    stage.coordinator.loaded(stage.now)
    producer = stage.producer(timeout_ms=20 * MINUTE - 6 * MINUTE)
    stage.add(producer, P0)
    stage.pass_ms(13 * MINUTE)
    assert stage.state() == "Ongoing"
    stage.pass_ms(2 * MINUTE)
    assert stage.state() == "CompleteAbort"
    stage.pass_ms(9 * MINUTE)
    assert stage.state() == "CompleteAbort"
    stage.pass_ms(2 * MINUTE)
    assert "x" not in stage.coordinator.ids


def test_whoever_asks_while_its_tombstone_is_on_its_way_has_to_wait() -> None:
    stage = ids(writes=False)
    stage.initializing()
    stage.write()
    stage.pass_ms(11 * MINUTE)
    (tombstone,) = stage.waiting
    assert isinstance(tombstone, Write)
    assert tombstone.records[0].value is None
    assert stage.initialize().error is ErrorCode.concurrent_transactions
    producer = Producer(transactional_id="x", producer_id=7, producer_epoch=0)
    assert stage.add(producer, P0) is ErrorCode.concurrent_transactions
    assert stage.end(producer) is ErrorCode.concurrent_transactions
    stage.write()
    ticket = stage.initializing()
    stage.write()
    assert stage.answers[ticket].error is ErrorCode.none


def test_an_id_whose_tombstone_could_not_be_written_stays() -> None:
    stage = ids(writes=False)
    stage.initializing()
    stage.write()
    stage.pass_ms(11 * MINUTE)
    stage.write(ErrorCode.not_enough_replicas)
    ticket = stage.initializing()
    stage.write()
    assert stage.answers[ticket].producer_id == 7
