"""The rules of KIP-595 one by one, on the pure core."""

from __future__ import annotations

from random import Random
from typing import TypeVar

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.protections import ALL_ON, Protection, Protections
from nodes.reference.raft.core import Raft
from nodes.reference.raft.elections import majority, successor_backoff
from nodes.reference.raft.events import (
    Answered,
    Append,
    Asked,
    BrokenInvariant,
    Committed,
    Effect,
    ElectionState,
    Flushed,
    LeaderChanged,
    NotLeader,
    Persist,
    Proposed,
    Resigns,
    Respond,
    Send,
    SnapshotTaken,
    StoreSnapshot,
    Truncate,
    Unanswered,
    Woken,
)
from nodes.reference.raft.log import Batch, LeaderChange, MetadataLog, OffsetAndEpoch, Snapshot, Voters
from nodes.reference.raft.messages import (
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    VoteRequest,
    VoteResponse,
)
from nodes.reference.raft.replication import divergence, majority_end, truncation_point
from nodes.reference.raft.roles import Candidate, Follower, Leader, RaftConfig, Resigned, Unattached, Voted

NEW = ElectionState()
EMPTY = OffsetAndEpoch(0, 0)
CONFIG = RaftConfig(cluster_id="k", voters=Voters((1, 2, 3)))
E = TypeVar("E", bound=Effect)


def node(
    node_id: int = 1,
    *,
    epochs: tuple[int, ...] = (),
    election: ElectionState = NEW,
    protections: Protections = ALL_ON,
) -> Raft:
    """`epochs`: of the records that its log has, one batch each."""
    log = MetadataLog(CONFIG.voters)
    for offset, epoch in enumerate(epochs):
        log.append(Batch(offset, epoch, 0, (b"%d" % offset,)))
    raft = Raft(node_id, CONFIG, protections, Random(1), log, election)
    raft.start(0)
    return raft


def only(effects: list[Effect], kind: type[E]) -> E:
    (found,) = [effect for effect in effects if isinstance(effect, kind)]
    return found


def ask(raft: Raft, request: Request, now: int = 0) -> list[Effect]:
    return raft.handle(now, Asked(1, request))


def vote(raft: Raft, epoch: int, candidate: int, last: OffsetAndEpoch = EMPTY) -> VoteResponse:
    response = only(ask(raft, VoteRequest("k", epoch, candidate, last.epoch, last.offset)), Respond).response
    assert isinstance(response, VoteResponse)
    return response


def elected(*, epochs: tuple[int, ...] = (), protections: Protections = ALL_ON) -> tuple[Raft, int]:
    """Node 1 as leader of the next epoch with the vote of node 2, its log flushed; the time."""
    raft = node(epochs=epochs, protections=protections)
    now = raft.deadline()
    send = next(effect for effect in raft.handle(now, Woken()) if isinstance(effect, Send) and effect.peer == 2)
    raft.handle(now, Answered(2, send.request, VoteResponse(ErrorCode.none, None, raft.epoch, True)))
    raft.handle(now, Flushed(raft.log.end_offset))
    assert isinstance(raft.role, Leader)
    return raft, now


def fetch(raft: Raft, replica: int, offset: int, epoch: int, now: int, wait: int = 0) -> FetchResponse:
    response = only(
        ask(raft, FetchRequest("k", replica, raft.epoch, offset, epoch, wait, 1 << 20), now), Respond
    ).response
    assert isinstance(response, FetchResponse)
    return response


def follows(raft: Raft, leader: int, epoch: int) -> FetchRequest:
    request = only(ask(raft, BeginQuorumEpochRequest("k", epoch, leader)), Send).request
    assert isinstance(request, FetchRequest)
    return request


def test_majorities() -> None:
    assert [majority(range(voters)) for voters in (1, 2, 3, 4, 5)] == [1, 2, 2, 3, 3]
    assert [majority_end(ends) for ends in ([5], [5, 3], [5, 3, 4], [9, 1, 2, 3], [1, 2, 3, 4, 5])] == [5, 3, 4, 2, 3]


