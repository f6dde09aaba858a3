"""Offsets of groups: committing, reading, transactions, deletion, and what a new coordinator finds in the log."""

from __future__ import annotations

import struct

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.coordinator.groups.group import GroupState
from nodes.reference.coordinator.groups.requests import NOTHING_COMMITTED, DeletedOffsets, Leaving, TopicPartition
from nodes.reference.log.keyed import KeyedRecord, Undecodable, decode, encode
from nodes.reference.protections import Protection, Protections
from tests.nodes.reference.coordinator.group_stage import PARTITION, SESSION, GroupStage


def test_a_commit_is_acknowledged_when_it_is_in_the_log() -> None:
    stage = GroupStage(writes=False)
    ticket = stage.committing(120)
    assert ticket not in stage.answers
    assert stage.fetched() == NOTHING_COMMITTED
    stage.write()
    assert stage.error(ticket) is ErrorCode.none
    assert stage.offset() == 120
    stage.fail_over()
    assert stage.offset() == 120


def test_without_writing_a_failover_loses_it() -> None:
    stage = GroupStage(protections=Protections([Protection.OFFSET_COMMIT_WRITTEN]))
    assert stage.commit(120) is ErrorCode.none
    assert stage.offset() == 120
    stage.fail_over()
    assert stage.fetched() == NOTHING_COMMITTED


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ErrorCode.not_leader_or_follower, ErrorCode.not_coordinator),
        (ErrorCode.kafka_storage_error, ErrorCode.not_coordinator),
        (ErrorCode.not_enough_replicas, ErrorCode.coordinator_not_available),
        (ErrorCode.message_too_large, ErrorCode.invalid_commit_offset_size),
    ],
)
def test_a_commit_that_the_log_refuses(error: ErrorCode, said: ErrorCode) -> None:
    stage = GroupStage(writes=False)
    ticket = stage.committing(120)
    stage.write(error)
    assert stage.error(ticket) is said
    assert stage.fetched() == NOTHING_COMMITTED


def test_a_late_commit_counts_from_when_it_is_committed() -> None:
    stage = GroupStage(writes=False)
    ticket = stage.committing(120)
    stage.pass_ms(5_000)
    assert stage.error(ticket) is ErrorCode.request_timed_out
    assert stage.fetched() == NOTHING_COMMITTED
    stage.write()
    assert stage.offset() == 120


def test_metadata_has_a_limit() -> None:
    stage = GroupStage()
    assert stage.commit(1, "é" * 2_049) is ErrorCode.offset_metadata_too_large
    assert stage.commit(1, "é" * 2_048) is ErrorCode.none


def test_who_may_commit() -> None:
    stage = GroupStage()
    assert stage.commit(1, group="") is ErrorCode.invalid_group_id
    assert stage.commit(1, generation=3, member_id="m") is ErrorCode.illegal_generation
    (member,) = stage.stable()
    assert stage.commit(1) is ErrorCode.unknown_member_id
    assert stage.commit(1, generation=1, member_id="m") is ErrorCode.unknown_member_id
    assert stage.commit(1, generation=0, member_id=member) is ErrorCode.illegal_generation
    assert stage.commit(1, generation=1, member_id=member) is ErrorCode.none


def test_a_commit_in_a_rebalance() -> None:
    """While members join they may commit what they still own; once they have joined they do not know what they own."""
    stage = GroupStage()
    (first,) = stage.stable()
    stage.joining()
    assert stage.commit(1, generation=1, member_id=first) is ErrorCode.none
    stage.joining(first)
    assert stage.group().state is GroupState.COMPLETING
    assert stage.commit(1, generation=2, member_id=first) is ErrorCode.rebalance_in_progress


def test_a_commit_is_a_sign_of_life() -> None:
    stage = GroupStage()
    (member,) = stage.stable()
    stage.pass_ms(SESSION - 1)
    stage.commit(1, generation=1, member_id=member)
    stage.pass_ms(SESSION - 1)
    assert stage.heartbeat(member, 1) is ErrorCode.none


