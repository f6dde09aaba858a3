"""Following: what is asked, what is cut, what is taken over. Leader and follower are both real; the wire between them is a call."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from nodes.reference.log.epochs import EpochEnd
from nodes.reference.partition.effects import (
    AskLeaderOffsets,
    Effect,
    FetchAnswer,
    FetchRefused,
    HighWatermarkMoved,
    LogFailed,
    LogGrew,
    LogTruncated,
)
from nodes.reference.partition.requests import Timestamp
from nodes.reference.protections import ALL_ON, Protection, Protections
from tests.nodes.reference.partition.stage import Stage, view
from tests.nodes.reference.producing import values


def exchange(follower: Stage, leader: Stage) -> list[Effect]:
    """One fetch and its answer."""
    wanted = follower.partition.next_fetch()
    assert wanted is not None
    answer, _ = leader.partition.replica_fetch(wanted.request, leader.now)
    return follower.partition.fetched(wanted.request, answer, follower.now)


def content(stage: Stage) -> list[bytes | None]:
    return values(stage.log.read(0, upper_bound=stage.log.log_end_offset, max_bytes=1 << 20))


def written(broker: int, *epochs: tuple[int, bytes], protections: Protections = ALL_ON) -> Stage:
    """A replica whose log has these records: it led in their epochs."""
    stage = Stage(None, broker=broker, protections=protections)
    for epoch, value in epochs:
        stage.metadata(view(broker, epoch=epoch, partition_epoch=2 * epoch))
        stage.produce(value)
    return stage


def lead(stage: Stage, epoch: int) -> None:
    stage.metadata(view(stage.partition.local.broker, epoch=epoch, partition_epoch=2 * epoch))


def follow(stage: Stage, leader: Stage, epoch: int) -> list[Effect]:
    return stage.metadata(view(leader.partition.local.broker, epoch=epoch, partition_epoch=2 * epoch))


def test_what_a_follower_asks() -> None:
    follower = written(2, (0, b"a"), (3, b"b"))
    assert follower.partition.next_fetch() is None
    follower.metadata(view(1, epoch=4))
    wanted = follower.partition.next_fetch()
    assert wanted is not None
    assert (wanted.leader, wanted.request.offset, wanted.request.leader_epoch) == (1, 2, 4)
    assert (wanted.request.last_fetched_epoch, wanted.request.log_start_offset) == (3, 0)
    assert (wanted.request.replica, wanted.request.replica_epoch) == (2, 102)


def test_without_a_leader_nobody_is_asked() -> None:
    follower = Stage(view(-1), broker=2)
    assert follower.partition.next_fetch() is None
    follower.metadata(view(1, epoch=1))
    assert follower.partition.next_fetch() is not None


def test_records_and_then_the_high_watermark_arrive() -> None:
    leader, follower = written(1, (0, b"a"), (0, b"b")), Stage(view(1), broker=2)
    leader.fetches((3, 2))
    assert exchange(follower, leader) == [LogGrew(2)]
    assert exchange(follower, leader) == [HighWatermarkMoved(2)]
    assert content(follower) == [b"a", b"b"]


def test_an_answer_to_an_older_question_says_nothing() -> None:
    leader, follower = written(1, (0, b"a")), Stage(view(1), broker=2)
    wanted = follower.partition.next_fetch()
    assert wanted is not None
    answer, _ = leader.partition.replica_fetch(wanted.request, 0)
    assert follower.partition.fetched(wanted.request, answer, 0) == [LogGrew(1)]
    assert follower.partition.fetched(wanted.request, answer, 0) == []
    again = follower.partition.next_fetch()
    assert again is not None
    follower.metadata(view(1, epoch=1, partition_epoch=1))
    assert follower.partition.fetched(again.request, FetchAnswer(ErrorCode.none, high_watermark=1), 0) == []
    assert follower.log.high_watermark == 0


def test_kip_101_what_diverges_is_cut_and_what_is_shared_stays() -> None:
    """KIP-101, scenario 2: different records at the same offset, in different epochs."""
    leader = written(1, (0, b"a"), (2, b"new"))
    follower = written(2, (0, b"a"), (1, b"old"), (1, b"older"))
    lead(leader, 3)
    assert not [effect for effect in follow(follower, leader, 3) if isinstance(effect, LogTruncated)]
    assert exchange(follower, leader) == [LogTruncated(was=3, end=1, high_watermark=0)]
    assert exchange(follower, leader) == [LogGrew(2)]
    assert content(follower) == [b"a", b"new"]
    assert follower.log.epochs.entries == [(0, 0), (2, 1)]


def test_kip_279_epochs_that_the_leader_never_had_are_cut_one_after_the_other() -> None:
    leader = written(1, (0, b"a"), (4, b"d"))
    follower = written(2, (0, b"a"), (2, b"b"), (3, b"c"))
    lead(leader, 5)
    follow(follower, leader, 5)
    while follower.log.log_end_offset != leader.log.log_end_offset or content(follower) != content(leader):
        assert exchange(follower, leader)
    assert content(follower) == [b"a", b"d"]


def test_a_log_that_is_only_behind_is_not_cut() -> None:
    leader = written(1, (0, b"a"), (0, b"b"), (2, b"c"))
    follower = written(2, (0, b"a"))
    lead(leader, 3)
    follow(follower, leader, 3)
    assert exchange(follower, leader) == [LogGrew(3)]


def test_an_epoch_without_records_is_no_obstacle() -> None:
    """A former leader that wrote nothing in its epoch, which nobody else ever heard of."""
    leader, follower = written(1, (0, b"a")), written(2, (0, b"a"))
    lead(follower, 1)
    assert follower.log.latest_epoch == 1
    lead(leader, 2)
    follow(follower, leader, 2)
    assert exchange(follower, leader) == []
    assert follower.log.latest_epoch == 0
    leader.produce(b"b")
    assert exchange(follower, leader) == [LogGrew(2)]


def test_protection_truncate_by_epoch() -> None:
    """KIP-101, scenario 1: the record is acknowledged, the follower has it, and does not know yet that it is committed."""
    kept = []
    for protections in (ALL_ON, Protections([Protection.TRUNCATE_BY_EPOCH])):
        leader = written(1, (0, b"a"))
        follower = Stage(view(1, isr=(1, 2)), broker=2, protections=protections)
        exchange(follower, leader)
        follower.metadata(view(3, epoch=1, partition_epoch=1))
        kept.append(content(follower))
    assert kept == [[b"a"], []]


def test_a_leader_that_ends_earlier_is_asked_where() -> None:
    """An unclean election: no epoch in common, and the leader's log is shorter."""
    leader, follower = Stage(None, broker=1), written(2, (3, b"a"), (3, b"b"))
    lead(leader, 2)
    leader.metadata(view(1, epoch=4, partition_epoch=9))
    follower.metadata(view(1, epoch=4, partition_epoch=9))
    leader.produce(b"x")
    leader.log.epochs.entries.clear()
    assert exchange(follower, leader) == [AskLeaderOffsets(leader=1, leader_epoch=4)]
    latest = leader.partition.list_offset(Timestamp.LATEST, None).offset
    assert follower.partition.leader_offsets(3, 0, latest) == []
    assert follower.partition.leader_offsets(4, 0, latest) == [LogTruncated(was=2, end=1, high_watermark=0)]


