"""Acknowledging and the high watermark, rule by rule."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.environment import MILLISECOND
from nodes.reference.log.batch import Marker
from nodes.reference.partition.effects import LogFailed, LogGrew, ProduceAnswered
from nodes.reference.partition.requests import Acks, WriteMarker
from nodes.reference.protections import Protection, Protections
from tests.nodes.reference.partition.stage import Stage, answers, high_watermarks, proposals, view
from tests.nodes.reference.producing import values


def test_acks_all_waits_for_the_whole_isr() -> None:
    stage = Stage(view())
    assert stage.produce(b"a", b"b") == [LogGrew(2)]
    assert stage.fetches((2, 0), (3, 0), (2, 2)) == []
    assert stage.fetches((3, 2))[-1] == ProduceAnswered("p", ErrorCode.none, 0, 0)
    assert stage.log.high_watermark == 2


@pytest.mark.parametrize("acks", [Acks.LEADER, Acks.NONE])
def test_other_acks_are_answered_at_once(acks: int) -> None:
    effects = Stage(view()).produce(acks=acks)
    assert effects == [LogGrew(1), ProduceAnswered("p", ErrorCode.none, 0, 0)]


def test_unknown_acks_are_refused() -> None:
    assert answers(Stage(view()).produce(acks=2)) == {"p": ErrorCode.invalid_required_acks}


def test_answers_come_in_the_order_of_the_offsets() -> None:
    stage = Stage(view(isr=(1, 2)))
    for ticket in "abc":
        stage.produce(ticket=ticket)
    assert list(answers(stage.fetches((2, 2)))) == ["a", "b"]
    assert list(answers(stage.fetches((2, 3)))) == ["c"]


def test_a_follower_alone_in_the_assignment_is_no_reason_to_wait() -> None:
    """A replica that is not in the ISR and lags does not hold the high watermark."""
    assert answers(Stage(view(isr=(1,))).produce()) == {"p": ErrorCode.none}


def test_too_few_in_sync_to_begin_with() -> None:
    stage = Stage(view(isr=(1,)), min_isr=2)
    assert answers(stage.produce()) == {"p": ErrorCode.not_enough_replicas}
    assert stage.log.log_end_offset == 0
    assert answers(stage.produce(acks=Acks.LEADER)) == {"p": ErrorCode.none}


def test_too_few_in_sync_afterwards() -> None:
    """KAFKA-15583, as since Kafka 3.7: the high watermark stays, so the producer's deadline answers."""
    stage = Stage(view(isr=(1, 2)), min_isr=2)
    stage.produce(wait=50 * MILLISECOND)
    stage.metadata(view(isr=(1,), partition_epoch=1))
    assert stage.log.high_watermark == 0
    assert answers(stage.pass_ms(49)) == {}
    assert answers(stage.pass_ms(1)) == {"p": ErrorCode.request_timed_out}


def test_min_insync_replicas_is_never_more_than_there_are_replicas() -> None:
    stage = Stage(view(), min_isr=5)
    stage.produce()
    assert answers(stage.fetches((2, 1), (3, 1))) == {"p": ErrorCode.none}


def test_protection_high_watermark_within_min_isr() -> None:
    """What a producer is told was too few is then read all the same, as in Kafka before 3.7."""
    stage = Stage(view(isr=(1, 2)), min_isr=2, protections=Protections([Protection.HIGH_WATERMARK_WITHIN_MIN_ISR]))
    stage.produce()
    effects = stage.metadata(view(isr=(1,), partition_epoch=1))
    assert answers(effects) == {"p": ErrorCode.not_enough_replicas_after_append}
    assert stage.log.high_watermark == 1


def test_the_deadline_is_told() -> None:
    stage = Stage(view())
    assert stage.partition.next_deadline is None
    stage.produce(wait=7 * MILLISECOND)
    assert stage.partition.next_deadline == stage.now + 7 * MILLISECOND


def test_who_loses_leadership_answers_that_it_does_not_lead() -> None:
    stage = Stage(view())
    stage.produce()
    assert answers(stage.metadata(view(2, epoch=1))) == {"p": ErrorCode.not_leader_or_follower}
    assert answers(stage.produce()) == {"p": ErrorCode.not_leader_or_follower}
    assert stage.partition.next_fetch() is not None
    stage.metadata(None)
    assert stage.partition.next_fetch() is None


def test_a_leader_of_two_epochs_in_a_row_keeps_waiting_and_learns_anew_where_followers_are() -> None:
    """Metadata may have skipped an epoch in which another led and they truncated."""
    stage = Stage(view(isr=(1, 2)))
    stage.produce()
    stage.fetches((2, 0))
    assert answers(stage.metadata(view(isr=(1, 2), epoch=2, partition_epoch=1))) == {}
    assert stage.fetch(2, 1, epoch=0)[0].error is ErrorCode.fenced_leader_epoch
    assert answers(stage.fetches((2, 1), epoch=2)) == {"p": ErrorCode.none}


def test_older_metadata_is_ignored() -> None:
    stage = Stage(view(epoch=3, partition_epoch=7))
    assert stage.metadata(view(2, epoch=2, partition_epoch=9)) == []
    assert stage.metadata(view(isr=(1,), epoch=3, partition_epoch=7)) == []
    assert stage.partition.leader is not None
    assert stage.partition.leader.membership.isr.committed == {1, 2, 3}