def test_without_generations_who_missed_a_rebalance_commits() -> None:
    stage = GroupStage(protections=Protections([Protection.GENERATION_FENCED]))
    old = stage.stable()[0]
    stage.pass_ms(SESSION)
    new = stage.stable()[0]
    generation = stage.group().generation
    assert stage.commit(9, generation=generation, member_id=new) is ErrorCode.none
    assert stage.heartbeat(old, 1) is ErrorCode.none
    assert stage.commit(5, generation=1, member_id=old) is ErrorCode.none
    assert stage.offset() == 5


# Transactions


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("fail_over", [True, False])
def test_offsets_of_a_transaction_count_when_it_commits(commits: bool, fail_over: bool) -> None:
    stage = GroupStage()
    stage.commit(100)
    assert stage.error(stage.commit_in_transaction(120)) is ErrorCode.none
    if fail_over:
        stage.fail_over()
    assert stage.offset() == 100
    assert stage.fetched(stable=True).error is ErrorCode.unstable_offset_commit
    stage.end_transaction(commit=commits)
    assert stage.fetched(stable=True).offset.offset == (120 if commits else 100)
    stage.fail_over()
    assert stage.offset() == (120 if commits else 100)


def test_an_offset_on_its_way_into_the_log_is_unstable() -> None:
    stage = GroupStage(writes=False)
    stage.commit_in_transaction(120)
    assert stage.fetched(stable=True).error is ErrorCode.unstable_offset_commit
    stage.write(ErrorCode.not_enough_replicas)
    assert stage.fetched(stable=True) == NOTHING_COMMITTED


def test_without_waiting_an_aborted_transactions_offsets_count() -> None:
    stage = GroupStage(protections=Protections([Protection.TRANSACTIONAL_OFFSETS_WAIT]))
    stage.commit(100)
    stage.commit_in_transaction(120)
    stage.end_transaction(commit=False)
    assert stage.offset() == 120


def test_without_refusing_a_new_owner_begins_too_early() -> None:
    stage = GroupStage(protections=Protections([Protection.UNSTABLE_OFFSETS_REFUSED]))
    stage.commit(100)
    stage.commit_in_transaction(120)
    assert stage.fetched(stable=True).offset.offset == 100


@pytest.mark.parametrize("fail_over", [True, False])
def test_the_later_of_two_commits_counts_though_its_transaction_ends_last(fail_over: bool) -> None:
    stage = GroupStage()
    stage.commit_in_transaction(120)
    stage.commit(130)
    stage.end_transaction(commit=True)
    if fail_over:
        stage.fail_over()
    assert stage.offset() == 130


def test_a_zombie_of_an_older_generation_commits_nothing_in_a_transaction() -> None:
    """KIP-447."""
    stage = GroupStage()
    (member,) = stage.stable()
    fenced = stage.commit_in_transaction(120, generation=0, member_id=member)
    assert stage.error(fenced) is ErrorCode.illegal_generation
    assert stage.error(stage.commit_in_transaction(120)) is ErrorCode.none  # before KIP-447 nobody says who they are


# Administration


def test_all_offsets_of_a_group() -> None:
    stage = GroupStage()
    stage.commit(5)
    assert [*stage.coordinator.fetch("g", None).offsets] == [PARTITION]
    assert stage.coordinator.fetch("other", None).offsets == {}


def test_deleting_a_group() -> None:
    stage = GroupStage()
    (member,) = stage.stable()
    stage.commit(5, generation=1, member_id=member)
    for name, error in (
        ("g", ErrorCode.non_empty_group),
        ("other", ErrorCode.group_id_not_found),
        ("", ErrorCode.invalid_group_id),
    ):
        stage.take(stage.coordinator.delete(name, name))
        assert stage.answers[name] is error
    stage.leave(Leaving(member))
    stage.take(stage.coordinator.delete("again", "g"))
    assert stage.answers["again"] is ErrorCode.none
    assert stage.coordinator.describe("g").state == "Dead"
    stage.fail_over()
    assert stage.coordinator.groups == {}


