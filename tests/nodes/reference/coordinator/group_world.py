"""Consumers in a group, their coordinator and its failovers: driven by bytes, so that Hypothesis can make schedules and a seed many.

Every consumer assigns eagerly: it gives up what it owns before it joins again, so two never own a partition in one generation unless
somebody told them so. What has to hold is asserted wherever it could break; `Violation` says what did.

    GroupWorld(random.Random(7).randbytes(300), Protections()).run()
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference.coordinator.groups.requests import Leaving
from nodes.reference.protections import Protections
from tests.nodes.reference.coordinator.group_stage import GroupStage

PARTITIONS = (0, 1, 2)


class Violation(AssertionError):
    pass


@dataclass
class Consumer:
    """joining, syncing: tickets of what it waits for. owns: None while it has no assignment."""

    member_id: str = ""
    generation: int = -1
    members: tuple[str, ...] = ()  # where it leads
    joining: int | None = None
    syncing: int | None = None
    owns: tuple[int, ...] | None = None
    joined: bool = False


@dataclass
class Commit:
    offset: int
    ticket: int
    generation: int
    newest_generation: int  # that anybody knew of when it was sent


@dataclass
class GroupWorld:
    script: bytes
    protections: Protections
    consumers: list[Consumer] = field(default_factory=lambda: [Consumer() for _ in range(3)])
    owners: dict[tuple[int, int], str] = field(default_factory=dict)  # generation, partition -> member
    newest: int = 0  # generation that anybody was assigned something in
    commits: list[Commit] = field(default_factory=list)  # in the order in which they were sent, which is the log's
    acknowledged: int = -1  # index of the newest one
    seen: int = -1  # index of the newest one that was ever fetched

    def __post_init__(self) -> None:
        self._bytes = iter(self.script)
        self.stage = GroupStage(protections=self.protections, writes=False)

    def choose(self, below: int) -> int:
        return next(self._bytes, 0) % below

    def run(self) -> None:
        actions = (
            [self.step] * 14 + [self.write] * 6 + [self.commit] * 3 + [self.pass_time] * 3 + [self.fetch] * 2
            + [self.crash, self.leave, self.fail_over, self.refuse]
        )  # fmt: skip
        while (byte := next(self._bytes, None)) is not None:
            actions[byte % len(actions)]()
            self.look()

    # What happens

    def step(self) -> None:
        """A consumer does what comes next for it."""
        consumer = self.consumers[self.choose(len(self.consumers))]
        if consumer.joining is not None or consumer.syncing is not None:
            return
        if consumer.joined and consumer.owns is None:
            assignments = {
                id: bytes(PARTITIONS[number :: len(consumer.members)]) for number, id in enumerate(consumer.members)
            }
            consumer.syncing = self.stage.syncing(consumer.member_id, consumer.generation, assignments)
        elif consumer.owns is not None:
            self.told(consumer, self.stage.heartbeat(consumer.member_id, consumer.generation))
        else:
            consumer.joining = self.stage.joining(consumer.member_id, member_id_required=True)

    def told(self, consumer: Consumer, error: ErrorCode) -> None:
        """An error ends what it owns; what it does next is join."""
        if error is ErrorCode.none:
            return
        consumer.owns, consumer.joined = None, False
        if error in (ErrorCode.unknown_member_id, ErrorCode.illegal_generation):
            consumer.member_id = "" if error is ErrorCode.unknown_member_id else consumer.member_id

    def commit(self) -> None:
        consumer = self.consumers[self.choose(len(self.consumers))]
        if consumer.owns is None:
            return
        ticket = self.stage.committing(len(self.commits), generation=consumer.generation, member_id=consumer.member_id)
        self.commits.append(Commit(len(self.commits), ticket, consumer.generation, self.newest))

    def write(self) -> None:
        self.stage.write()

    def refuse(self) -> None:
        self.stage.write(ErrorCode.not_enough_replicas)

    def pass_time(self) -> None:
        self.stage.pass_ms((50, 100, 3_000, 9_999, 10_000, 60_000)[self.choose(6)])

    def crash(self) -> None:
        number = self.choose(len(self.consumers))
        self.consumers[number] = Consumer()

    def leave(self) -> None:
        number = self.choose(len(self.consumers))
        if self.consumers[number].member_id:
            self.stage.leave(Leaving(self.consumers[number].member_id))
        self.consumers[number] = Consumer()

    def fail_over(self) -> None:
        """Some of what was on its way into the log has arrived there, without anybody having been told."""
        for write in self.stage.waiting[: self.choose(3)]:
            self.stage.ledger.append(write)
        self.stage.fail_over()

    def fetch(self) -> None:
        """KIP-98 or not: what is acknowledged stays, and nobody sees an older commit after a newer one."""
        offset = self.stage.fetched().offset.offset
        if offset < self.acknowledged:
            raise Violation(f"commit {self.acknowledged} was acknowledged, {offset} is there")
        if offset < self.seen:
            raise Violation(f"{offset} is fetched after {self.seen}")
        self.seen = offset

    # What must never be

    def look(self) -> None:
        for consumer in self.consumers:
            self._joined(consumer)
            self._synced(consumer)
        for commit in self.commits:
            answer = self.stage.answers.get(commit.ticket)
            if answer is not None and self.stage.error(commit.ticket) is ErrorCode.none:
                self.acknowledged = max(self.acknowledged, commit.offset)
                if commit.generation < commit.newest_generation:
                    raise Violation(f"generation {commit.generation} commits in {commit.newest_generation}")

    def _joined(self, consumer: Consumer) -> None:
        said: Any = self.stage.answers.get(consumer.joining)
        if said is None:
            return
        consumer.joining = None
        if said.error is ErrorCode.member_id_required:
            consumer.member_id = said.member_id
        elif said.error is ErrorCode.none:
            if said.generation < self.newest:
                raise Violation(f"{said.member_id} joins {said.generation}, {self.newest} has assignments")
            consumer.member_id, consumer.generation, consumer.joined = said.member_id, said.generation, True
            consumer.members = tuple(member.member_id for member in said.members)
        else:
            self.told(consumer, said.error)

    def _synced(self, consumer: Consumer) -> None:
        said: Any = self.stage.answers.get(consumer.syncing)
        if said is None:
            return
        consumer.syncing = None
        if said.error is not ErrorCode.none:
            self.told(consumer, said.error)
            return
        if consumer.generation < self.newest:
            raise Violation(f"an assignment in generation {consumer.generation} after one in {self.newest}")
        self.newest = consumer.generation
        consumer.owns = tuple(said.assignment)
        for partition in consumer.owns:
            owner = self.owners.setdefault((consumer.generation, partition), consumer.member_id)
            if owner != consumer.member_id:
                raise Violation(f"{partition} belongs to {owner} and {consumer.member_id} in {consumer.generation}")
