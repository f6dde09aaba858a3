"""The shell of coordinators over a broker made of a dict: loading, leadership, markers, FindCoordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest as SeveralAtOnce
from kio.static.primitive import i8

from nodes.reference.coordinator.effects import Ticket, Write
from nodes.reference.coordinator.finder import CoordinatorFinder
from nodes.reference.coordinator.groups import records
from nodes.reference.coordinator.groups.core import GroupCoordinator
from nodes.reference.coordinator.groups.requests import Commit, Offset, TopicPartition
from nodes.reference.coordinator.groups.settings import GroupSettings
from nodes.reference.coordinator.partitioning import GROUPS_TOPIC, java_hash, partition_of
from nodes.reference.coordinator.shard import Shards
from nodes.reference.environment import MILLISECOND, SECOND, Caller, Environment
from nodes.reference.log.batch import parse, stamped
from nodes.reference.log.keyed import KeyedRecord, Writer, encode
from nodes.reference.protections import ALL_ON
from nodes.reference.server.services import LeadershipChanged, Read, Written
from nodes.reference.simulation.world import World
from tests.nodes.reference.coordinator.ledger import Ledger

PARTITION = TopicPartition("t", 0)
LOOKS_OFTEN = GroupSettings(offsets_retention_check_interval_ms=1_000)


class FakeBroker:
    """One partition of `__consumer_offsets`. `committed`: of its log; appends are acknowledged when it has reached them."""

    def __init__(self) -> None:
        self.broker_id = 1
        self.may_serve = True
        self.ledger = Ledger()
        self.committed = 0
        self.created: list[str] = []
        self.partitions: int | None = 1
        self.leader: int | None = 1
        self._changed: list[LeadershipChanged] = []
        self._waiting: list[tuple[int, asyncio.Future[Written]]] = []

    def partition_count(self, topic: str) -> int | None:
        return self.partitions

    def leader_of(self, topic: str, partition: int) -> int | None:
        return self.leader

    def host_and_port(self, broker: int) -> tuple[str, int] | None:
        return ("b1", 9092) if broker == 1 else None

    def watch_leadership(self, topic: str, changed: LeadershipChanged) -> None:
        self._changed.append(changed)

    def watch_markers(self, topic: str, marked: object) -> None: ...

    def lead(self, epoch: int | None) -> None:
        for changed in self._changed:
            changed(0, epoch)

    async def create_internal(self, topic: str) -> ErrorCode:
        self.created.append(topic)
        self.partitions = 1
        return ErrorCode.none

    def read(self, topic: str, partition: int, offset: int, max_bytes: int = 1 << 20) -> Read:
        """One batch at a time."""
        for batch in self.ledger.batches:
            if parse(batch, 0).base_offset >= offset:
                return Read(ErrorCode.none, batch, self.committed, self.ledger.end_offset)
        return Read(ErrorCode.none, b"", self.committed, self.ledger.end_offset)

    async def append(self, topic: str, partition: int, batch: bytes, *, leader_epoch: int, deadline: int) -> Written:
        offset = self.ledger.end_offset
        self.ledger.batches.append(bytes(stamped(batch, parse(batch, 0), base_offset=offset, leader_epoch=0)))
        self.ledger.end_offset += parse(batch, 0).last_offset_delta + 1
        answered: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        self._waiting.append((offset, answered))
        return await answered

    def commit(self) -> None:
        self.committed = self.ledger.end_offset
        for offset, answered in self._waiting:
            if not answered.done():
                answered.set_result(Written(ErrorCode.none, offset))
        self._waiting.clear()


class Scene:
    def __init__(self, environment: Environment) -> None:
        self.clock = environment.clock
        self.broker = FakeBroker()
        services: Any = self.broker
        self.finder = CoordinatorFinder(services)
        self.shards: Shards[GroupCoordinator] = Shards(
            GROUPS_TOPIC,
            services,
            environment.clock,
            lambda epoch: GroupCoordinator(LOOKS_OFTEN, ALL_ON, lambda: "id", environment.clock.wall),
            environment.clock.now,
        )

    async def pass_ms(self, milliseconds: int = 20) -> None:
        await self.clock.sleep_until(self.clock.now() + milliseconds * MILLISECOND)

    def committing(self, offset: int) -> asyncio.Task[Any]:
        commit = Commit(group="g", offsets={PARTITION: Offset(offset)})

        def call(core: GroupCoordinator, ticket: Ticket, now: int) -> list[Any]:
            return list(core.commit(ticket, commit, now))

        return asyncio.get_running_loop().create_task(self.shards.ask("g", call))

    async def lead(self, epoch: int = 0) -> None:
        self.broker.lead(epoch)
        await self.pass_ms()

    @property
    def state(self) -> ErrorCode:
        shard = self.shards.find("g")
        return shard if isinstance(shard, ErrorCode) else ErrorCode.none

    def offset(self) -> int:
        shard = self.shards.find("g")
        assert not isinstance(shard, ErrorCode)
        return shard.core.fetch("g", [PARTITION]).offsets[PARTITION].offset.offset


def play(script: Callable[[Scene], Coroutine[object, object, None]]) -> None:
    world = World(1)
    done: list[bool] = []

    async def program(environment: Environment) -> None:
        await script(Scene(environment))
        done.append(True)

    world.start(world.machine("b1"), program)
    world.run_for(60 * SECOND)
    world.close()
    for _, failure in world.failures:
        raise failure
    assert done, "the script came to no end"


def stored(offset: int, writer: Writer | None = None) -> Write:
    return Write(0, records.of_offsets("g", {PARTITION: Offset(offset)}), writer)


def test_who_does_not_lead_does_not_coordinate() -> None:
    async def script(scene: Scene) -> None:
        assert await scene.committing(5) is ErrorCode.not_coordinator
        await scene.lead()
        scene.broker.may_serve = False  # its lease is over
        assert await scene.committing(5) is ErrorCode.not_coordinator

    play(script)


def test_nobody_is_answered_before_all_that_is_there_is_loaded_and_committed() -> None:
    async def script(scene: Scene) -> None:
        for offset in (5, 6):
            scene.broker.ledger.append(stored(offset))
        scene.broker.committed = 1
        await scene.lead()
        assert scene.state is ErrorCode.coordinator_load_in_progress
        scene.broker.commit()
        await scene.pass_ms()
        assert scene.offset() == 6

    play(script)


def test_what_is_written_is_answered_when_it_is_committed_in_order() -> None:
    async def script(scene: Scene) -> None:
        await scene.lead()
        commits = [scene.committing(offset) for offset in range(5)]
        await scene.pass_ms()
        assert not any(commit.done() for commit in commits)
        positions = [parse(batch, 0).base_offset for batch in scene.broker.ledger.batches]
        assert all(before < after for before, after in pairwise(positions))
        scene.broker.commit()
        assert [await commit for commit in commits] == [{PARTITION: ErrorCode.none}] * 5
        assert scene.offset() == 4

    play(script)


def test_what_has_expired_is_gone_for_the_next_leader_too() -> None:
    """KIP-211: an offset that was committed before 1970, and its group."""

    async def script(scene: Scene) -> None:
        await scene.lead()
        commit = scene.committing(5)
        await scene.pass_ms()
        scene.broker.commit()
        await commit
        scene.shards.tick()
        assert scene.broker.committed == 1
        await scene.pass_ms(1_000)
        scene.shards.tick()
        await scene.pass_ms()
        scene.broker.commit()
        await scene.pass_ms()
        assert scene.broker.committed == 3
        assert scene.offset() == -1
        await scene.lead(epoch=1)
        shard = scene.shards.find("g")
        assert not isinstance(shard, ErrorCode)
        assert shard.core.groups == {}

    play(script)


def test_who_waits_learns_that_another_leads() -> None:
    async def script(scene: Scene) -> None:
        await scene.lead()
        commit = scene.committing(5)
        await scene.pass_ms()
        scene.broker.lead(None)
        assert await commit == {PARTITION: ErrorCode.not_coordinator}
        scene.broker.commit()  # it was written all the same
        await scene.lead(1)
        assert scene.offset() == 5

    play(script)


def test_a_marker_counts_though_it_comes_while_the_log_is_loaded() -> None:
    async def script(scene: Scene) -> None:
        scene.broker.ledger.append(stored(7, Writer(4, 0)))
        scene.broker.lead(0)
        shard = scene.shards.of_partition(0)
        assert shard is not None
        shard.tell(lambda core: core.transaction_ended(4, commit=True))
        scene.broker.commit()
        await scene.pass_ms()
        assert scene.offset() == 7

    play(script)


def test_a_log_that_cannot_be_read_is_not_coordinated_from() -> None:
    async def script(scene: Scene) -> None:
        broken = encode((KeyedRecord(b"\x00\x02", b""),), timestamp=0)
        scene.broker.ledger.batches.append(broken)
        await scene.lead()
        assert scene.state is ErrorCode.coordinator_not_available

    play(script)


def test_time_passes_for_the_core() -> None:
    async def script(scene: Scene) -> None:
        await scene.lead()
        commit = scene.committing(5)
        await scene.pass_ms(6_000)
        scene.shards.tick()
        assert await commit == {PARTITION: ErrorCode.request_timed_out}

    play(script)


def test_finding_creates_the_topic_and_names_the_leader() -> None:
    async def script(scene: Scene) -> None:
        caller, broker = Caller("c", "client", 1), scene.broker
        broker.partitions = None
        found: Any = await scene.finder.find_coordinator(caller, FindCoordinatorRequest(key="g", key_type=i8(0)))
        assert broker.created == [GROUPS_TOPIC]
        assert (found.error_code, found.node_id, found.host, found.port) == (ErrorCode.none, 1, "b1", 9092)
        broker.leader = None
        several = SeveralAtOnce(key_type=i8(1), coordinator_keys=("x", ""))
        answered: Any = await scene.finder.find_coordinator(caller, several)
        assert [each.error_code for each in answered.coordinators] == [
            ErrorCode.coordinator_not_available,
            ErrorCode.invalid_request,
        ]
        unknown: Any = await scene.finder.find_coordinator(caller, FindCoordinatorRequest(key="g", key_type=i8(2)))
        assert unknown.error_code is ErrorCode.invalid_request

    play(script)


@pytest.mark.parametrize(
    ("key", "hashed"),
    [("", 0), ("a", 97), ("orders", -1008770331), ("polygenelubricants", -(1 << 31)), ("é\U0001f600", 1_996_812)],
)
def test_hashes_are_javas(key: str, hashed: int) -> None:
    assert java_hash(key) == hashed
    assert partition_of(key, 50) == (0 if hashed == -(1 << 31) else abs(hashed) % 50)