def test_a_group_that_is_being_deleted_takes_nobody() -> None:
    stage = GroupStage(writes=False)
    ticket = stage.committing(5)
    stage.take(stage.coordinator.delete("early", "g"))
    assert stage.answers["early"] is ErrorCode.non_empty_group  # its offsets are on their way
    stage.write()
    assert stage.error(ticket) is ErrorCode.none
    stage.take(stage.coordinator.delete("d", "g"))
    assert stage.join().error is ErrorCode.coordinator_not_available
    assert stage.commit(6) is ErrorCode.coordinator_not_available
    stage.write(ErrorCode.not_enough_replicas)
    assert stage.answers["d"] is ErrorCode.coordinator_not_available
    assert stage.offset() == 5


def subscription(*topics: str) -> bytes:
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 3, len(topics)) + names + struct.pack(">i", -1)


def deleted(stage: GroupStage, ticket: str, *topics: str) -> DeletedOffsets:
    partitions = [TopicPartition(topic, 0) for topic in topics]
    stage.take(stage.coordinator.delete_offsets(ticket, "g", partitions))
    said = stage.answers[ticket]
    assert isinstance(said, DeletedOffsets)
    return said


def test_deleting_offsets() -> None:
    """KIP-496: not of topics that members read."""
    stage = GroupStage()
    assert deleted(stage, "a", "t").error is ErrorCode.group_id_not_found
    stage.commit(5)
    (member,) = stage.stable(protocols=(("range", subscription("t", "u")),))
    assert deleted(stage, "b", "t", "v").partitions == {
        TopicPartition("t", 0): ErrorCode.group_subscribed_to_topic,
        TopicPartition("v", 0): ErrorCode.none,
    }
    stage.leave(Leaving(member))
    assert deleted(stage, "c", "t").partitions == {PARTITION: ErrorCode.none}
    assert stage.fetched() == NOTHING_COMMITTED
    stage.fail_over()
    assert stage.fetched() == NOTHING_COMMITTED


def test_who_is_no_consumer_says_nothing_of_topics() -> None:
    stage = GroupStage()
    stage.stable(protocol_type="connect")
    assert deleted(stage, "a", "t").error is ErrorCode.non_empty_group


def test_describing() -> None:
    stage = GroupStage()
    first, _ = stage.stable(2)
    described = stage.coordinator.describe("g")
    assert (described.state, described.protocol_type, described.protocol) == ("Stable", "consumer", "range")
    assert described.members[0].assignment == first.encode()
    assert [(one.group, one.state) for one in stage.coordinator.describe_all()] == [("g", "Stable")]
    stage.joining()
    assert stage.coordinator.describe("g").protocol == ""


# The log


def test_records_with_keys_come_back() -> None:
    records = (KeyedRecord(b"k", b"v" * 300), KeyedRecord(b"", None), KeyedRecord(b"k2", b""))
    (batch,) = decode(encode(records, timestamp=5))
    assert batch.records == records
    assert batch.header.max_timestamp == 5


@pytest.mark.parametrize("key", [b"", b"\x00", b"\x00\x01\x00\x05ab", b"\x00\x02\xff\xff"])
def test_a_log_that_nobody_can_read_is_not_coordinated_from(key: bytes) -> None:
    stage = GroupStage()
    with pytest.raises(Undecodable):
        stage.coordinator.load(encode((KeyedRecord(key, b"\x00\x03"),), timestamp=5))


def test_records_of_another_kind_are_left_alone() -> None:
    stage = GroupStage()
    stage.coordinator.load(encode((KeyedRecord(b"\x00\x09rest", b"x"),), timestamp=5))
    assert stage.coordinator.groups == {}
