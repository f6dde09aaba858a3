"""One node of the metadata quorum: KIP-595 as a pure state machine. Events in, effects out; time and randomness are arguments.

    raft = Raft(1, config, ALL_ON, Random(1), MetadataLog(Voters((1, 2, 3))), ElectionState())
    raft.start(now)                                            # [LeaderChanged(None, 0)]
    raft.handle(raft.deadline(), Woken())                      # [Persist(epoch 1, voted 1), Send(2, VoteRequest), Send(3, VoteRequest)]
    raft.handle(now, Answered(2, request, VoteResponse(...)))  # [Persist(leader 1), Append(LeaderChange), Send(3, BeginQuorumEpoch), ...]

This module has the states and how one becomes another; the rules are beside it: `elections.py` (who leads), `replication.py` (what the
leader and the followers do with the log). Whoever drives a core calls `handle` and makes sure that it is called again no later than
`deadline()`.

Voters come from the log (KIP-642: a node acts on the newest assignment that its log has, committed or not), so none is kept here.
"""

from __future__ import annotations

from random import Random

from nodes.reference.protections import Protection, Protections
from nodes.reference.raft import elections, replication
from nodes.reference.raft.events import (
    Answered,
    Append,
    Asked,
    BrokenInvariant,
    Committed,
    Effect,
    ElectionState,
    Event,
    Flushed,
    LeaderChanged,
    NotLeader,
    Persist,
    Proposed,
    Resigns,
    Respond,
    Send,
    SnapshotTaken,
    Unanswered,
)
from nodes.reference.raft.log import Batch, Control, LeaderChange, MetadataLog
from nodes.reference.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from nodes.reference.raft.roles import (
    Candidate,
    Follower,
    Leader,
    Progress,
    RaftConfig,
    Resigned,
    Role,
    Unattached,
    Voted,
)


