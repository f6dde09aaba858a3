"""One classic consumer group in memory: its members, its state, and what may be said of them. Rules that act are in membership.py.

    Empty ──join──> PreparingRebalance ──all have joined──> CompletingRebalance ──the leader's assignment is in the log──> Stable
      ^                   ^    |                                  |                                                          |
      └──nobody is left───┼────┘      <──────join, leave, crash───┴──────────────────────────────────────────────────────────┘
                          Dead: deleted

A member is alive until its deadline; one whose JoinGroup or SyncGroup waits for others has none. A deadline is in ns of the broker's own
clock, a timeout in ms; what the next coordinator must understand, too, is in ms since 1970 ("wall").
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from kio.schema.errors import ErrorCode

from nodes.reference.coordinator.effects import NEVER, Ticket
from nodes.reference.coordinator.groups.offsets import Offsets
from nodes.reference.coordinator.groups.requests import Join, Joined, JoinedMember

NOT_KNOWN: Final = -1


class GroupState(enum.Enum):
    """As Kafka spells them in DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True, kw_only=True)
class Member:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout: int
    session_timeout: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""
    joining: Ticket | None = None  # its JoinGroup that waits
    syncing: Ticket | None = None
    deadline: int = NEVER

    @classmethod
    def of(cls, member_id: str, join: Join) -> Member:
        return cls(
            member_id=member_id,
            instance_id=join.instance_id,
            client_id=join.client_id,
            client_host=join.client_host,
            rebalance_timeout=join.rebalance_timeout,
            session_timeout=join.session_timeout,
            protocols=join.protocols,
        )

    def metadata(self, protocol: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")


@dataclass(slots=True)
class Group:
    group_id: str
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)  # in the order in which they joined
    pending: dict[str, int] = field(default_factory=dict)  # KIP-394: ids given away -> until when
    unsynced: set[str] = field(default_factory=set)  # have the generation, have not asked for their assignment
    join_deadline: int = NEVER  # when the rebalance goes on without those that have not joined
    delay_left: int | None = None  # ns; KIP-134: of the initial delay, while in it
    grew: bool = False  # since the initial delay began or was prolonged
    sync_deadline: int = NEVER
    offsets: Offsets = field(default_factory=Offsets)
    since: int = NOT_KNOWN  # ms since 1970: when it came to the newest state that is in the log

    @property
    def rebalance_timeout(self) -> int:
        """KIP-62: of the slowest member."""
        return max((member.rebalance_timeout for member in self.members.values()), default=0)

    @property
    def in_the_log(self) -> bool:
        """Has the log anything of it: a generation, or an offset?"""
        return self.generation > 0 or bool(self.offsets.partitions)

    @property
    def all_have_joined(self) -> bool:
        return not self.pending and all(member.joining is not None for member in self.members.values())

    def deadlines(self) -> Iterator[int]:
        yield from (member.deadline for member in self.members.values())
        yield from self.pending.values()
        yield self.join_deadline
        yield self.sync_deadline

    def static_member(self, instance_id: str) -> Member | None:
        """KIP-345: the member that is this instance now."""
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """May somebody with these protocols become a member? All members need one in common."""
        names = set(protocols)
        if not self.members:
            return bool(protocol_type) and bool(names)
        return protocol_type == self.protocol_type and bool(names & self.common_protocols())

    def common_protocols(self) -> set[str]:
        return set.intersection(*({name for name, _ in member.protocols} for member in self.members.values()))

    def select_protocol(self) -> str:
        """Each member votes for the first of its protocols that all have; of several with as many votes the one that was named first."""
        common = self.common_protocols()
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = next(name for name, _ in member.protocols if name in common)
            votes[vote] = votes.get(vote, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.pending.pop(member.member_id, None)
        self.members[member.member_id] = member
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> Member:
        member = self.members.pop(member_id)
        self.unsynced.discard(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def replace_static(self, old: Member, member_id: str) -> Member:
        """KIP-345: the instance came back; it keeps its place, its assignment, and the lead if it had it."""
        del self.members[old.member_id]
        member = Member(
            member_id=member_id,
            instance_id=old.instance_id,
            client_id=old.client_id,
            client_host=old.client_host,
            rebalance_timeout=old.rebalance_timeout,
            session_timeout=old.session_timeout,
            protocols=old.protocols,
            assignment=old.assignment,
        )
        self.members[member_id] = member
        if old.member_id in self.unsynced:
            self.unsynced.discard(old.member_id)
            self.unsynced.add(member_id)
        if self.leader == old.member_id:
            self.leader = member_id
        return member

    def elect_joined_leader(self) -> bool:
        """The leader stays if it has joined again, else one that has takes its place; False if none has (all are static, and away)."""
        joined = [id for id, member in self.members.items() if member.joining is not None]
        if self.leader not in joined and joined:
            self.leader = joined[0]
        return bool(joined)

    def next_generation(self, wall: int) -> None:
        self.generation += 1
        self.since = wall
        self.join_deadline, self.delay_left = NEVER, None
        self.unsynced.clear()
        if self.members:
            self.protocol = self.select_protocol()
            self.state = GroupState.COMPLETING
        else:
            self.protocol = None
            self.state = GroupState.EMPTY

    def joined(self, member: Member, *, leader: str | None = None, skip_assignment: bool = False) -> Joined:
        """What a member of the current generation is told."""
        leader = self.leader or "" if leader is None else leader
        members = tuple(
            JoinedMember(other.member_id, other.instance_id, other.metadata(self.protocol))
            for other in self.members.values()
        )
        return Joined(
            error=ErrorCode.none,
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=leader,
            members=members if leader == member.member_id else (),
            skip_assignment=skip_assignment,
        )