class TestVote:
    def test_a_vote_is_persisted_before_it_is_given(self) -> None:
        effects = ask(node(), VoteRequest("k", 4, 2, 0, 0))
        kept, told = only(effects, Persist), only(effects, Respond)
        assert kept.state == ElectionState(4, None, 2)
        assert effects.index(kept) < effects.index(told)

    def test_one_vote_in_an_epoch(self) -> None:
        raft = node()
        assert vote(raft, 4, 2).granted
        assert not vote(raft, 4, 3).granted
        assert vote(raft, 4, 2).granted, "the same candidate may ask again"
        assert vote(raft, 5, 3).granted, "a new epoch, a new vote"

    def test_a_vote_is_remembered_over_a_restart(self) -> None:
        raft = node(election=ElectionState(4, None, 2))
        assert isinstance(raft.role, Voted)
        assert not vote(raft, 4, 3).granted

    @pytest.mark.parametrize(
        ("last", "granted"),
        [((3, 2), True), ((2, 2), False), ((9, 1), False), ((1, 3), True), ((4, 2), True)],
        ids=["the same", "shorter", "longer but older", "newer but shorter", "longer"],
    )
    def test_only_a_log_as_good_as_the_own(self, last: tuple[int, int], granted: bool) -> None:
        assert vote(node(epochs=(1, 1, 2)), 5, 2, OffsetAndEpoch(*last)).granted is granted

    def test_none_when_the_leader_is_known(self) -> None:
        raft = node()
        follows(raft, 3, 4)
        assert not vote(raft, 4, 2).granted

    def test_of_an_old_epoch_of_another_cluster_of_a_stranger(self) -> None:
        raft = node(election=ElectionState(4))
        assert vote(raft, 3, 2).error is ErrorCode.fenced_leader_epoch
        assert vote(raft, 9, 7).error is ErrorCode.inconsistent_voter_set
        effects = ask(raft, VoteRequest("other", 9, 2, 0, 0))
        assert only(effects, Respond).response.error is ErrorCode.inconsistent_cluster_id  # type: ignore[union-attr]
        assert raft.epoch == 4

    def test_losers_wait_before_they_stand_again(self) -> None:
        raft = node()
        now = raft.deadline()
        for send in [effect for effect in raft.handle(now, Woken()) if isinstance(effect, Send)]:
            raft.handle(now, Answered(send.peer, send.request, VoteResponse(ErrorCode.none, None, raft.epoch)))
        assert isinstance(raft.role, Candidate)
        assert raft.role.backoff_until is not None
        assert now < raft.role.backoff_until <= now + CONFIG.election_backoff_max
        raft.handle(raft.deadline(), Woken())
        while raft.epoch == 1:
            raft.handle(raft.deadline(), Woken())
        assert isinstance(raft.role, Candidate)
        assert raft.role.retries == 1

    def test_a_candidate_that_cannot_win_does_not_put_off_others(self) -> None:
        """Each newer epoch leaves the waiting time of those who wait as it is."""
        raft = node(epochs=(1,))
        before = raft.deadline()
        for epoch in range(2, 9):
            assert not vote(raft, epoch, 2).granted
        assert isinstance(raft.role, Unattached)
        assert raft.deadline() == before


