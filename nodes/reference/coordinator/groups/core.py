"""The groups of one partition of `__consumer_offsets`, in one leader epoch of it: a pure state machine.

    groups = GroupCoordinator(GroupSettings(), ALL_ON, new_id, wall)
    groups.load(content)                         # what the log has, in as many pieces as it comes
    groups.loaded(now)                           # sessions begin anew
    groups.join("ticket", Join(group="g", ...), now)
        [Answer("ticket", Joined(MEMBER_ID_REQUIRED, "c-5f0"))]
    groups.commit("ticket", Commit(group="g", offsets={TopicPartition("t", 0): Offset(120)}), now)
        [Write(1, (KeyedRecord(...),))]
    groups.written(1, ErrorCode.none, 7, now)
        [Answer("ticket", {TopicPartition("t", 0): none})]

What is acknowledged is committed in the log, so the next leader of the partition loads it; what has not been committed counts for nobody.
When the broker stops leading, `give_up` answers all that wait, and this object goes. COORDINATOR_LOAD_IN_PROGRESS and NOT_COORDINATOR are
the shell's to say (shards.py). Where the rules are: membership.py and rebalance.py (JoinGroup and its kin), commits.py (offsets), expiry.py
(what is forgotten).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kio.schema.errors import ErrorCode

from nodes.reference.coordinator.effects import NEVER, Answer, Effect, Ticket, Writes, is_in_the_log, of_the_log
from nodes.reference.coordinator.groups import expiry, records
from nodes.reference.coordinator.groups.commits import Commits, Then
from nodes.reference.coordinator.groups.group import Group, GroupState
from nodes.reference.coordinator.groups.membership import Membership, NewId
from nodes.reference.coordinator.groups.rebalance import Wall, alive
from nodes.reference.coordinator.groups.requests import (
    NO_GENERATION,
    NOTHING_COMMITTED,
    UNKNOWN_MEMBER,
    Commit,
    DeletedOffsets,
    Described,
    DescribedMember,
    Fetched,
    Heartbeat,
    Join,
    Joined,
    Leaving,
    Left,
    Sync,
    Synced,
    TopicPartition,
    TransactionalCommit,
)
from nodes.reference.coordinator.groups.settings import GroupSettings
from nodes.reference.environment import MILLISECOND
from nodes.reference.log.batch import Marker
from nodes.reference.log.keyed import KeyedBatch, decode
from nodes.reference.protections import Protections


class GroupCoordinator:
    def __init__(self, settings: GroupSettings, protections: Protections, new_id: NewId, wall: Wall) -> None:
        """wall: ms since 1970, for what the next coordinator must understand, too."""
        self._settings = settings
        self._protections = protections
        self._writes = Writes()
        self._membership = Membership(settings, protections, self._writes, new_id, wall)
        self.groups: dict[str, Group] = {}
        self._commits = Commits(settings, protections, self._writes, self._membership)
        self._wall = wall
        self._look_for_expired_at = NEVER

    # Loading

    def load(self, content: bytes) -> None:
        """The next batches of the log. Undecodable, BatchRefused: nobody can coordinate from this log."""
        for batch in decode(content):
            if batch.end is not None:
                self.transaction_ended(batch.header.producer_id, commit=batch.end.marker is Marker.COMMIT)
            elif not batch.header.control:
                self._load_records(batch)

    def loaded(self, now: int) -> list[Effect]:
        """Members have a whole session to be heard of again. Of a group that had only offsets, and has them no more, nothing is left."""
        for group in [*self.groups.values()]:
            if not group.in_the_log:
                del self.groups[group.group_id]
        self._look_for_expired_at = self._next_look(now)
        for group in self.groups.values():
            for member in group.members.values():
                alive(member, now)
        return []

    # Requests of members

    def join(self, ticket: Ticket, request: Join, now: int) -> list[Effect]:
        if not request.group:
            return [Answer(ticket, Joined(ErrorCode.invalid_group_id))]
        group = self.groups.get(request.group)
        if group is None:
            if request.member_id != UNKNOWN_MEMBER:
                return [Answer(ticket, Joined(ErrorCode.unknown_member_id))]
            group = Group(request.group)
            self.groups[request.group] = group
        return self._membership.join(group, ticket, request, now)

    def sync(self, ticket: Ticket, request: Sync, now: int) -> list[Effect]:
        group = self.groups.get(request.group)
        if group is None:
            return [Answer(ticket, Synced(_no_group(request.group)))]
        return self._membership.sync(group, ticket, request, now)

    def heartbeat(self, request: Heartbeat, now: int) -> ErrorCode:
        group = self.groups.get(request.group)
        return _no_group(request.group) if group is None else self._membership.heartbeat(group, request, now)

    def leave(self, ticket: Ticket, group_id: str, members: tuple[Leaving, ...], now: int) -> list[Effect]:
        group = self.groups.get(group_id)
        if group is None:
            refused = tuple((member, ErrorCode.unknown_member_id) for member in members)
            return [Answer(ticket, Left(ErrorCode.none if group_id else ErrorCode.invalid_group_id, refused))]
        return self._membership.leave(group, ticket, members, now)

    # Offsets

    def commit(self, ticket: Ticket, request: Commit, now: int) -> list[Effect]:
        """OffsetCommit. Who manages partitions without a group's help may commit for one that does not exist yet."""
        group, error = self._group_for_commit(request)
        if group is None:
            return [Answer(ticket, dict.fromkeys(request.offsets, error))]
        return self._commits.commit(group, ticket, request, now)

    def transactional_commit(self, ticket: Ticket, request: TransactionalCommit, now: int) -> list[Effect]:
        """TxnOffsetCommit."""
        group, error = self._group_for_commit(request.commit)
        if group is None:
            return [Answer(ticket, dict.fromkeys(request.commit.offsets, error))]
        return self._commits.transactional_commit(group, ticket, request, now)

    def transaction_ended(self, producer_id: int, *, commit: bool) -> None:
        """The marker of a transaction is committed in this partition's log."""
        for group in self.groups.values():
            group.offsets.end_transaction(producer_id, commit=commit)

    def fetch(self, group_id: str, partitions: Collection[TopicPartition] | None, *, stable: bool = False) -> Fetched:
        """OffsetFetch. partitions: None for all that have an offset; stable: KIP-447, require.stable."""
        group = self.groups.get(group_id)
        if group is None or group.state is GroupState.DEAD:
            return Fetched(ErrorCode.none, dict.fromkeys(partitions or (), NOTHING_COMMITTED))
        return self._commits.fetch(group, partitions, stable=stable)

    def delete_offsets(self, ticket: Ticket, group_id: str, partitions: Iterable[TopicPartition]) -> list[Effect]:
        """OffsetDelete (KIP-496)."""
        group = self.groups.get(group_id)
        if group is None or group.state is GroupState.DEAD:
            error = ErrorCode.group_id_not_found if group_id else ErrorCode.invalid_group_id
            return [Answer(ticket, DeletedOffsets(error))]
        return self._commits.delete(group, ticket, partitions)

    # Administration

    def describe(self, group_id: str) -> Described:
        group = self.groups.get(group_id)
        if group is None:
            return Described(group_id, GroupState.DEAD.value)
        settled = group.state is GroupState.STABLE
        members = tuple(
            DescribedMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(group.protocol) if settled else b"",
                member.assignment if settled else b"",
            )
            for member in group.members.values()
        )
        protocol = (group.protocol or "") if settled else ""
        return Described(group_id, group.state.value, group.protocol_type or "", protocol, members)

    def describe_all(self) -> list[Described]:
        """Without members."""
        return [Described(id, group.state.value, group.protocol_type or "") for id, group in self.groups.items()]

    def delete(self, ticket: Ticket, group_id: str) -> list[Effect]:
        """DeleteGroups: answered with an ErrorCode when the group is gone from the log."""
        group = self.groups.get(group_id)
        if group is None or group.state is GroupState.DEAD:
            return [Answer(ticket, ErrorCode.group_id_not_found if group_id else ErrorCode.invalid_group_id)]
        if group.state is not GroupState.EMPTY or group.offsets.writes:
            return [Answer(ticket, ErrorCode.non_empty_group)]
        return self._bury(group, lambda error: [Answer(ticket, error)])

    # The log, time, the end

    def written(self, token: int, error: ErrorCode, base_offset: int, now: int) -> list[Effect]:
        return self._writes.done(token, error, base_offset, now)

    @property
    def next_deadline(self) -> int:
        deadlines = (deadline for group in self.groups.values() for deadline in group.deadlines())
        return min(min(deadlines, default=NEVER), self._commits.next_deadline, self._look_for_expired_at)

    def tick(self, now: int) -> list[Effect]:
        effects: list[Effect] = []
        for group in [group for group in self.groups.values() if min(group.deadlines()) <= now]:
            effects += self._membership.rebalance.tick(group, now)
        effects += self._commits.tick(now)
        if self._look_for_expired_at <= now:
            self._look_for_expired_at = self._next_look(now)
            for group in [*self.groups.values()]:
                effects += self._expire(group)
        return effects

    def give_up(self) -> list[Effect]:
        """This broker does not lead the partition any more: whoever waits has to find the new coordinator."""
        effects: list[Effect] = self._commits.give_up()
        for group in self.groups.values():
            for member in group.members.values():
                if member.joining is not None:
                    effects.append(Answer(member.joining, Joined(ErrorCode.not_coordinator)))
                if member.syncing is not None:
                    effects.append(Answer(member.syncing, Synced(ErrorCode.not_coordinator)))
                member.joining = member.syncing = None
        return effects

    # Parts of the above

    def _next_look(self, now: int) -> int:
        return now + self._settings.offsets_retention_check_interval_ms * MILLISECOND

    def _expire(self, group: Group) -> list[Effect]:
        """KIP-211: what expiry.py says. If it cannot be written, it is tried again at the next look."""
        doomed = expiry.expired(group, self._wall(), self._settings.offsets_retention_minutes * 60_000)
        if expiry.may_go(group, without=doomed):
            return self._bury(group, lambda error: [])
        return self._commits.forget(group, doomed, lambda error: []) if doomed else []

    def _bury(self, group: Group, then: Then) -> list[Effect]:
        """The group with all that it has; while its tombstones are on their way, it is dead to everybody."""
        if not group.in_the_log:
            del self.groups[group.group_id]
            return then(ErrorCode.none)
        group.state = GroupState.DEAD

        def written(error: ErrorCode, position: int, now: int) -> list[Effect]:
            if not is_in_the_log(error):
                group.state = GroupState.EMPTY
                return then(of_the_log(error))
            del self.groups[group.group_id]
            return then(ErrorCode.none)

        tombstones = records.of_deleted_offsets(group.group_id, sorted(group.offsets.partitions))
        return [self._writes.begin((*tombstones, records.of_deleted_group(group.group_id)), written)]

    def _load_records(self, batch: KeyedBatch) -> None:
        for record in batch.records:
            found = records.read(record)
            match found:
                case records.GroupRead(group_id, None):
                    self.groups.pop(group_id, None)
                case records.GroupRead(group_id, group) if group is not None:
                    known = self.groups.get(group_id)
                    group.offsets = group.offsets if known is None else known.offsets
                    self.groups[group_id] = group
                case records.OffsetRead(group_id, partition, None):
                    if group_id in self.groups:
                        self.groups[group_id].offsets.forget([partition])
                case records.OffsetRead(group_id, partition, offset) if offset is not None:
                    offsets = self.groups.setdefault(group_id, Group(group_id)).offsets
                    if batch.header.transactional:
                        offsets.commit_in_transaction(
                            batch.header.producer_id, {partition: offset}, batch.header.base_offset
                        )
                    else:
                        offsets.commit({partition: offset}, batch.header.base_offset)

    def _group_for_commit(self, request: Commit) -> tuple[Group | None, ErrorCode]:
        if not request.group:
            return None, ErrorCode.invalid_group_id
        group = self.groups.get(request.group)
        if group is None and request.generation != NO_GENERATION:
            return None, ErrorCode.illegal_generation
        return self.groups.setdefault(request.group, group or Group(request.group)), ErrorCode.none


def _no_group(group_id: str) -> ErrorCode:
    return ErrorCode.unknown_member_id if group_id else ErrorCode.invalid_group_id