def test_a_leader_that_begins_later_makes_the_follower_begin_there() -> None:
    follower = written(2, (0, b"a"))
    follower.metadata(view(1, epoch=1, partition_epoch=1))
    assert follower.partition.leader_offsets(1, 100, 120) == [LogTruncated(was=1, end=100, high_watermark=0)]
    wanted = follower.partition.next_fetch()
    assert wanted is not None
    assert (wanted.request.offset, wanted.request.last_fetched_epoch) == (100, -1)


def test_offsets_that_fit_change_nothing() -> None:
    follower = written(2, (0, b"a"))
    follower.metadata(view(1, epoch=1, partition_epoch=1))
    assert follower.partition.leader_offsets(1, 0, 5) == []
    assert content(follower) == [b"a"]


def test_damaged_records_are_not_appended() -> None:
    leader, follower = written(1, (0, b"a")), Stage(view(1), broker=2)
    wanted = follower.partition.next_fetch()
    assert wanted is not None
    answer, _ = leader.partition.replica_fetch(wanted.request, 0)
    damaged = FetchAnswer(ErrorCode.none, high_watermark=1, records=answer.records[:-1] + b"z")
    (refused,) = follower.partition.fetched(wanted.request, damaged, 0)
    assert isinstance(refused, FetchRefused)
    assert "checksum" in refused.reason
    assert (follower.log.log_end_offset, follower.log.high_watermark) == (0, 0)


def test_the_high_watermark_is_never_above_what_the_follower_has() -> None:
    follower = Stage(view(1), broker=2)
    wanted = follower.partition.next_fetch()
    assert wanted is not None
    assert follower.partition.fetched(wanted.request, FetchAnswer(ErrorCode.none, high_watermark=9), 0) == []


def test_a_follower_of_the_same_epoch_takes_over_what_changed() -> None:
    follower = Stage(view(1), broker=2)
    follower.metadata(view(1, isr=(1,), partition_epoch=1))
    assert follower.partition.follower is not None
    assert follower.partition.follower.view.isr == {1}


def test_a_disk_that_fails_ends_a_follower_too() -> None:
    leader, follower = written(1, (0, b"a")), Stage(view(1), broker=2)
    follower.disk.fill()
    (failed,) = exchange(follower, leader)
    assert isinstance(failed, LogFailed)
    assert "No space" in failed.reason
    assert follower.partition.next_fetch() is None


def test_the_leader_tells_where_the_epoch_ended() -> None:
    leader = written(1, (0, b"a"), (2, b"b"))
    answer, effects = leader.fetch(2, 2, epoch=2, last_epoch=1)
    assert (answer.error, answer.diverging, answer.records) == (ErrorCode.none, EpochEnd(0, 1), b"")
    assert effects == []
    assert leader.fetch(2, 1, epoch=2, last_epoch=9)[0].error is ErrorCode.offset_out_of_range
    assert leader.fetch(2, 5, epoch=2)[0].error is ErrorCode.offset_out_of_range