class TestLeader:
    def test_begins_its_epoch_with_a_leader_change_and_records_the_voters(self) -> None:
        raft, _ = elected()
        first, second = raft.log.read(0)
        assert first.control == LeaderChange(1, (1, 2, 3), (1, 2))
        assert second.control == Voters((1, 2, 3))
        assert raft.election == ElectionState(1, leader_id=1)

    def test_commits_only_with_a_record_of_its_own_epoch(self) -> None:
        raft, now = elected(epochs=(1, 1))
        assert raft.epoch == 2
        fetch(raft, 2, 2, 1, now)
        assert raft.high_watermark == -1, "a majority has the records of epoch 1, and that is not enough"
        fetch(raft, 2, 3, 2, now)
        assert raft.high_watermark == 3

    def test_without_the_protection_older_epochs_count(self) -> None:
        raft, now = elected(epochs=(1, 1), protections=Protections([Protection.COMMIT_IN_OWN_EPOCH]))
        fetch(raft, 2, 2, 1, now)
        assert raft.high_watermark == 2

    def test_counts_its_own_records_once_they_are_flushed(self) -> None:
        raft, now = elected()
        appended = only(raft.handle(now, Proposed(1, (b"x", b"y"), 0)), Append).batch
        fetch(raft, 2, appended.next_offset, 1, now)
        assert raft.high_watermark < appended.next_offset
        effects = raft.handle(now, Flushed(appended.next_offset))
        assert only(effects, Committed).high_watermark == appended.next_offset

    def test_tells_of_its_leadership_when_older_epochs_are_committed(self) -> None:
        raft, now = elected()
        effects = ask(raft, FetchRequest("k", 2, 1, raft.log.end_offset, 1, 0, 1), now)
        assert only(effects, LeaderChanged) == LeaderChanged(1, 1)

    def test_a_fetch_waits_for_records(self) -> None:
        raft, now = elected()
        fetch(raft, 3, raft.log.end_offset, 1, now)
        fetch(raft, 2, raft.log.end_offset, 1, now)
        waiting = FetchRequest("k", 2, 1, raft.log.end_offset, 1, 500, 1 << 20)
        assert [effect for effect in ask(raft, waiting, now) if isinstance(effect, Respond)] == []
        answered = only(raft.handle(now, Proposed(1, (b"x",), 0)), Respond).response
        assert isinstance(answered, FetchResponse)
        assert [batch.values for batch in answered.batches] == [(b"x",)]

    def test_a_fetch_that_waited_long_enough_is_answered(self) -> None:
        raft, now = elected()
        fetch(raft, 2, raft.log.end_offset, 1, now)
        fetch(raft, 2, raft.log.end_offset, 1, now)
        ask(raft, FetchRequest("k", 2, 1, raft.log.end_offset, 1, 500, 1), now)
        assert raft.deadline() <= now + 500 * MILLISECOND
        assert only(raft.handle(now + 500 * MILLISECOND, Woken()), Respond).response.error is ErrorCode.none  # type: ignore[union-attr]

    def test_resigns_when_no_majority_fetches(self) -> None:
        raft, now = elected()
        raft.handle(now + SECOND, Woken())
        fetch(raft, 2, 0, 0, now + SECOND)
        raft.handle(now + SECOND + CONFIG.check_quorum_timeout - 1, Woken())
        assert isinstance(raft.role, Leader), "one of the others makes a majority of three"
        effects = raft.handle(now + SECOND + CONFIG.check_quorum_timeout, Woken())
        assert isinstance(raft.role, Resigned)
        assert {type(effect.request) for effect in effects if isinstance(effect, Send)} == {EndQuorumEpochRequest}

    def test_names_the_most_advanced_as_its_successor(self) -> None:
        raft, now = elected()
        fetch(raft, 2, 1, 1, now)
        fetch(raft, 3, 2, 1, now)
        requests = [effect.request for effect in raft.handle(now, Resigns()) if isinstance(effect, Send)]
        assert {request.preferred_successors for request in requests if isinstance(request, EndQuorumEpochRequest)} == {
            (3, 2)
        }
        with pytest.raises(NotLeader):
            raft.handle(now, Proposed(1, (b"x",), 0))

    def test_does_not_lead_its_epoch_again_after_a_restart(self) -> None:
        raft = node(election=ElectionState(4, leader_id=1))
        assert isinstance(raft.role, Resigned)
        assert not vote(raft, 4, 2).granted
        raft.handle(raft.deadline(), Woken())
        assert (type(raft.role), raft.epoch) == (Candidate, 5)

    def test_describes_the_quorum(self) -> None:
        raft, now = elected()
        fetch(raft, 2, 1, 1, now)
        fetch(raft, 7, 2, 1, now)
        described = only(ask(raft, DescribeQuorumRequest(), now), Respond).response
        assert isinstance(described, DescribeQuorumResponse)
        assert [(state.replica_id, state.log_end_offset) for state in described.current_voters] == [
            (1, 2),
            (2, 1),
            (3, -1),
        ]
        assert [state.replica_id for state in described.observers] == [7]