def test_a_retry_waits_for_replication_as_the_first_did() -> None:
    stage = Stage(view(isr=(1, 2)))
    stage.produce(ticket="first", producer=7, epoch=0, sequence=0)
    assert stage.produce(ticket="retry", producer=7, epoch=0, sequence=0) == []
    assert answers(stage.fetches((2, 1))) == {"first": ErrorCode.none, "retry": ErrorCode.none}
    again = stage.produce(ticket="late", producer=7, epoch=0, sequence=0)
    assert again == [ProduceAnswered("late", ErrorCode.none, 0, 0)]


def test_what_the_log_refuses_is_answered() -> None:
    stage = Stage(view())
    stage.produce(producer=7, epoch=0, sequence=0)
    (answer,) = stage.produce(producer=7, epoch=0, sequence=5)
    assert isinstance(answer, ProduceAnswered)
    assert answer.error is ErrorCode.out_of_order_sequence_number
    assert answer.message is not None
    assert "1 is next" in answer.message


def marker(ticket: str, *, epoch: int = 0) -> WriteMarker:
    return WriteMarker(
        ticket=ticket,
        marker=Marker.COMMIT,
        producer_id=7,
        producer_epoch=epoch,
        coordinator_epoch=0,
        timestamp=0,
        deadline=1 << 60,
    )


def test_a_marker_is_acknowledged_when_it_is_replicated() -> None:
    stage = Stage(view(isr=(1, 2)))
    assert stage.partition.write_marker(marker("m", epoch=1), stage.now) == [LogGrew(1)]
    assert answers(stage.fetches((2, 1))) == {"m": ErrorCode.none}
    refused = stage.partition.write_marker(marker("zombie"), stage.now)
    assert answers(refused) == {"zombie": ErrorCode.invalid_producer_epoch}


def test_a_disk_that_fails_ends_the_replica() -> None:
    stage = Stage(view())
    stage.produce(ticket="waits")
    stage.disk.fill()
    effects = stage.produce(ticket="now")
    assert [effect for effect in effects if isinstance(effect, LogFailed)]
    assert answers(effects) == {"now": ErrorCode.kafka_storage_error, "waits": ErrorCode.kafka_storage_error}
    stage.disk.make_room()
    assert answers(stage.produce()) == {"p": ErrorCode.kafka_storage_error}
    assert stage.fetch(2, 0)[0].error is ErrorCode.kafka_storage_error
    assert stage.metadata(view(1, epoch=1)) == []


def test_protection_replicate_before_acknowledge() -> None:
    off = Stage(view(), protections=Protections([Protection.REPLICATE_BEFORE_ACKNOWLEDGE]))
    assert answers(off.produce()) == {"p": ErrorCode.none}
    assert off.log.high_watermark == 0


def test_protection_append_before_acknowledge() -> None:
    off = Stage(view(), protections=Protections([Protection.APPEND_BEFORE_ACKNOWLEDGE]))
    assert off.produce(b"a", b"b") == [ProduceAnswered("p", ErrorCode.none, 0, 0)]
    assert off.produce(b"c", ticket="q") == [ProduceAnswered("q", ErrorCode.none, 2, 0)]
    assert off.log.log_end_offset == 0
    assert answers(off.pass_ms(1)) == {}
    assert values(off.log.read(0, upper_bound=3, max_bytes=1 << 20)) == [b"a", b"b", b"c"]


def test_protection_sequences_after_failover() -> None:
    ends = []
    for protections in (Protections(), Protections([Protection.SEQUENCES_AFTER_FAILOVER])):
        stage = Stage(view(), protections=protections)
        stage.produce(producer=7, epoch=0, sequence=0)
        stage.metadata(view(2, epoch=1))
        stage.metadata(view(1, epoch=2))
        stage.produce(producer=7, epoch=0, sequence=0)
        ends.append(stage.log.log_end_offset)
    assert ends == [1, 2]


def test_kip_497_the_high_watermark_waits_for_who_is_being_added() -> None:
    """Protection MAXIMAL_ISR: the record after the proposal must be on the new member before it is acknowledged."""
    for protections, acknowledged in ((Protections(), False), (Protections([Protection.MAXIMAL_ISR]), True)):
        stage = Stage(view(isr=(1,)), protections=protections)
        (asked,) = proposals(stage.fetches((2, 0)))
        assert asked.members == {1, 2}
        assert bool(answers(stage.produce())) is acknowledged
        effects = stage.answer(asked)
        assert answers(effects) == {}
        assert bool(answers(stage.fetches((2, 1)))) is not acknowledged


def test_kip_497_a_shrink_counts_when_it_is_committed() -> None:
    """Protection ISR_COMMITTED_FIRST: until the controller has said so, the one that lags may still be elected."""
    for protections, early in ((Protections(), False), (Protections([Protection.ISR_COMMITTED_FIRST]), True)):
        stage = Stage(view(isr=(1, 2)), protections=protections)
        stage.produce()
        effects = stage.pass_ms(101)
        (asked,) = proposals(effects)
        assert asked.members == {1}
        assert bool(answers(effects)) is early
        assert bool(answers(stage.answer(asked))) is not early


def test_the_high_watermark_waits_for_who_could_join() -> None:
    """As Kafka does: caught up within replica.lag.time.max.ms and eligible, but not yet proposed."""
    stage = Stage(view(isr=(1, 2)))
    (asked,) = proposals(stage.fetches((2, 0), (3, 0)))  # 3 joins
    stage.produce()
    stage.answer(asked, ErrorCode.ineligible_replica)
    assert high_watermarks(stage.fetches((2, 1))) == []
    stage.now += 101 * MILLISECOND
    assert high_watermarks(stage.fetches((2, 1))) == [1]