class Raft:
    """`role`, `log`, `election` and `high_watermark` are there to be read; only `start` and `handle` change them.

    high_watermark: the end of what is known to be committed; -1 while nothing is known. It never goes back.
    """

    def __init__(
        self,
        node_id: int,
        config: RaftConfig,
        protections: Protections,
        random: Random,
        log: MetadataLog,
        election: ElectionState,
    ) -> None:
        self.node_id = node_id
        self.config = config
        self.protections = protections
        self.random = random
        self.log = log
        self.election = election
        self.role: Role = Unattached(0)
        self.high_watermark = log.snapshot.id.offset if log.snapshot else -1
        self.flushed_offset = log.end_offset
        self._in_flight: dict[tuple[int, type], Request] = {}
        self._not_before: dict[tuple[int, type], int] = {}
        self._effects: list[Effect] = []
        self._told: LeaderChanged | None = None

    @property
    def epoch(self) -> int:
        return self.election.epoch

    @property
    def leader_id(self) -> int | None:
        return self.election.leader_id

    @property
    def is_voter(self) -> bool:
        return self.node_id in self.log.voters.current

    # What drives it

    def start(self, now: int) -> list[Effect]:
        """KIP-595, Quorum State: go on from what was persisted; the epoch is never below one that the log has."""
        if self.log.last_epoch > self.epoch:
            self.election = ElectionState(self.log.last_epoch)
        leader_id, voted_id = self.election.leader_id, self.election.voted_id
        if leader_id == self.node_id:  # of an epoch whose progress is forgotten
            self.role = Resigned(self._election_deadline(now), self._others())
        elif leader_id is not None:
            self.role = Follower(leader_id, now + self.config.fetch_timeout)
        elif voted_id == self.node_id:
            self.role = Candidate(self._election_deadline(now), 0, {self.node_id})
        elif voted_id is not None:
            self.role = Voted(voted_id, self._election_deadline(now))
        else:
            self.role = Unattached(now + self._wait_for_others())
        self.tell_leader(None if leader_id == self.node_id else leader_id)
        if self.high_watermark >= 0:
            self.emit(Committed(self.high_watermark))
        return self._take(now)

    def handle(self, now: int, event: Event) -> list[Effect]:
        """NotLeader for a Proposed that comes too late; BrokenInvariant if the quorum has contradicted itself."""
        match event:
            case Asked(token, request):
                self._asked(now, token, request)
            case Answered(peer, request, response):
                if self._in_flight.pop((peer, type(request)), None) is not None:
                    self._answered(now, peer, request, response)
            case Unanswered(peer, request):
                self._in_flight.pop((peer, type(request)), None)
                self.back_off(now, peer, type(request))
            case Proposed(epoch, values, timestamp):
                if not isinstance(self.role, Leader) or epoch != self.epoch:
                    raise NotLeader(self.leader_id, self.epoch)
                self._append_as_leader(Batch(self.log.end_offset, epoch, timestamp, values))
            case Flushed(end_offset):
                replication.flushed(self, now, end_offset)
            case SnapshotTaken(snapshot):
                replication.keep_snapshot(self, snapshot)
            case Resigns() if isinstance(self.role, Leader):
                self.become_resigned(now, self.role)
        return self._take(now)

    def deadline(self) -> int:
        """When `handle(now, Woken())` is due at the latest."""
        moments = [moment for (peer, kind), moment in self._not_before.items() if (peer, kind) not in self._in_flight]
        match self.role:
            case Unattached(deadline) | Voted(_, deadline) | Resigned(deadline):
                moments.append(deadline)
            case Follower():
                moments.append(self.role.fetch_deadline)
            case Candidate():
                moments.append(self.role.backoff_until or self.role.election_deadline)
            case Leader():
                moments.append(self.role.quorum_deadline)
                moments.extend(parked.deadline for parked in self.role.parked)
        return min(moments)

    def _take(self, now: int) -> list[Effect]:
        self._expire(now)
        self._send()
        effects, self._effects = self._effects, []
        return effects

    def emit(self, effect: Effect) -> None:
        self._effects.append(effect)

    def tell_leader(self, leader_id: int | None) -> None:
        """Once each time it changes."""
        news = LeaderChanged(leader_id, self.epoch)
        if news != self._told:
            self._told = news
            self.emit(news)

    # What comes in

    def _asked(self, now: int, token: int, request: Request) -> None:
        response: Response | None
        match request:
            case VoteRequest():
                response = elections.answer_vote(self, now, request)
            case BeginQuorumEpochRequest():
                response = elections.answer_begin(self, now, request)
            case EndQuorumEpochRequest():
                response = elections.answer_end(self, now, request)
            case FetchRequest():
                response = replication.answer_fetch(self, now, token, request)
            case FetchSnapshotRequest():
                response = replication.answer_fetch_snapshot(self, now, request)
            case DescribeQuorumRequest():
                response = replication.describe(self)
        if response is not None:
            self.emit(Respond(token, response))

    def _answered(self, now: int, peer: int, request: Request, response: Response) -> None:
        self.learn(now, response.leader_id, response.epoch)
        match request, response:
            case VoteRequest(), VoteResponse():
                elections.take_vote(self, now, peer, request, response)
                self.back_off(now, peer, VoteRequest)
            case (BeginQuorumEpochRequest(), BeginQuorumEpochResponse()) | (
                EndQuorumEpochRequest(),
                EndQuorumEpochResponse(),
            ):
                assert not isinstance(request, DescribeQuorumRequest)
                elections.heard(self, peer, request.epoch)
            case FetchRequest(), FetchResponse():
                replication.take_fetch(self, now, peer, request, response)
            case FetchSnapshotRequest(), FetchSnapshotResponse():
                replication.take_piece(self, now, peer, request, response)

    def learn(self, now: int, leader_id: int | None, epoch: int) -> None:
        """KIP-595, Leader Progress / Common response handling: any newer epoch counts, and so does the leader of the present one."""
        if epoch > self.epoch:
            if leader_id is None or leader_id == self.node_id:
                self.become_unattached(now, epoch)
            else:
                self.become_follower(now, leader_id, epoch)
        elif epoch == self.epoch and leader_id is not None and leader_id != self.node_id:
            if self.leader_id is None:
                self.become_follower(now, leader_id, epoch)
            elif self.leader_id != leader_id:
                raise BrokenInvariant(f"epoch {epoch} has two leaders: {self.leader_id} and {leader_id}")

    # Transitions

    def become_unattached(self, now: int, epoch: int) -> None:
        """Who was waiting to stand goes on waiting: a candidate that cannot win must not put off the one that can by ever newer epochs."""
        match self.role:
            case Unattached(deadline) | Voted(_, deadline):
                pass
            case Candidate() as candidate:
                deadline = candidate.backoff_until or candidate.election_deadline
            case _:
                deadline = self._election_deadline(now)
        self._change(now, Unattached(deadline), ElectionState(epoch))

    def become_voted(self, now: int, candidate_id: int) -> None:
        role = Voted(candidate_id, self._election_deadline(now))
        self._change(now, role, ElectionState(self.epoch, voted_id=candidate_id))

    def become_follower(self, now: int, leader_id: int, epoch: int) -> None:
        self._change(now, Follower(leader_id, now + self.config.fetch_timeout), ElectionState(epoch, leader_id))

    def become_candidate(self, now: int, retries: int = 0) -> None:
        """KIP-595, Candidate: a new epoch, and the own vote; a lone voter has won."""
        role = Candidate(self._election_deadline(now), retries, {self.node_id})
        self._change(now, role, ElectionState(self.epoch + 1, voted_id=self.node_id))
        if elections.majority(self.log.voters.current) == 1:
            self.become_leader(now)

    def become_leader(self, now: int) -> None:
        """KIP-595, Leader: the epoch begins with a LeaderChange; the first leader of all records who votes (KIP-642, Bootstrapping)."""
        assert isinstance(self.role, Candidate)
        granting, voters = tuple(sorted(self.role.granted)), self.log.voters
        role = Leader(self.log.end_offset, now, now + self.config.check_quorum_timeout)
        role.progress = {voter: Progress() for voter in voters.current}
        role.progress.setdefault(self.node_id, Progress()).end_offset = self.flushed_offset
        self._change(now, role, ElectionState(self.epoch, leader_id=self.node_id))
        self._append_control(LeaderChange(self.node_id, voters.current, granting))
        if not self.log.voters_are_recorded:
            self._append_control(voters)

    def become_resigned(self, now: int, role: Leader) -> None:
        """KIP-595, Resigned: no leader any more, and never again in this epoch; says so to the voters and waits for one of them."""
        successors = elections.successors_of(self, role)
        self._change(now, Resigned(self._election_deadline(now), successors), self.election)

    def _change(self, now: int, role: Role, election: ElectionState) -> None:
        left, self.role = self.role, role
        if election != self.election:
            self.election = election
            if election.voted_id is None or self.protections.on(Protection.VOTE_PERSISTED):
                self._effects = [effect for effect in self._effects if not isinstance(effect, Persist)]
                self.emit(Persist(election))
        if isinstance(left, Leader):
            replication.leave(self, left)
        if not isinstance(role, Leader):
            self.tell_leader(None if election.leader_id == self.node_id else election.leader_id)

    def _append_as_leader(self, batch: Batch) -> None:
        self.log.append(batch)
        self.emit(Append(batch))
        replication.answer_parked(self)

    def _append_control(self, control: Control) -> None:
        self._append_as_leader(Batch(self.log.end_offset, self.epoch, 0, control=control))

    def _election_deadline(self, now: int) -> int:
        return now + self.random.randint(self.config.election_timeout, 2 * self.config.election_timeout)

    def _wait_for_others(self) -> int:
        """How long a voter that has just started listens before it stands itself: not at all if there is nobody to hear from, and
        shortly before the first election of all, of whose leader nobody can have heard yet."""
        if self.log.voters.current == (self.node_id,):
            return 0
        longest = self.config.election_timeout
        return self.random.randint(0, longest // 4) if self.epoch == 0 else self.random.randint(longest, 2 * longest)

    def _others(self) -> tuple[int, ...]:
        return tuple(voter for voter in self.log.voters.current if voter != self.node_id)

    # What time brings

    def _expire(self, now: int) -> None:
        self._not_before = {key: moment for key, moment in self._not_before.items() if moment > now}
        match self.role:
            case Unattached(deadline) | Voted(_, deadline) | Resigned(deadline) if now >= deadline:
                self._stand_or_wait(now)
            case Follower() as follower if now >= follower.fetch_deadline:
                self._stand_or_wait(now)
            case Candidate() as candidate:
                if candidate.backoff_until is not None and now >= candidate.backoff_until:
                    self.become_candidate(now, candidate.retries + 1)
                elif candidate.backoff_until is None and now >= candidate.election_deadline:
                    candidate.backoff_until = now + elections.election_backoff(self, candidate.retries)
            case Leader() as leader:
                replication.expire_parked(self, now, leader)
                if elections.has_lost_quorum(self, now, leader):
                    self.become_resigned(now, leader)
                elif now >= leader.quorum_deadline:
                    leader.quorum_deadline = now + self.config.check_quorum_timeout

    def _stand_or_wait(self, now: int) -> None:
        """A voter stands for election; an observer looks for the leader."""
        if self.is_voter:
            self.become_candidate(now)
        elif isinstance(self.role, Unattached):
            self.role.election_deadline = self._election_deadline(now)
        else:
            self.become_unattached(now, self.epoch)

    def _send(self) -> None:
        """KIP-595: requests are repeated until they have been answered; one of a kind to each peer at a time."""
        match self.role:
            case Candidate() as role if role.backoff_until is None:
                vote = VoteRequest(
                    self.config.cluster_id, self.epoch, self.node_id, self.log.last_epoch, self.log.end_offset
                )
                for peer in self._others():
                    if peer not in role.granted and peer not in role.rejected:
                        self._ask(peer, vote)
            case Leader() as role:
                begin = BeginQuorumEpochRequest(self.config.cluster_id, self.epoch, self.node_id)
                for peer in self._others():
                    if peer not in role.acknowledged:
                        self._ask(peer, begin)
            case Resigned() as role:
                end = EndQuorumEpochRequest(self.config.cluster_id, self.epoch, self.node_id, role.preferred_successors)
                for peer in self._others():
                    if peer not in role.acknowledged and self.leader_id == self.node_id:
                        self._ask(peer, end)
            case Follower() as role:
                self._ask(role.leader_id, replication.next_request(self, role))
            case Unattached() if not self.is_voter and not self._looks_for_leader():
                self._ask(self.random.choice(self._others()), replication.fetch_request(self))

    def _looks_for_leader(self) -> bool:
        return any(kind is FetchRequest for _, kind in (*self._in_flight, *self._not_before))

    def _ask(self, peer: int, request: Request) -> None:
        key = (peer, type(request))
        if key not in self._in_flight and key not in self._not_before:
            self._in_flight[key] = request
            self.emit(Send(peer, request))

    def back_off(self, now: int, peer: int, kind: type) -> None:
        """Do not ask this peer again at once."""
        self._not_before[peer, kind] = now + self.config.retry_backoff
