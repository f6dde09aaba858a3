"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: who is a member, and what each state of the group answers (Kafka's GroupCoordinator).

A method takes one request and returns effects. Heartbeats answer directly. Errors and their order are those of Kafka 3.9's classic groups.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kio.schema.errors import ErrorCode

from nodes.reference.coordinator.effects import Answer, Effect, Ticket, Writes, is_in_the_log, of_the_log
from nodes.reference.coordinator.groups import records
from nodes.reference.coordinator.groups.group import Group, GroupState, Member
from nodes.reference.coordinator.groups.rebalance import Rebalance, Wall, alive, answer_join, answer_sync
from nodes.reference.coordinator.groups.requests import (
    UNKNOWN_MEMBER,
    Heartbeat,
    Join,
    Joined,
    Leaving,
    Left,
    Sync,
    Synced,
)
from nodes.reference.coordinator.groups.settings import GroupSettings
from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.protections import Protection, Protections

_NEW_MEMBER_PATIENCE: Final = (
    300 * SECOND
)  # a new member that waits for a generation may be gone: nothing else would end it
NewId = Callable[[], str]


class Membership:
    """Acts on groups; keeps nothing of its own. new_id: makes up ids that nobody else has."""

    def __init__(
        self, settings: GroupSettings, protections: Protections, writes: Writes, new_id: NewId, wall: Wall
    ) -> None:
        self._settings = settings
        self._protections = protections
        self._writes = writes
        self._new_id = new_id
        self.rebalance = Rebalance(settings, writes, wall)

    def join(self, group: Group, ticket: Ticket, request: Join, now: int) -> list[Effect]:
        error = self._join_error(group, request)
        if error is not ErrorCode.none:
            return [Answer(ticket, Joined(error, request.member_id))]
        if request.member_id == UNKNOWN_MEMBER:
            effects = self._join_anew(group, ticket, request, now)
        elif request.member_id in group.pending:
            effects = self._add(group, ticket, request.member_id, request, now)
        else:
            effects = self._join_again(group, ticket, request, now)
        return effects + self.rebalance.go_on_if_ready(group, now)

    def sync(self, group: Group, ticket: Ticket, request: Sync, now: int) -> list[Effect]:
        error = self._sync_error(group, request)
        if error is not ErrorCode.none:
            return [Answer(ticket, Synced(error))]
        member = group.members[request.member_id]
        group.unsynced.discard(member.member_id)
        effects = answer_sync(member, Synced(ErrorCode.rebalance_in_progress), now)  # an earlier one, that it gave up
        member.syncing = ticket
        alive(member, now)
        if group.state is GroupState.STABLE or not self._waits_for_assignment(group, member):
            said = Synced(ErrorCode.none, group.protocol_type, group.protocol, member.assignment)
            return effects + answer_sync(member, said, now)
        if group.leader == member.member_id:
            effects += self.rebalance.assign(group, request.assignments)
        return effects

    def heartbeat(self, group: Group, request: Heartbeat, now: int) -> ErrorCode:
        error = self.may_act(group, request.member_id, request.instance_id, request.generation)
        if error is not ErrorCode.none:
            return error
        if request.member_id in group.members:
            alive(group.members[request.member_id], now)
        return ErrorCode.rebalance_in_progress if group.state is GroupState.PREPARING else ErrorCode.none

    def leave(self, group: Group, ticket: Ticket, members: tuple[Leaving, ...], now: int) -> list[Effect]:
        """LeaveGroup from version 3 on names several members (KIP-345: an administrator removes static ones by their instance)."""
        if group.state is GroupState.DEAD:
            return [Answer(ticket, Left(ErrorCode.coordinator_not_available))]
        effects: list[Effect] = []
        results = []
        for leaving in members:
            error, done = self._leave(group, leaving, now)
            results.append((leaving, error))
            effects += done
        return [*effects, Answer(ticket, Left(ErrorCode.none, tuple(results)))]

    def may_act(self, group: Group, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """May this member speak for this generation, with a heartbeat or a commit? Who missed a rebalance owns nothing any more."""
        if group.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        error = self._member_error(group, member_id, instance_id)
        if error is ErrorCode.none and generation != group.generation:
            error = ErrorCode.illegal_generation
        fences = error in (ErrorCode.unknown_member_id, ErrorCode.illegal_generation)
        return ErrorCode.none if fences and not self._protections.on(Protection.GENERATION_FENCED) else error

    def _join_error(self, group: Group, request: Join) -> ErrorCode:
        shortest, longest = self._settings.group_min_session_timeout_ms, self._settings.group_max_session_timeout_ms
        if not shortest <= request.session_timeout <= longest:
            return ErrorCode.invalid_session_timeout
        if group.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        if not self._has_room(group, request.member_id):
            group.pending.pop(request.member_id, None)
            return ErrorCode.group_max_size_reached
        if not group.supports(request.protocol_type, [name for name, _ in request.protocols]):
            return ErrorCode.inconsistent_group_protocol
        if request.member_id == UNKNOWN_MEMBER or request.member_id in group.pending:
            return ErrorCode.none
        return self._member_error(group, request.member_id, request.instance_id)

    def _has_room(self, group: Group, member_id: str) -> bool:
        """`group.max.size` (KIP-389); in a rebalance only those count that have joined again."""
        if group.state is GroupState.PREPARING:
            known = group.members.get(member_id)
            joining = sum(member.joining is not None for member in group.members.values())
            return (known is not None and known.joining is not None) or joining < self._settings.group_max_size
        return member_id in group.members or len(group.members) < self._settings.group_max_size

    def _member_error(self, group: Group, member_id: str, instance_id: str | None) -> ErrorCode:
        """KIP-345, Fencing: of two processes with one group.instance.id only the one that came last is the member."""
        if instance_id is None:
            return ErrorCode.none if member_id in group.members else ErrorCode.unknown_member_id
        instance = group.static_member(instance_id)
        if instance is None:
            return ErrorCode.unknown_member_id
        if instance.member_id != member_id and self._protections.on(Protection.STATIC_MEMBER_FENCED):
            return ErrorCode.fenced_instance_id
        return ErrorCode.none

    def _join_anew(self, group: Group, ticket: Ticket, request: Join, now: int) -> list[Effect]:
        member_id = f"{request.instance_id or request.client_id}-{self._new_id()}"
        if request.instance_id is not None:
            old = group.static_member(request.instance_id)
            if old is not None:
                return self._replace_static(group, ticket, old, member_id, request, now)
        elif request.member_id_required:
            # KIP-394: a client that retries without an id would leave a member behind with each try
            group.pending[member_id] = now + request.session_timeout * MILLISECOND
            return [Answer(ticket, Joined(ErrorCode.member_id_required, member_id))]
        return self._add(group, ticket, member_id, request, now)

    def _add(self, group: Group, ticket: Ticket, member_id: str, request: Join, now: int) -> list[Effect]:
        member = Member.of(member_id, request)
        group.add(member, request.protocol_type)
        member.joining = ticket
        member.deadline = now + _NEW_MEMBER_PATIENCE
        effects = self.rebalance.begin(group, now)
        group.grew = group.delay_left is not None and group.generation == 0 and len(group.members) > 1
        return effects

    def _join_again(self, group: Group, ticket: Ticket, request: Join, now: int) -> list[Effect]:
        member = group.members.get(request.member_id)
        if member is None:  # only where a static member is not fenced
            return [Answer(ticket, Joined(ErrorCode.unknown_member_id))]
        same = member.protocols == request.protocols
        leads = group.leader == member.member_id
        if same and (group.state is GroupState.COMPLETING or (group.state is GroupState.STABLE and not leads)):
            # it did not get the answer of this generation
            effects = answer_join(member, Joined(ErrorCode.unknown_member_id), now)
            alive(member, now)
            return [*effects, Answer(ticket, group.joined(member))]
        effects = self._update(group, member, ticket, request, now)
        return effects + self.rebalance.begin(group, now)

    def _update(self, group: Group, member: Member, ticket: Ticket, request: Join, now: int) -> list[Effect]:
        effects = answer_join(member, Joined(ErrorCode.unknown_member_id), now)  # an earlier one, that it gave up
        member.protocols = request.protocols
        member.session_timeout, member.rebalance_timeout = request.session_timeout, request.rebalance_timeout
        member.client_id, member.client_host = request.client_id, request.client_host
        member.joining = ticket
        alive(member, now)
        return effects

    def _replace_static(
        self, group: Group, ticket: Ticket, old: Member, member_id: str, request: Join, now: int
    ) -> list[Effect]:
        """KIP-345: an instance that restarts takes its own place; no rebalance unless it wants another protocol."""
        leader = group.leader
        effects = [
            *answer_join(old, Joined(ErrorCode.fenced_instance_id), now),
            *answer_sync(old, Synced(ErrorCode.fenced_instance_id), now),
        ]
        member = group.replace_static(old, member_id)
        self._update(group, member, ticket, request, now)
        if group.state is GroupState.PREPARING:
            return effects
        if group.state is not GroupState.STABLE or group.select_protocol() != group.protocol:
            return effects + self.rebalance.begin(group, now)

        generation = group.generation
        assignments = {other.member_id: other.assignment for other in group.members.values()}

        def written(error: ErrorCode, position: int, now: int) -> list[Effect]:
            if group.state is not GroupState.STABLE or group.generation != generation:
                return []  # a rebalance has begun, which will answer it
            if not is_in_the_log(error):
                return answer_join(member, Joined(of_the_log(error)), now)
            leads = group.leader == member.member_id
            if request.may_skip_assignment:  # KIP-814
                return answer_join(member, group.joined(member, skip_assignment=leads), now)
            # an older client would take itself for the leader and assign: tell it the id that it had
            return answer_join(member, group.joined(member, leader=leader), now)

        return [*effects, self._writes.begin(records.of_group(group, assignments), written)]

    def _sync_error(self, group: Group, request: Sync) -> ErrorCode:
        if group.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        error = self._member_error(group, request.member_id, request.instance_id)
        if error is not ErrorCode.none:
            return error
        if request.member_id not in group.members:  # only where a static member is not fenced
            return ErrorCode.unknown_member_id
        if request.generation != group.generation:
            return ErrorCode.illegal_generation
        if request.protocol_type not in (None, group.protocol_type) or request.protocol not in (None, group.protocol):
            return ErrorCode.inconsistent_group_protocol
        return ErrorCode.rebalance_in_progress if group.state is GroupState.PREPARING else ErrorCode.none

    def _waits_for_assignment(self, group: Group, member: Member) -> bool:
        """A follower's SyncGroup waits for the leader's: what the member has until then is of an earlier generation."""
        return group.leader == member.member_id or self._protections.on(Protection.SYNC_WAITS_FOR_ASSIGNMENT)

    def _leave(self, group: Group, leaving: Leaving, now: int) -> tuple[ErrorCode, list[Effect]]:
        if leaving.instance_id is None and leaving.member_id in group.pending:
            del group.pending[leaving.member_id]
            return ErrorCode.none, self.rebalance.go_on_if_ready(group, now)
        if leaving.instance_id is not None and leaving.member_id == UNKNOWN_MEMBER:
            member = group.static_member(leaving.instance_id)
            error = ErrorCode.unknown_member_id if member is None else ErrorCode.none
        else:
            error = self._member_error(group, leaving.member_id, leaving.instance_id)
            member = group.members.get(leaving.member_id)
        if error is not ErrorCode.none or member is None:
            return error, []
        return ErrorCode.none, self.rebalance.remove(group, member, now)
