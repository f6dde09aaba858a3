"""What a script of a simulated run may do and see: who dies when, and which message is late.

A script is a coroutine beside the cluster, on the world's clock. It must not look at the history, and it ends before the run does:

    async def script(on: Stage) -> None:
        late = on.hold("b1", lambda message: getattr(message, "__api_key__", None) == Api.ALTER_PARTITION)
        on.kill("b2")
        await on.until(lambda: "b2" not in on.isr())
        late.release()

Partition 0 of the first topic is what scripts speak of. Waits are for what the cluster has come to, so a script finds its moment whatever
the seed; `soon` and `random` make ten seeds ten different runs. Deaths are in the history as faults.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import wraps
from typing import Final

from harness.simulated.cluster import SimulatedCluster
from harness.simulated.recording import Rows
from nodes.reference.environment import MILLISECOND, SECOND, Environment
from nodes.reference.log.log import Log
from nodes.reference.metadata.entities import Partition
from nodes.reference.simulation.network import Held

_LOOK: Final = 10 * MILLISECOND


class Missed(Exception):
    """What the script waited for did not come: the run goes on without the rest of it."""


class Stage:
    def __init__(self, cluster: SimulatedCluster, rows: Rows, environment: Environment) -> None:
        self.cluster = cluster
        self.environment = environment
        self.random = environment.random
        self.rows = rows
        self._clock = environment.clock
        self._dead: dict[str, int] = {}  # node -> its fault

    # Time

    async def until(self, condition: Callable[[], bool], within: int = 10 * SECOND, look: int = _LOOK) -> None:
        """Missed if it does not come. look: how often, in ns."""
        deadline = self._clock.now() + within
        while not condition():
            if self._clock.now() >= deadline:
                raise Missed
            await self._clock.sleep_until(self._clock.now() + look)

    async def whether(self, condition: Callable[[], bool], within: int) -> bool:
        try:
            await self.until(condition, within)
        except Missed:
            return False
        return True

    async def wait(self, duration: int) -> None:
        await self._clock.sleep_until(self._clock.now() + duration)

    async def soon(self, shortest: int, longest: int) -> None:
        """A time between the two (ns)."""
        await self.wait(self.random.randint(shortest, longest))

    # Seeing

    def leader(self) -> str | None:
        found = self._partition
        return f"b{found.leader}" if found and found.leader >= 0 else None

    def leader_of(self, topic: str, partition: int) -> str | None:
        found = self.cluster.partition(topic, partition)
        return f"b{found.leader}" if found and found.leader >= 0 else None

    def isr(self) -> set[str]:
        found = self._partition
        return {f"b{broker}" for broker in found.isr} if found else set()

    def replicas(self) -> list[str]:
        """In the order in which they are elected."""
        found = self._partition
        return [f"b{broker}" for broker in found.replicas] if found else []

    def whole(self) -> bool:
        """Led, and every replica in sync."""
        return self.leader() is not None and len(self.isr()) == len(self.replicas())

    def leading(self, name: str) -> bool:
        """Does it itself know that it leads, in the newest epoch?"""
        found, broker = self._partition, self.cluster.brokers[name]
        hosted = broker.replicas.find(self._topic, 0)
        role = hosted.partition.leader if hosted else None
        return role is not None and found is not None and role.epoch == found.leader_epoch

    def counts_with(self, name: str) -> set[str]:
        """Whom this broker, as the leader, waits for before a record is committed."""
        hosted = self.cluster.brokers[name].replicas.find(self._topic, 0)
        role = hosted.partition.leader if hosted else None
        return {f"b{broker}" for broker in role.membership.isr.maximal} if role else set()

    def following(self, name: str) -> bool:
        """Does it follow the newest leader, as far as it knows?"""
        found, hosted = self._partition, self.cluster.brokers[name].replicas.find(self._topic, 0)
        role = hosted.partition.follower if hosted else None
        return role is not None and found is not None and role.view.leader_epoch == found.leader_epoch

    def high_watermark(self, name: str) -> int:
        """As the replica there knows it; -1: there is none."""
        log = self.log(name)
        return -1 if log is None else log.high_watermark

    def end(self, name: str) -> int:
        """Of the log there; -1: there is none."""
        log = self.log(name)
        return -1 if log is None else log.log_end_offset

    def log(self, name: str) -> Log | None:
        hosted = self.cluster.brokers[name].replicas.find(self._topic, 0)
        return hosted.partition.local.log if hosted else None

    def fenced(self, name: str) -> bool:
        active = self.cluster.active
        known = active.core.image.brokers.get(int(name[1:])) if active else None
        return known is not None and known.fenced

    def incarnation(self, name: str) -> int:
        """The broker's epoch; -1 while it has none."""
        active = self.cluster.active
        known = active.core.image.brokers.get(int(name[1:])) if active else None
        return known.epoch if known else -1

    def runs(self, name: str) -> bool:
        return self.cluster.machine(name).runs

    def active_controller(self) -> str | None:
        active = self.cluster.active
        return f"c{active.node_id - 100}" if active else None

    @property
    def controllers(self) -> list[str]:
        return [name for name in self.cluster.nodes if name.startswith("c")]

    # Doing

    def kill(self, name: str) -> None:
        self._begin("kill", name)
        self.cluster.kill(name)

    def power_loss(self, name: str, *, everything: bool = False) -> None:
        """everything: none of what was not synced survives."""
        self._begin("power-loss", name)
        self.cluster.world.power_loss(self.cluster.machine(name), everything=everything)

    def write_back(self, name: str) -> None:
        """The machine's kernel has brought to the medium what programs have written so far, synced or not."""
        self.cluster.machine(name).disk.write_back()

    def start(self, name: str) -> None:
        if name in self._dead:
            self.rows.fault_ends(self._dead.pop(name))
        self.cluster.start(name)

    def start_twin(self, name: str) -> None:
        """Another process with this broker's id, on a machine of its own with an empty disk."""
        self.cluster.start_twin(name)

    def kill_twin(self, name: str) -> None:
        """A kill of the broker of this id, as those see it who know its address."""
        self.rows.fault_begins("kill", rule="script", targets=(name,))
        self.cluster.kill_twin(name)

    def wipe(self, name: str) -> None:
        self.cluster.machine(name).disk.wipe()

    def cut(self, one: str, other: str) -> None:
        self.cluster.cut(one, other)

    def cut_off(self, name: str, others: Iterable[str]) -> None:
        """From each of the others but itself, both ways."""
        for other in others:
            if other != name:
                self.cluster.cut(name, other)

    def deafen(self, name: str, others: Iterable[str]) -> None:
        """Nothing from the others reaches it; what it says reaches them."""
        for other in others:
            if other != name:
                self.cluster.world.network.cut(other, name)

    def mend(self) -> None:
        self.cluster.world.network.heal()

    def hold(self, source: str, rule: Callable[[object], bool], target: str | None = None) -> Held:
        """Messages from a host (to one, or to any) that a rule names."""
        return self.cluster.world.network.hold(
            lambda one, other, message: one == source and target in (None, other) and rule(message)
        )

    def hold_any(self, rule: Callable[[str, str, object], bool]) -> Held:
        """By source, target and message."""
        return self.cluster.world.network.hold(rule)

    def end_client(self, name: str) -> None:
        """Its process is gone, and whatever it waited for is unknown for ever."""
        self.cluster.kill(name)

    def _begin(self, fault: str, name: str) -> None:
        if name in self.cluster.nodes and name not in self._dead:
            self._dead[name] = self.rows.fault_begins(fault, rule="script", targets=(name,))

    @property
    def _topic(self) -> str:
        return self.cluster.shape.topics[0].name

    @property
    def _partition(self) -> Partition | None:
        return self.cluster.partition(self._topic, 0)


Script = Callable[[Stage], Awaitable[None]]


def again_and_again(script: Script) -> Script:
    """The same script, begun anew whenever it is through, until something does not come or the run ends."""

    @wraps(script)
    async def repeated(on: Stage) -> None:
        while True:
            await script(on)

    return repeated


def api(message: object) -> int | None:
    """Key of a request of brokers and clients."""
    key = getattr(message, "__api_key__", None)
    return None if key is None or not type(message).__name__.endswith("Request") else int(key)
