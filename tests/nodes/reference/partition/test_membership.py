"""The ISR: who joins and who leaves, what is asked of the controller, and what each of its answers does (KIP-497, KIP-841, KIP-903)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.environment import MILLISECOND
from nodes.reference.partition.effects import AlterPartition
from nodes.reference.partition.view import BrokerView
from nodes.reference.protections import Protection, Protections
from tests.nodes.reference.partition.stage import BROKERS, LAG, Stage, proposals, view


def isr(stage: Stage) -> tuple[set[int], set[int]]:
    """Committed and maximal."""
    leader = stage.partition.leader
    assert leader is not None
    return set(leader.membership.isr.committed), set(leader.membership.isr.maximal)


def test_a_follower_that_has_all_that_is_committed_is_proposed_with_its_epoch() -> None:
    stage = Stage(view(isr=(1, 3)))
    stage.produce()
    stage.fetches((3, 1))
    assert proposals(stage.fetches((2, 0))) == []
    assert proposals(stage.fetches((2, 1))) == [
        AlterPartition(leader_epoch=0, partition_epoch=0, new_isr=((1, 101), (2, 102), (3, 103)))
    ]
    assert isr(stage) == ({1, 3}, {1, 2, 3})


def test_who_has_not_fetched_in_this_epoch_is_named_without_broker_epoch() -> None:
    """KIP-903, AlterPartition: -1 where the epoch is not known."""
    (asked,) = proposals(Stage(view(isr=(1, 3))).fetches((2, 0)))
    assert asked.new_isr == ((1, 101), (2, 102), (3, -1))


def test_a_follower_must_reach_the_start_of_the_epoch() -> None:
    """The high watermark alone may lag behind what the predecessor acknowledged."""
    stage = Stage(view(isr=(1, 2)))
    stage.produce()
    stage.metadata(view(2, isr=(1, 2), epoch=1))
    stage.metadata(view(1, isr=(1, 2), epoch=2))
    assert stage.log.high_watermark == 0
    assert proposals(stage.fetches((3, 0), epoch=2)) == []
    assert proposals(stage.fetches((3, 1), epoch=2)) != []


def test_one_change_in_flight() -> None:
    stage = Stage(view(isr=(1,)))
    (asked,) = proposals(stage.fetches((2, 0), (3, 0)))
    assert proposals(stage.pass_ms(10 * LAG)) == []
    stage.answer(asked)
    assert isr(stage) == ({1, 2}, {1, 2})
    (following,) = proposals(stage.fetches((3, 0)))
    assert (following.partition_epoch, following.members) == (1, {1, 2, 3})


def test_who_lags_is_asked_to_leave() -> None:
    stage = Stage(view())
    stage.produce()
    stage.fetches((2, 1))
    stage.now += LAG * MILLISECOND
    assert proposals(stage.pass_ms(0)) == []
    (asked,) = proposals(stage.pass_ms(1))
    assert asked.new_isr == ((1, 101), (2, 102))
    assert isr(stage) == ({1, 2, 3}, {1, 2, 3})


def test_who_follows_at_full_speed_does_not_lag() -> None:
    """It is never at the end, but always where the end was at its fetch before."""
    stage = Stage(view(isr=(1, 2)))
    for end in range(20):
        stage.produce()
        assert proposals(stage.pass_ms(LAG // 2)) == []
        stage.fetch(2, end)


def test_who_fetches_and_falls_behind_lags() -> None:
    stage = Stage(view(isr=(1, 2)))
    stage.produce(b"a", b"b", b"c")
    for _ in range(3):
        stage.produce()
        stage.fetch(2, 0)
        asked = proposals(stage.pass_ms(LAG // 2))
    assert [one.members for one in asked] == [{1}]


@pytest.mark.parametrize("error", [ErrorCode.ineligible_replica, ErrorCode.operation_not_attempted])
def test_ineligible_goes_back_to_what_is_committed(error: ErrorCode) -> None:
    """KIP-903: "discard the proposed ISR change and revert to the old committed ISR"; the next fetch may ask anew."""
    stage = Stage(view(isr=(1,)))
    (asked,) = proposals(stage.fetches((2, 0)))
    stage.answer(asked, error)
    assert isr(stage) == ({1}, {1})
    assert proposals(stage.fetches((2, 0))) == [asked]


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.invalid_update_version,
        ErrorCode.invalid_request,
        ErrorCode.new_leader_elected,
    ],
)
def test_who_knows_more_will_tell_through_the_metadata(error: ErrorCode) -> None:
    """The change may have been applied by an earlier copy of the request: the maximal ISR stays."""
    stage = Stage(view(isr=(1,)))
    (asked,) = proposals(stage.fetches((2, 0)))
    stage.answer(asked, error)
    assert isr(stage) == ({1}, {1, 2})
    assert proposals(stage.pass_ms(1)) == []
    stage.metadata(view(isr=(1, 2), partition_epoch=1))
    assert isr(stage) == ({1, 2}, {1, 2})


@pytest.mark.parametrize("error", [ErrorCode.not_controller, ErrorCode.request_timed_out, ErrorCode.stale_broker_epoch])
def test_any_other_error_asks_the_very_same_again(error: ErrorCode) -> None:
    stage = Stage(view(isr=(1,)))
    (asked,) = proposals(stage.fetches((2, 0)))
    stage.answer(asked, error)
    assert proposals(stage.pass_ms(1)) == [asked]
    assert proposals(stage.pass_ms(1)) == []
    stage.answer(asked)
    assert isr(stage) == ({1, 2}, {1, 2})


def test_an_answer_after_the_metadata_says_nothing_new() -> None:
    stage = Stage(view(isr=(1,)))
    (asked,) = proposals(stage.fetches((2, 0)))
    stage.metadata(view(isr=(1,), partition_epoch=2))
    stage.answer(asked)
    assert isr(stage) == ({1}, {1})


def test_metadata_after_the_answer_does_not_undo_what_is_in_flight_by_then() -> None:
    """The same partition epoch is the same state; taking it as news would forget the next change (KIP-497)."""
    stage = Stage(view(isr=(1,)))
    (asked,) = proposals(stage.fetches((2, 0)))
    stage.answer(asked)
    stage.fetches((3, 0))
    stage.metadata(view(isr=(1, 2), partition_epoch=1))
    assert isr(stage) == ({1, 2}, {1, 2, 3})


def test_an_answer_of_another_epoch_says_nothing() -> None:
    stage = Stage(view(isr=(1,)))
    (asked,) = proposals(stage.fetches((2, 0)))
    stage.metadata(view(isr=(1,), epoch=4, partition_epoch=1))
    stage.answer(asked)
    assert isr(stage) == ({1}, {1})


@pytest.mark.parametrize(("field", "value"), [("fenced", True), ("in_controlled_shutdown", True)])
def test_kip_841_fenced_and_stopping_brokers_do_not_join(field: str, value: bool) -> None:
    """Protection ISR_ELIGIBILITY_AT_LEADER."""
    for protections, joins in ((Protections(), 0), (Protections([Protection.ISR_ELIGIBILITY_AT_LEADER]), 1)):
        stage = Stage(view(isr=(1,)), protections=protections)
        stage.broker_is(2, **{field: value})
        assert len(proposals(stage.fetches((2, 0)))) == joins
        stage.broker_is(2, **{field: False})
        assert len(proposals(stage.fetches((2, 0)))) == 1 - joins


def test_a_broker_that_is_not_registered_does_not_join() -> None:
    stage = Stage(view(isr=(1,)), brokers={1: BROKERS[1]})
    assert proposals(stage.fetches((2, 0))) == []


def test_kip_903_a_fetch_of_an_earlier_life_counts_for_nothing() -> None:
    """Protection BROKER_EPOCH_AT_LEADER; the metadata here knows of the new life already (KAFKA-15221)."""
    for protections, error, joins in (
        (Protections(), ErrorCode.not_leader_or_follower, 0),
        (Protections([Protection.BROKER_EPOCH_AT_LEADER]), ErrorCode.none, 1),
    ):
        stage = Stage(view(isr=(1,)), protections=protections)
        stage.broker_is(2, epoch=110)
        answer, effects = stage.fetch(2, 0, broker_epoch=102)
        assert answer.error is error
        assert len(proposals(effects)) == joins
        assert len(proposals(stage.fetch(2, 0, broker_epoch=110)[1])) == 1 - joins


def test_kip_903_a_life_that_the_metadata_does_not_know_yet_waits() -> None:
    stage = Stage(view(isr=(1,)))
    answer, effects = stage.fetch(2, 0, broker_epoch=110)
    assert answer.error is ErrorCode.none
    assert proposals(effects) == []
    stage.brokers = {**BROKERS, 2: BrokerView(epoch=110)}
    stage.metadata(stage.partition.view)
    (asked,) = proposals(stage.fetch(2, 0, broker_epoch=110)[1])
    assert asked.new_isr == ((1, 101), (2, 110))


def test_a_fetch_without_broker_epoch_joins_without() -> None:
    """Fetch 13 and 14: the check is void, as with Kafka's metadata.version below 3.5-IV1."""
    (asked,) = proposals(Stage(view(isr=(1,))).fetch(2, 0, broker_epoch=-1)[1])
    assert asked.new_isr == ((1, 101), (2, -1))


def test_a_reassignment_adds_and_removes_followers() -> None:
    stage = Stage(view())
    assert stage.fetch(4, 0)[0].error is ErrorCode.unknown_leader_epoch
    moved = view(isr=(1, 2), partition_epoch=1)
    stage.brokers = {**BROKERS, 4: BrokerView(epoch=104)}
    stage.metadata(replace(moved, replicas=(1, 2, 4)))
    assert stage.fetch(3, 0)[0].error is ErrorCode.unknown_leader_epoch
    (asked,) = proposals(stage.fetches((4, 0)))
    assert asked.members == {1, 2, 4}
