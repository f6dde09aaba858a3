"""A groups' coordinator with its log, a clock that stands still unless it is told, and short words for what members ask."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference.coordinator.effects import Answer, Effect, Write
from nodes.reference.coordinator.groups.core import GroupCoordinator
from nodes.reference.coordinator.groups.group import Group
from nodes.reference.coordinator.groups.requests import (
    Commit,
    FetchedOffset,
    Heartbeat,
    Join,
    Joined,
    Leaving,
    Left,
    Offset,
    Sync,
    Synced,
    TopicPartition,
    TransactionalCommit,
)
from nodes.reference.coordinator.groups.settings import GroupSettings
from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.protections import ALL_ON, Protections
from tests.nodes.reference.coordinator.ledger import Ledger

SESSION = 10_000
REBALANCE = 60_000
PARTITION = TopicPartition("t", 0)
DELAY = 100
QUICK = GroupSettings(group_initial_rebalance_delay_ms=DELAY)


class GroupStage:
    """writes: whether what is written is committed at once."""

    def __init__(
        self, settings: GroupSettings = QUICK, protections: Protections = ALL_ON, *, writes: bool = True
    ) -> None:
        self.now = SECOND
        self.settings, self.protections = settings, protections
        self.commits_at_once = writes
        self.ledger = Ledger()
        self.waiting: list[Write] = []
        self.answers: dict[object, Any] = {}
        self._ids = count(1)
        self._tickets = count(1)
        self.coordinator = self._new()

    def _new(self) -> GroupCoordinator:
        return GroupCoordinator(self.settings, self.protections, lambda: f"id{next(self._ids)}", self.wall)

    def wall(self) -> int:
        """The wall clock shows the same time as the other one."""
        return self.now // MILLISECOND

    def group(self, name: str = "g") -> Group:
        return self.coordinator.groups[name]

    # What happens

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                assert effect.ticket not in self.answers, "answered twice"
                self.answers[effect.ticket] = effect.said
            elif isinstance(effect, Write):
                self.waiting.append(effect)
        if self.commits_at_once:
            self.write()

    def write(self, error: ErrorCode = ErrorCode.none) -> None:
        """What waits for the log is in it now, or it is not because of an error."""
        while self.waiting:
            write = self.waiting.pop(0)
            position = self.ledger.append(write) if error is ErrorCode.none else -1
            self.take(self.coordinator.written(write.token, error, position, self.now))

    def fail_over(self, batches: int | None = None) -> None:
        """Another broker leads, and finds so many batches (None: all)."""
        self.take(self.coordinator.give_up())
        self.waiting.clear()
        del self.ledger.batches[batches if batches is not None else len(self.ledger.batches) :]
        self.coordinator = self._new()
        self.coordinator.load(self.ledger.content())
        self.coordinator.loaded(self.now)

    def pass_ms(self, milliseconds: int) -> None:
        self.now += milliseconds * MILLISECOND
        self.take(self.coordinator.tick(self.now))

    def ticket(self) -> int:
        return next(self._tickets)

    # What members ask; those that may wait return a ticket

    def joining(self, member_id: str = "", **more: Any) -> int:
        ticket = self.ticket()
        request: dict[str, Any] = {
            "group": "g",
            "client_id": "c",
            "session_timeout": SESSION,
            "rebalance_timeout": REBALANCE,
            "protocol_type": "consumer",
            "protocols": (("range", b"r"),),
        }
        request.update(more)
        self.take(self.coordinator.join(ticket, Join(member_id=member_id, **request), self.now))
        return ticket

    def join(self, member_id: str = "", **more: Any) -> Joined:
        """Answered at once, or when the first generation has waited for others."""
        ticket = self.joining(member_id, **more)
        if ticket not in self.answers:
            self.pass_ms(self.settings.group_initial_rebalance_delay_ms)
        said = self.answers[ticket]
        assert isinstance(said, Joined)
        return said

    def syncing(
        self, member_id: str, generation: int, assignments: Mapping[str, bytes] | None = None, **more: Any
    ) -> int:
        ticket = self.ticket()
        request = Sync(group="g", generation=generation, member_id=member_id, assignments=assignments or {}, **more)
        self.take(self.coordinator.sync(ticket, request, self.now))
        return ticket

    def sync(self, *arguments: Any, **more: Any) -> Synced:
        said = self.answers[self.syncing(*arguments, **more)]
        assert isinstance(said, Synced)
        return said

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode:
        request = Heartbeat(group="g", generation=generation, member_id=member_id, instance_id=instance_id)
        return self.coordinator.heartbeat(request, self.now)

    def leave(self, *members: Leaving, group: str = "g") -> Left:
        ticket = self.ticket()
        self.take(self.coordinator.leave(ticket, group, members, self.now))
        said = self.answers[ticket]
        assert isinstance(said, Left)
        return said

    def committing(self, offset: int, metadata: str = "", **more: Any) -> int:
        ticket = self.ticket()
        committed = Offset(offset, metadata=metadata, timestamp=self.wall())
        offsets = {more.pop("partition", PARTITION): committed}
        commit = Commit(group=more.pop("group", "g"), offsets=offsets, **more)
        self.take(self.coordinator.commit(ticket, commit, self.now))
        return ticket

    def commit(self, offset: int, metadata: str = "", **more: Any) -> ErrorCode:
        return self.error(self.committing(offset, metadata, **more))

    def error(self, ticket: int) -> ErrorCode:
        said: ErrorCode = self.answers[ticket][PARTITION]
        return said

    def commit_in_transaction(self, offset: int, producer_id: int = 7, **more: Any) -> int:
        ticket = self.ticket()
        commit = Commit(group="g", offsets={PARTITION: Offset(offset)}, **more)
        request = TransactionalCommit(commit=commit, producer_id=producer_id, producer_epoch=0)
        self.take(self.coordinator.transactional_commit(ticket, request, self.now))
        return ticket

    def end_transaction(self, producer_id: int = 7, *, commit: bool) -> None:
        self.ledger.mark(producer_id, 0, commit=commit)
        self.coordinator.transaction_ended(producer_id, commit=commit)

    def fetched(self, *, stable: bool = False, group: str = "g") -> FetchedOffset:
        return self.coordinator.fetch(group, [PARTITION], stable=stable).offsets[PARTITION]

    def offset(self) -> int:
        fetched = self.fetched()
        assert fetched.error is ErrorCode.none
        return fetched.offset.offset

    # Whole groups

    def joined(self, members: int) -> list[str]:
        """So many members that know generation 1 and wait for their assignment; the first leads."""
        ids = [self.member() for _ in range(members)]
        for member_id in ids:
            self.joining(member_id)
        for _ in range(2):
            self.pass_ms(self.settings.group_initial_rebalance_delay_ms)
        return ids

    def member(self, **more: Any) -> str:
        """Joins by KIP-394; the group of this one and no other."""
        first = self.join(member_id_required=True, **more)
        assert first.error is ErrorCode.member_id_required
        return first.member_id

    def stable(self, members: int = 1, **more: Any) -> list[str]:
        """So many members in generation 1, each assigned its own id; the first leads."""
        ids = [self.member(**more) for _ in range(members)]
        tickets = [self.joining(member_id, **more) for member_id in ids]
        for _ in range(2):  # the delay is prolonged when several come
            self.pass_ms(self.settings.group_initial_rebalance_delay_ms)
        said = [self.answers[ticket] for ticket in tickets]
        assert {joined.generation for joined in said} == {self.group().generation}
        assignments = {member_id: member_id.encode() for member_id in ids}
        synced = [
            self.syncing(joined.member_id, joined.generation, assignments if joined.members else None)
            for joined in reversed(said)
        ]
        assert {self.answers[ticket].error for ticket in synced} == {ErrorCode.none}
        return ids
