"""How a leader is found: Vote, BeginQuorumEpoch, EndQuorumEpoch (KIP-595), as functions over the core.

A rule that needs no state is a plain function (`may_grant_vote`, `majority`, `successor_backoff`); those that change the node take it as
their first argument and are called by `core.py` alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from nodes.reference.protections import Protection, Protections
from nodes.reference.raft.log import OffsetAndEpoch
from nodes.reference.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    VoteRequest,
    VoteResponse,
)
from nodes.reference.raft.roles import Candidate, Follower, Leader, Progress, Resigned, Role, Unattached, Voted

if TYPE_CHECKING:
    from nodes.reference.raft.core import Raft


def majority(voters: Iterable[int]) -> int:
    """Any two majorities share a voter."""
    return len(tuple(voters)) // 2 + 1


def is_up_to_date(candidate: OffsetAndEpoch, own: OffsetAndEpoch) -> bool:
    """KIP-595, Vote Request Handling; Raft 5.4.1: the later epoch wins, then the longer log."""
    return (candidate.epoch, candidate.offset) >= (own.epoch, own.offset)


def may_grant_vote(role: Role, request: VoteRequest, own_end: OffsetAndEpoch, protections: Protections) -> bool:
    """KIP-595, Vote Request Handling: at most one vote in an epoch, none once its leader is known, and only to a log as good as the own."""
    if isinstance(role, Voted) and protections.on(Protection.ONE_VOTE_IN_AN_EPOCH):
        return role.voted_id == request.candidate_id
    if not isinstance(role, Unattached | Voted):
        return False
    return is_up_to_date(OffsetAndEpoch(request.last_offset, request.last_epoch), own_end)


def successor_backoff(position: int, successors: int, longest: int) -> int:
    """KIP-595, EndQuorumEpoch Request Handling: the preferred successor stands at once, the others each twice as late as the one before."""
    if position == 0:
        return 0
    return min(longest, (longest >> (successors - 1)) << (position - 1))


def refusal(raft: Raft, cluster_id: str, epoch: int) -> ErrorCode | None:
    """KIP-595, Common: requests of another cluster, or from a leader epoch that is over, change nothing."""
    if cluster_id != raft.config.cluster_id:
        return ErrorCode.inconsistent_cluster_id
    if epoch < raft.epoch:
        return ErrorCode.fenced_leader_epoch
    return None


def answer_vote(raft: Raft, now: int, request: VoteRequest) -> VoteResponse:
    """KIP-595, Vote Request Handling. KIP-642: votes from non-voters, by the own log, are rejected."""
    error = refusal(raft, request.cluster_id, request.epoch)
    if error is None and not {request.candidate_id, raft.node_id} <= set(raft.log.voters.current):
        error = ErrorCode.inconsistent_voter_set
    if error is not None:
        return VoteResponse(error, raft.leader_id, raft.epoch)
    if request.epoch > raft.epoch:
        raft.become_unattached(now, request.epoch)
    granted = may_grant_vote(raft.role, request, raft.log.end, raft.protections)
    if granted:
        raft.become_voted(now, request.candidate_id)
    return VoteResponse(ErrorCode.none, raft.leader_id, raft.epoch, granted)


def take_vote(raft: Raft, now: int, peer: int, request: VoteRequest, response: VoteResponse) -> None:
    """KIP-595, Vote Response Handling: a majority elects; once a majority has refused, wait before standing again."""
    role = raft.role
    if not isinstance(role, Candidate) or request.epoch != raft.epoch or response.error is not ErrorCode.none:
        return
    voters = raft.log.voters.current
    (role.granted if response.granted else role.rejected).add(peer)
    if len(role.granted & set(voters)) >= majority(voters):
        raft.become_leader(now)
    elif len(voters) - len(role.rejected) < majority(voters) and role.backoff_until is None:
        role.backoff_until = now + election_backoff(raft, role.retries)


def election_backoff(raft: Raft, retries: int) -> int:
    """KIP-595, Vote Response Handling: binary exponential and random, so that two candidates do not stand in each other's way for ever."""
    longest = min(raft.config.election_backoff_max, raft.config.retry_backoff << min(retries, 10))
    return raft.random.randint(1, max(1, longest))


def answer_begin(raft: Raft, now: int, request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
    """KIP-595, BeginQuorumEpoch Request Handling."""
    error = refusal(raft, request.cluster_id, request.epoch)
    if error is None and request.leader_id not in raft.log.voters.current:
        error = ErrorCode.inconsistent_voter_set
    if error is None:
        raft.learn(now, request.leader_id, request.epoch)
    return BeginQuorumEpochResponse(error or ErrorCode.none, raft.leader_id, raft.epoch)


def answer_end(raft: Raft, now: int, request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
    """KIP-595, EndQuorumEpoch Request Handling: stand for election in the order that the resigning leader prefers."""
    error = refusal(raft, request.cluster_id, request.epoch)
    if error is not None:
        return EndQuorumEpochResponse(error, raft.leader_id, raft.epoch)
    raft.learn(now, request.leader_id, request.epoch)
    role, successors = raft.role, request.preferred_successors
    if isinstance(role, Follower) and role.leader_id == request.leader_id and raft.is_voter:
        position = successors.index(raft.node_id) if raft.node_id in successors else len(successors)
        backoff = successor_backoff(position, len(successors), raft.config.election_backoff_max)
        role.fetch_deadline = min(role.fetch_deadline, now + backoff)
    return EndQuorumEpochResponse(ErrorCode.none, raft.leader_id, raft.epoch)


def heard(raft: Raft, peer: int, epoch: int) -> None:
    """A voter has acknowledged the epoch that begins, or the one that ends."""
    if epoch == raft.epoch and isinstance(raft.role, Leader | Resigned):
        raft.role.acknowledged.add(peer)


def check_quorum(raft: Raft, now: int, role: Leader, replica_id: int) -> None:
    """KAFKA-15489: each time a majority has fetched, the leader may go on for another 1.5 fetch timeouts."""
    voters = raft.log.voters.current
    role.progress.setdefault(replica_id, Progress()).last_fetch = now
    if replica_id in voters:
        role.fetched.add(replica_id)
    own = 1 if raft.is_voter else 0
    if len(role.fetched & set(voters)) + own >= majority(voters):
        role.fetched.clear()
        role.quorum_deadline = now + raft.config.check_quorum_timeout


def has_lost_quorum(raft: Raft, now: int, role: Leader) -> bool:
    """KAFKA-15489; KIP-642, Zombie Leader: no majority has fetched for 1.5 fetch timeouts, so there may be another leader by now."""
    if majority(raft.log.voters.current) <= 1 or now < role.quorum_deadline:
        return False
    return raft.protections.on(Protection.CHECK_QUORUM)


def successors_of(raft: Raft, role: Leader) -> tuple[int, ...]:
    """KIP-595, EndQuorumEpoch: the other voters, the most advanced first."""
    others = [voter for voter in raft.log.voters.current if voter != raft.node_id]
    return tuple(sorted(others, key=lambda voter: -role.progress.get(voter, Progress()).end_offset))
