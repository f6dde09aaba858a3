"""How a generation of a group begins: wait for all members to join, choose leader and protocol, wait for the leader's assignment.

    begin           somebody came, went, or wants something else       Stable, CompletingRebalance, Empty -> PreparingRebalance
    go_on_if_ready  all have joined (KIP-134: and the first have waited for others to come)
    complete        answers every JoinGroup                            -> CompletingRebalance, or Empty if nobody is left
    assigned        the leader's assignment is in the log              -> Stable; answers every SyncGroup

Only the leader's assignment makes a generation count: it is written with the members, and a SyncGroup is answered from what is in the log
(KIP-98 era's GroupMetadataManager.storeGroup). So after a failover no two members believe in assignments of different origin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from nodes.reference.coordinator.effects import NEVER, Answer, Effect, Writes, is_in_the_log, of_the_log
from nodes.reference.coordinator.groups import records
from nodes.reference.coordinator.groups.group import Group, GroupState, Member
from nodes.reference.coordinator.groups.requests import Joined, Synced
from nodes.reference.coordinator.groups.settings import GroupSettings
from nodes.reference.environment import MILLISECOND

_REBALANCING: Final = frozenset({GroupState.STABLE, GroupState.COMPLETING, GroupState.EMPTY})

Wall = Callable[[], int]  # ms since 1970


class Rebalance:
    """Acts on groups; keeps nothing of its own."""

    def __init__(self, settings: GroupSettings, writes: Writes, wall: Wall) -> None:
        self._settings = settings
        self._writes = writes
        self._wall = wall

    def begin(self, group: Group, now: int) -> list[Effect]:
        """Nothing if one is under way already."""
        if group.state not in _REBALANCING:
            return []
        effects = self._propagate(group, ErrorCode.rebalance_in_progress, now)
        group.sync_deadline = NEVER
        if group.state is GroupState.EMPTY:
            delay = self._settings.group_initial_rebalance_delay_ms * MILLISECOND
            group.join_deadline = now + delay
            group.delay_left = max(group.rebalance_timeout * MILLISECOND - delay, 0)
            group.grew = False
        else:
            group.join_deadline = now + group.rebalance_timeout * MILLISECOND
        group.state = GroupState.PREPARING
        return effects

    def go_on_if_ready(self, group: Group, now: int) -> list[Effect]:
        if group.state is not GroupState.PREPARING:
            return []
        if group.delay_left is not None:
            return self._initial_delay(group, now)
        if group.all_have_joined or group.join_deadline <= now:
            return self.complete(group, now)
        return []

    def _initial_delay(self, group: Group, now: int) -> list[Effect]:
        """KIP-134: the first generation of a group waits for more members to come, anew whenever some came, up to the rebalance timeout."""
        assert group.delay_left is not None
        if group.join_deadline > now:
            return []
        if group.grew and group.delay_left > 0:
            delay = min(self._settings.group_initial_rebalance_delay_ms * MILLISECOND, group.delay_left)
            group.delay_left -= delay
            group.join_deadline = now + delay
            group.grew = False
            return []
        return self.complete(group, now)

    def complete(self, group: Group, now: int) -> list[Effect]:
        """Who has not joined is out, but for static members (KIP-345): they may be restarting, and have until their session ends."""
        for member in [*group.members.values()]:
            if member.joining is None and member.instance_id is None:
                group.remove(member.member_id)
        if group.members and not group.elect_joined_leader():
            group.join_deadline = now + group.rebalance_timeout * MILLISECOND
            return []
        group.next_generation(self._wall())
        if group.state is GroupState.EMPTY:
            return [self._writes.begin(records.of_group(group, {}), lambda error, position, now: [])]
        group.sync_deadline = now + group.rebalance_timeout * MILLISECOND
        effects: list[Effect] = []
        for member in group.members.values():
            group.unsynced.add(member.member_id)
            effects += answer_join(member, group.joined(member), now)
        return effects

    def assign(self, group: Group, assignments: Mapping[str, bytes]) -> list[Effect]:
        """The leader's SyncGroup: in the log first, then everybody is told."""
        generation = group.generation
        assigned = {member_id: assignments.get(member_id, b"") for member_id in group.members}

        def written(error: ErrorCode, position: int, now: int) -> list[Effect]:
            if group.state is not GroupState.COMPLETING or group.generation != generation:
                return []  # a newer rebalance has told them
            if not is_in_the_log(error):
                return self._propagate(group, of_the_log(error), now) + self.begin(group, now)
            for member in group.members.values():
                member.assignment = assigned.get(member.member_id, b"")
            group.state = GroupState.STABLE
            return self._propagate(group, ErrorCode.none, now)

        return [self._writes.begin(records.of_group(group, assigned), written)]

    def remove(self, group: Group, member: Member, now: int) -> list[Effect]:
        """Left, or its session is over."""
        effects = [
            *answer_join(member, Joined(ErrorCode.unknown_member_id), now),
            *answer_sync(member, Synced(ErrorCode.unknown_member_id), now),
        ]
        group.remove(member.member_id)
        return effects + self.begin(group, now) + self.go_on_if_ready(group, now)

    def tick(self, group: Group, now: int) -> list[Effect]:
        effects: list[Effect] = []
        for member_id in [id for id, deadline in group.pending.items() if deadline <= now]:
            del group.pending[member_id]
        for member in [*group.members.values()]:
            if member.deadline <= now and member.member_id in group.members:  # or it went with one before it
                effects += self.remove(group, member, now)
        effects += self.go_on_if_ready(group, now)
        if group.sync_deadline <= now:
            effects += self._give_up_unsynced(group, now)
        return effects

    def _give_up_unsynced(self, group: Group, now: int) -> list[Effect]:
        """KAFKA-13063: a member that has the generation but never asks for its assignment would keep its partitions from being read."""
        group.sync_deadline = NEVER
        effects: list[Effect] = []
        for member_id in [*group.members]:
            if member_id in group.unsynced:
                effects += self.remove(group, group.members[member_id], now)
        return effects

    def _propagate(self, group: Group, error: ErrorCode, now: int) -> list[Effect]:
        """Answer every SyncGroup that waits."""
        effects: list[Effect] = []
        for member in group.members.values():
            said = (
                Synced(error, group.protocol_type, group.protocol, member.assignment)
                if error is ErrorCode.none
                else Synced(error)
            )
            effects += answer_sync(member, said, now)
        return effects


def answer_join(member: Member, said: Joined, now: int) -> list[Effect]:
    if member.joining is None:
        return []
    ticket, member.joining = member.joining, None
    alive(member, now)
    return [Answer(ticket, said)]


def answer_sync(member: Member, said: Synced, now: int) -> list[Effect]:
    if member.syncing is None:
        return []
    ticket, member.syncing = member.syncing, None
    alive(member, now)
    return [Answer(ticket, said)]


def alive(member: Member, now: int) -> None:
    """It has been heard of; while it waits for others, no silence counts."""
    waits = member.joining is not None or member.syncing is not None
    member.deadline = NEVER if waits else now + member.session_timeout * MILLISECOND