class TestFollower:
    def test_stands_at_once_when_it_is_the_preferred_successor(self) -> None:
        raft = node()
        follows(raft, 3, 4)
        ask(raft, EndQuorumEpochRequest("k", 4, 3, (1, 2)))
        assert (type(raft.role), raft.epoch) == (Candidate, 5)

    def test_others_stand_later(self) -> None:
        assert [successor_backoff(position, 3, 1000) for position in range(3)] == [0, 250, 500]
        raft = node()
        follows(raft, 3, 4)
        ask(raft, EndQuorumEpochRequest("k", 4, 3, (2, 1)))
        assert isinstance(raft.role, Follower)
        assert 0 < raft.deadline() <= CONFIG.election_backoff_max

    def test_appends_what_it_fetches(self) -> None:
        raft = node()
        request = follows(raft, 3, 4)
        batches = (Batch(0, 4, 0, (b"a",)), Batch(1, 4, 0, (b"b", b"c")))
        effects = raft.handle(0, Answered(3, request, FetchResponse(ErrorCode.none, 3, 4, 1, 0, batches)))
        assert [effect.batch for effect in effects if isinstance(effect, Append)] == list(batches)
        assert only(effects, Committed).high_watermark == 1
        assert only(effects, Send).request == FetchRequest("k", 1, 4, 3, 4, 500, CONFIG.fetch_max_bytes)

    @pytest.mark.parametrize(
        ("own", "leader", "left"),
        [((1, 1, 2, 2), (1, 1, 3), 2), ((1, 1, 1), (1, 3), 1), ((1, 2, 2), (1, 3, 3), 1), ((2,), (1, 3), 0)],
    )
    def test_truncates_by_epochs(self, own: tuple[int, ...], leader: tuple[int, ...], left: int) -> None:
        """KIP-101: asks until the two logs are one as far as they go."""
        follower, leads = node(2, epochs=own), node(3, epochs=leader)
        for _ in range(5):
            parts = divergence(leads.log, *follower.log.end)
            if parts is None:
                break
            follower.log.truncate(truncation_point(follower.log, parts))
        assert follower.log.end_offset == left

    def test_never_truncates_what_is_committed(self) -> None:
        raft = node()
        request = follows(raft, 3, 4)
        batches = (Batch(0, 4, 0, (b"a",)), Batch(1, 4, 0, (b"b",)))
        effects = raft.handle(0, Answered(3, request, FetchResponse(ErrorCode.none, 3, 4, 2, 0, batches)))
        again = only(effects, Send).request
        diverging = FetchResponse(ErrorCode.none, 3, 4, 2, 0, diverging=OffsetAndEpoch(1, 4))
        with pytest.raises(BrokenInvariant, match="below the high watermark"):
            raft.handle(0, Answered(3, again, diverging))

    def test_truncates_what_is_not(self) -> None:
        raft = node(epochs=(1, 1, 2))
        request = follows(raft, 3, 4)
        diverging = FetchResponse(ErrorCode.none, 3, 4, 2, 0, diverging=OffsetAndEpoch(2, 1))
        assert only(raft.handle(0, Answered(3, request, diverging)), Truncate).end_offset == 2

    def test_waits_before_it_asks_again(self) -> None:
        raft = node()
        request = follows(raft, 3, 4)
        assert [effect for effect in raft.handle(0, Unanswered(3, request)) if isinstance(effect, Send)] == []
        assert raft.deadline() == CONFIG.retry_backoff
        assert only(raft.handle(raft.deadline(), Woken()), Send).request == request

    def test_stands_when_the_leader_is_silent(self) -> None:
        raft = node()
        follows(raft, 3, 4)
        raft.handle(CONFIG.fetch_timeout, Woken())
        assert (type(raft.role), raft.epoch) == (Candidate, 5)

    def test_two_leaders_of_one_epoch_stop_it(self) -> None:
        raft = node()
        follows(raft, 3, 4)
        with pytest.raises(BrokenInvariant, match="two leaders"):
            ask(raft, BeginQuorumEpochRequest("k", 4, 2))

    def test_loads_a_snapshot_piece_by_piece(self) -> None:
        leader, now = elected(epochs=(1, 1, 1))
        fetch(leader, 2, 4, 2, now)
        voters = leader.log.voters_before(4)
        kept = leader.handle(now, SnapshotTaken(Snapshot(OffsetAndEpoch(4, 2), voters, (b"state",) * 9)))
        assert not only(kept, StoreSnapshot).whole
        pieces_of_50 = RaftConfig(cluster_id="k", voters=CONFIG.voters, snapshot_max_bytes=50)
        raft = Raft(3, pieces_of_50, ALL_ON, Random(1), MetadataLog(CONFIG.voters), NEW)
        raft.start(0)
        request: Request = follows(raft, 1, leader.epoch)
        pieces = 0
        while raft.log.snapshot is None:
            response = only(ask(leader, request, now), Respond).response
            pieces += isinstance(response, FetchSnapshotResponse)
            effects = raft.handle(0, Answered(1, request, response))
            request = only(effects, Send).request
        assert pieces > 3
        assert only(effects, StoreSnapshot) == StoreSnapshot(
            Snapshot(OffsetAndEpoch(4, 2), voters, (b"state",) * 9), True
        )
        assert (raft.log.end, raft.high_watermark) == (OffsetAndEpoch(4, 2), 4)
        assert isinstance(request, FetchRequest)

    def test_a_snapshot_that_is_gone_is_asked_for_anew(self) -> None:
        raft = node()
        request = follows(raft, 3, 4)
        needs = FetchResponse(ErrorCode.none, 3, 4, 9, 9, snapshot_id=OffsetAndEpoch(9, 3))
        piece = only(raft.handle(0, Answered(3, request, needs)), Send).request
        assert isinstance(piece, FetchSnapshotRequest)
        gone = FetchSnapshotResponse(ErrorCode.snapshot_not_found, 3, 4, OffsetAndEpoch(9, 3))
        raft.handle(0, Answered(3, piece, gone))
        assert isinstance(only(raft.handle(raft.deadline(), Woken()), Send).request, FetchRequest)


class TestObserver:
    def test_looks_for_the_leader_and_never_votes(self) -> None:
        raft = Raft(7, CONFIG, ALL_ON, Random(1), MetadataLog(CONFIG.voters), ElectionState())
        send = only(raft.start(0), Send)
        assert isinstance(send.request, FetchRequest)
        assert vote(raft, 3, 2).error is ErrorCode.inconsistent_voter_set
        raft.handle(0, Answered(send.peer, send.request, FetchResponse(ErrorCode.not_leader_or_follower, 2, 5)))
        assert isinstance(raft.role, Follower)
        raft.handle(CONFIG.fetch_timeout, Woken())
        assert isinstance(raft.role, Unattached), "an observer does not stand"


def test_voters_come_from_the_log_and_go_with_it() -> None:
    """KIP-642: the newest assignment counts at once; truncating it brings back the one before."""
    raft, _ = elected()
    log = raft.log
    log.append(Batch(log.end_offset, 1, 0, control=Voters((1, 2), (1, 2))))
    assert log.voters == Voters((1, 2), (1, 2))
    log.truncate(log.end_offset - 1)
    assert log.voters == Voters((1, 2, 3))
