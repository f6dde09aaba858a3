"""A quorum in a simulated world, with a schedule of faults: what the tests of Raft run, a thousand times over.

    outcome = run(seed=7)
    outcome.violations                    # [] or sentences
    outcome.history                       # bytes, with record=True: the same for the same seed

Three voters and some observers append, vote, crash, lose power, pause, are cut off, take snapshots. Then everything is healed and must
agree again. Timeouts are short, so that ten simulated seconds have many elections.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final, NamedTuple

from nodes.reference.environment import MILLISECOND, SECOND, Address, Environment
from nodes.reference.protections import ALL_ON, Protections
from nodes.reference.raft.events import NotLeader
from nodes.reference.raft.log import Batch, Snapshot, Voters
from nodes.reference.raft.replica import Replica
from nodes.reference.raft.roles import Leader, RaftConfig
from nodes.reference.simulation.invariants import Invariants, Seen
from nodes.reference.simulation.network import Trouble
from nodes.reference.simulation.world import World

KEYS: Final = 4


class KeyValues:
    """A state machine whose state forgets: the last value of each of a few keys, and who leads."""

    def __init__(self, node_id: int, invariants: Invariants) -> None:
        self._node_id = node_id
        self._invariants = invariants
        self.values: dict[bytes, bytes] = {}
        self.leader: tuple[int | None, int] = (None, 0)

    def load(self, snapshot: Snapshot) -> None:
        self.values = {}
        for value in snapshot.values:
            self._set(value)
        self._checked(snapshot.id.offset)

    def apply(self, batch: Batch) -> None:
        for value in batch.values:
            self._set(value)
        self._checked(batch.next_offset)

    def snapshot(self) -> tuple[bytes, ...]:
        return tuple(key + b"=" + value for key, value in sorted(self.values.items()))

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        self.leader = (leader_id, epoch)

    def _set(self, value: bytes) -> None:
        key, _, content = value.partition(b"=")
        self.values[key] = content

    def _checked(self, offset: int) -> None:
        self._invariants.applied(self._node_id, offset, tuple(sorted(self.values.items())))


class Fault(NamedTuple):
    at: int
    kind: str
    node_id: int
    duration: int


Mix = Mapping[str, int]  # kind of fault -> weight
MIXED: Final[Mix] = {
    "kill": 4,
    "power-loss": 4,
    "all-power-loss": 1,
    "pause": 2,
    "isolate": 3,
    "deafen": 2,
    "loss": 2,
    "slow": 2,
    "snapshot": 4,
    "resign": 1,
}


@dataclass(frozen=True, kw_only=True)
class Scenario:
    voters: tuple[int, ...] = (1, 2, 3)
    observers: tuple[int, ...] = (4,)
    duration: int = 6 * SECOND
    settle: int = 2 * SECOND
    fault_every: int = 350 * MILLISECOND  # on average
    append_every: int = 120 * MILLISECOND
    mix: Mix = field(default_factory=lambda: MIXED)
    protections: Protections = ALL_ON
    config: RaftConfig | None = None  # None: short timeouts, and small messages in every other world


class Outcome(NamedTuple):
    violations: list[str]
    committed: int
    elections: int
    steps: int
    history: bytes


def schedule(scenario: Scenario, random: Random) -> list[Fault]:
    """Faults by time; who is hit and for how long are chosen too."""
    kinds, weights = tuple(scenario.mix), tuple(scenario.mix.values())
    faults, at = [], SECOND // 2
    while at < scenario.duration:
        kind = random.choices(kinds, weights)[0]
        node_id = random.choice(scenario.voters + scenario.observers)
        longest = 2500 if kind == "isolate" else 700
        faults.append(Fault(at, kind, node_id, random.randint(1, longest) * MILLISECOND))
        at += random.randint(1, 2 * scenario.fault_every)
    return faults


def hasty(voters: tuple[int, ...], random: Random) -> RaftConfig:
    """Many elections in a few seconds; in some worlds one batch, or some bytes of a snapshot, at a time."""
    return RaftConfig(
        cluster_id="simulated",
        voters=Voters(voters),
        election_timeout=150 * MILLISECOND,
        election_backoff_max=150 * MILLISECOND,
        fetch_timeout=300 * MILLISECOND,
        request_timeout=300 * MILLISECOND,
        fetch_max_wait_ms=200,
        retry_backoff=40 * MILLISECOND,
        fetch_max_bytes=random.choice((1, 1 << 20)),
        snapshot_max_bytes=random.choice((40, 1 << 20)),
    )


class Quorum:
    def __init__(self, seed: int, scenario: Scenario, *, record: bool = False) -> None:
        self.scenario = scenario
        self.world = World(seed, record=record)
        self.invariants = Invariants()
        self.replicas: dict[int, Replica] = {}
        self._seen: dict[int, Seen] = {}
        self._random = self.world.random("scenario")
        self._appended = 0
        nodes = scenario.voters + scenario.observers
        self._addresses = {node_id: Address(f"c{node_id}", 9093) for node_id in nodes}
        self.config = scenario.config or hasty(scenario.voters, self._random)
        for node_id in nodes:
            self.world.machine(f"c{node_id}", drift=self._random.randint(-100, 100))
            self.start(node_id)

    def start(self, node_id: int) -> None:
        def program(environment: Environment) -> object:
            machine = KeyValues(node_id, self.invariants)
            replica = Replica(
                environment, node_id, self.config, self._addresses, machine, self.scenario.protections, self._watch
            )
            self.replicas[node_id] = replica
            self._seen[node_id] = self.invariants.started(replica.raft)
            return replica.run()

        self.world.start(self.world.machines[f"c{node_id}"], program)  # type: ignore[arg-type]

    def _watch(self, replica: Replica) -> None:
        raft = replica.raft
        self.invariants.check(raft, self._seen[replica.node_id], self.world.loop.now)
        if self.world.trace is not None:
            self.world.note(f"c{replica.node_id} {raft.election} hw {raft.high_watermark} end {raft.log.end}")

    def hit(self, fault: Fault) -> None:
        """Injects, and heals after a while."""
        heal = self.inject(fault)
        if heal is not None:
            self.world.after(fault.duration, heal)

    def leader(self) -> Replica | None:
        """Of those that run and think so, the one of the newest epoch."""
        leading = [
            replica
            for node_id, replica in self.replicas.items()
            if self.world.machines[f"c{node_id}"].runs and isinstance(replica.raft.role, Leader)
        ]
        return max(leading, key=lambda replica: replica.raft.epoch, default=None)

    def append(self) -> None:
        """To every node that thinks it leads, as clients of a zombie would."""
        for node_id, replica in self.replicas.items():
            process = self.world.machines[f"c{node_id}"].process
            if process is None or process.paused or not isinstance(replica.raft.role, Leader):
                continue
            self._appended += 1
            value = b"%d=%d" % (self._appended % KEYS, self._appended)
            process.context.run(self._try_append, replica, value)

    def _try_append(self, replica: Replica, value: bytes) -> None:
        with contextlib.suppress(NotLeader):  # it has just found out
            replica.append(replica.raft.epoch, (value,) * self._random.randint(1, 2))

    def inject(self, fault: Fault) -> Callable[[], None] | None:
        """Does it; returns what heals it."""
        world, name = self.world, f"c{fault.node_id}"
        machine, process = world.machines[name], world.machines[name].process
        world.note(f"fault {fault}")
        match fault.kind:
            case "kill":
                world.kill(machine)
                return partial(self.start, fault.node_id)
            case "power-loss":
                world.power_loss(machine)
                return partial(self.start, fault.node_id)
            case "all-power-loss":
                for each in world.machines.values():
                    world.power_loss(each)
                return self._start_all
            case "pause":
                world.pause(machine)
                return partial(world.resume, machine)
            case "isolate" | "deafen":
                for other in world.machines:
                    world.network.cut(other, name)
                    if fault.kind == "isolate":
                        world.network.cut(name, other)
                return world.network.heal
            case "loss" | "slow":
                worse = Trouble(loss=0.2) if fault.kind == "loss" else Trouble(slow=200 * MILLISECOND)
                world.network.trouble = worse
                return self._calm
            case "snapshot" if process is not None and not process.paused:
                process.context.run(self.replicas[fault.node_id].take_snapshot)
            case "resign" if process is not None and not process.paused:
                process.context.run(self.replicas[fault.node_id].resign)
        return None

    def _start_all(self) -> None:
        for node_id in self._addresses:
            self.start(node_id)

    def _calm(self) -> None:
        self.world.network.trouble = Trouble()

    def broken(self) -> bool:
        return bool(self.invariants.violations or self.world.failures)

    def heal(self) -> None:
        self._calm()
        self.world.network.heal()
        for machine in self.world.machines.values():
            self.world.resume(machine)
        self._start_all()


def run(seed: int, scenario: Scenario = Scenario(), *, record: bool = False) -> Outcome:
    """One life of a quorum. Ends at the first violation."""
    return live(Quorum(seed, scenario, record=record))


def live(quorum: Quorum) -> Outcome:
    scenario = quorum.scenario
    world, random = quorum.world, quorum.world.random("schedule")
    for fault in schedule(scenario, random):
        world.after(fault.at, partial(quorum.hit, fault))
    _keep_appending(quorum, random)
    world.run_for(scenario.duration, stop=quorum.broken)
    if not quorum.broken():
        quorum.heal()
        world.run_for(scenario.settle, stop=quorum.broken)
    violations = quorum.invariants.violations + [f"{name} stops: {error!r}" for name, error in world.failures]
    if not violations:
        violations += _disagreement(quorum)
    outcome = Outcome(
        violations,
        quorum.invariants.committed_end[0],
        len(quorum.invariants.leaders),
        world.loop.steps,
        world.history(),
    )
    world.close()
    return outcome


def _keep_appending(quorum: Quorum, random: Random) -> None:
    quorum.append()
    wait = random.randint(1, 2 * quorum.scenario.append_every)
    quorum.world.after(wait, partial(_keep_appending, quorum, random))


def _disagreement(quorum: Quorum) -> list[str]:
    """After a calm: somebody leads, and everyone is where the leader is, but for what has just been appended."""
    leader = quorum.leader()
    if leader is None:
        return ["liveness: nobody leads after the calm"]
    behind = leader.raft.high_watermark - 8
    return [
        f"liveness: node {node_id} is at {replica.applied_offset} after the calm, the leader at {leader.raft.high_watermark}"
        for node_id, replica in quorum.replicas.items()
        if replica.applied_offset < behind
    ]
