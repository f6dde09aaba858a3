"""Scripted faults of simulated runs, for what chance would take hours to hit: who dies when, and which message is late.

A script is a coroutine beside the cluster, on the world's clock. It must not look at the history, and it ends before the run does:

    async def script(on: Stage) -> None:
        late = on.hold("b1", lambda message: getattr(message, "__api_key__", None) == Api.ALTER_PARTITION)
        on.kill("b2")
        await on.until(lambda: "b2" not in on.isr())
        late.release()

Partition 0 of the first topic is what scripts speak of.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from harness.simulated.cluster import SimulatedCluster
from nodes.reference.environment import MILLISECOND, SECOND, Environment
from nodes.reference.metadata.entities import Partition
from nodes.reference.server.handlers import Api
from nodes.reference.simulation.network import Held

_LOOK: Final = 10 * MILLISECOND


class Missed(Exception):
    """What the script waited for did not come: the run goes on without the rest of it."""


class Stage:
    """What a script may do and see."""

    def __init__(self, cluster: SimulatedCluster, environment: Environment) -> None:
        self.cluster = cluster
        self._clock = environment.clock

    async def until(self, condition: Callable[[], bool], within: int = 10 * SECOND) -> None:
        """Missed if it does not come."""
        deadline = self._clock.now() + within
        while not condition():
            if self._clock.now() >= deadline:
                raise Missed
            await self._clock.sleep_until(self._clock.now() + _LOOK)

    async def whether(self, condition: Callable[[], bool], within: int) -> bool:
        try:
            await self.until(condition, within)
        except Missed:
            return False
        return True

    async def wait(self, duration: int) -> None:
        await self._clock.sleep_until(self._clock.now() + duration)

    def leader(self) -> str | None:
        found = self._partition
        return f"b{found.leader}" if found and found.leader >= 0 else None

    def isr(self) -> set[str]:
        found = self._partition
        return {f"b{broker}" for broker in found.isr} if found else set()

    def fenced(self, name: str) -> bool:
        active = self.cluster.active
        known = active.core.image.brokers.get(int(name[1:])) if active else None
        return known is not None and known.fenced

    def incarnation(self, name: str) -> int:
        """The broker's epoch; -1 while it has none."""
        active = self.cluster.active
        known = active.core.image.brokers.get(int(name[1:])) if active else None
        return known.epoch if known else -1

    def kill(self, name: str) -> None:
        self.cluster.kill(name)

    def start(self, name: str) -> None:
        self.cluster.start(name)

    def wipe(self, name: str) -> None:
        self.cluster.machine(name).disk.wipe()

    def cut(self, one: str, other: str) -> None:
        self.cluster.cut(one, other)

    def mend(self) -> None:
        self.cluster.world.network.heal()

    def hold(self, source: str, rule: Callable[[object], bool]) -> Held:
        return self.cluster.world.network.hold(lambda one, other, message: one == source and rule(message))

    @property
    def _partition(self) -> Partition | None:
        return self.cluster.partition(self.cluster.shape.topics[0].name, 0)


Script = Callable[[Stage], Awaitable[None]]


async def stale_alter_partition(on: Stage) -> None:
    """KAFKA-14139: the request that adds a follower to the ISR is late, and the follower has lost its disk meanwhile."""
    leader, follower = await _two(on)
    late = on.hold(leader, lambda message: _adds(message, int(follower[1:])))
    on.start(follower)
    await on.until(lambda: bool(late.caught))
    on.cut(leader, follower)
    await _replaced(on, follower)
    late.release()
    await on.whether(lambda: follower in on.isr(), within=SECOND // 2)
    on.kill(leader)
    await on.wait(4 * SECOND)
    on.mend()
    on.start(leader)


async def leaders_die_in_turn(on: Stage) -> None:
    """Again and again: the leader dies, and the next one as soon as it leads."""
    while True:
        await on.until(lambda: len(on.isr()) == len(on.cluster.broker_names))
        await on.wait(SECOND // 2)
        dead: list[str] = []
        for _ in range(2):
            await on.until(lambda gone=dead: on.leader() not in (*gone, None))  # type: ignore[misc]
            dead.append(on.leader() or "")
            await on.wait(5 * MILLISECOND)  # its epoch reaches the last follower
            on.kill(dead[-1])
        await on.until(lambda gone=dead: on.leader() not in (*gone, None))  # type: ignore[misc]
        await on.wait(SECOND // 2)
        for name in dead:
            on.start(name)


async def _two(on: Stage) -> tuple[str, str]:
    """The leader, and a follower that is down and out of the ISR."""
    await on.wait(SECOND)
    leader = on.leader()
    if leader is None:
        raise Missed
    follower = next(name for name in on.cluster.broker_names if name != leader)
    on.kill(follower)
    await on.until(lambda: on.isr() == {leader})
    await on.wait(SECOND)
    return leader, follower


async def _replaced(on: Stage, follower: str) -> None:
    """It dies, is fenced, and comes back with an empty disk."""
    before = on.incarnation(follower)
    on.kill(follower)
    await on.until(lambda: on.fenced(follower))
    on.wipe(follower)
    on.start(follower)
    await on.until(lambda: on.incarnation(follower) > before and not on.fenced(follower))


def _adds(message: Any, broker: int) -> bool:
    return getattr(message, "__api_key__", None) == Api.ALTER_PARTITION and any(
        broker in (int(getattr(member, "broker_id", member)) for member in _members(partition))
        for topic in message.topics
        for partition in topic.partitions
    )


def _members(partition: Any) -> Any:
    """From version 3 on with epochs (KIP-903)."""
    return getattr(partition, "new_isr_with_epochs", None) or getattr(partition, "new_isr", ())
