"""Three controllers in a simulated world, brokers that only have a life (no partitions' data), an administrator, and faults.

    outcome = run(seed=7)
    outcome.violations                    # [] or sentences

A broker observes the metadata log by a replica of its own, registers, sends heartbeats, keeps to its lease, and proposes ISRs for what it
leads. Each start is a new incarnation. Then everything is healed: all brokers are active again, all partitions have leaders and full ISRs,
and everyone has the judge's state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.reference.controller.broker_messages import (
    OK,
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    BrokerState,
    ProposedIsr,
)
from nodes.reference.controller.client_messages import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectionType,
    ElectLeadersRequest,
    NewTopic,
)
from nodes.reference.controller.core import Answered, Effect
from nodes.reference.controller.messages import Request
from nodes.reference.controller.settings import ControllerSettings
from nodes.reference.controller.shell import ControllerNode
from nodes.reference.environment import MILLISECOND, SECOND, Address, Connection, Disconnected, Environment
from nodes.reference.metadata.image import Image
from nodes.reference.metadata.records import decode
from nodes.reference.partition.view import NO_LEADER
from nodes.reference.protections import ALL_ON, Protections
from nodes.reference.raft.log import Batch, Snapshot
from nodes.reference.raft.replica import Replica
from nodes.reference.simulation.invariants import Invariants, Seen
from nodes.reference.simulation.network import Trouble
from nodes.reference.simulation.quorum import Fault, Mix, Scenario, hasty, schedule
from nodes.reference.simulation.world import World
from tests.nodes.reference.controller.judge import Judge
from tests.nodes.reference.controller.stage import FEATURES

CONTROLLERS: Final = (1, 2, 3)
BROKERS: Final = (11, 12, 13)
FAULTS: Final[Mix] = {"kill": 4, "power-loss": 3, "pause": 3, "isolate": 4, "deafen": 2, "loss": 2, "slow": 2}
SETTINGS: Final = ControllerSettings(
    cluster_id="simulated",
    broker_session_timeout=600 * MILLISECOND,
    snapshot_every=40,
    snapshot_every_lagging=80,
    snapshot_timeout=SECOND,
    controller_heartbeat_interval=100 * MILLISECOND,
    producer_ids=10,
)


class Follower:
    """A broker's view of the metadata."""

    def __init__(self) -> None:
        self.image = Image()
        self.controller: int | None = None

    def load(self, snapshot: Snapshot) -> None:
        self.image = Image.load(snapshot.values)

    def apply(self, batch: Batch) -> None:
        for value in batch.values:
            self.image.apply(decode(value))

    def snapshot(self) -> tuple[bytes, ...]:
        return self.image.values()

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        self.controller = leader_id


@dataclass
class Broker:
    """A process. lease_end: on its own clock."""

    id: int
    environment: Environment
    follower: Follower
    replica: Replica
    addresses: dict[int, Address]
    judge: Judge
    epoch: int = -1
    state: BrokerState = BrokerState.INITIAL
    lease_end: int = 0
    connection: tuple[int, Connection] | None = None

    @property
    def serves(self) -> bool:
        return self.state is BrokerState.ACTIVE and self.environment.clock.now() < self.lease_end

    async def live(self) -> None:
        clock = self.environment.clock
        incarnation_id = self._incarnation()
        while True:
            await clock.sleep_until(clock.now() + 60 * MILLISECOND)
            try:
                if self.epoch < 0:
                    await self._register(incarnation_id)
                else:
                    incarnation_id = await self._beat(incarnation_id)
                    if self.serves:
                        await self._act()
            except Disconnected:
                self.connection = None

    def _incarnation(self) -> UUID:
        return UUID(int=self.environment.random.getrandbits(128), version=4)

    async def _ask(self, request: Request) -> object:
        clock, controller = self.environment.clock, self.follower.controller
        if controller not in self.addresses:
            raise Disconnected("no controller")
        deadline = clock.now() + 300 * MILLISECOND
        if self.connection is None or self.connection[0] != controller or self.connection[1].closed:
            name = f"broker-{self.id}"
            there = await self.environment.network.connect(
                self.addresses[controller], client_id=name, deadline=deadline
            )
            self.connection = (controller, there)
        return await self.connection[1].ask(request, deadline=deadline)

    async def _register(self, incarnation_id: UUID) -> None:
        request = BrokerRegistrationRequest(
            broker_id=self.id, cluster_id="simulated", incarnation_id=incarnation_id, features=FEATURES
        )
        response = await self._ask(request)
        assert isinstance(response, BrokerRegistrationResponse)
        if response.error is OK:
            self.judge.got_epoch(self.id, incarnation_id, response)
            self.epoch = response.broker_epoch

    async def _beat(self, incarnation_id: UUID) -> UUID:
        start = self.environment.clock.now() // MILLISECOND
        request = BrokerHeartbeatRequest(
            broker_id=self.id,
            broker_epoch=self.epoch,
            target=BrokerState.ACTIVE,
            metadata_offset=self.replica.applied_offset,
            lease_start_ms=start,
        )
        response = await self._ask(request)
        assert isinstance(response, BrokerHeartbeatResponse)
        if response.error in (ErrorCode.stale_broker_epoch, ErrorCode.broker_id_not_registered):
            self.epoch, self.state = -1, BrokerState.FENCED
            return self._incarnation()
        if response.error is OK:
            self.state, self.lease_end = response.next_state, response.lease_end_ms * MILLISECOND
        return incarnation_id

    async def _act(self) -> None:
        """Now and then: an ISR as it should be, or as it should not be; a topic more or less; producer ids."""
        random, image = self.environment.random, self.follower.image
        chance = random.random()
        if chance < 0.1 and len(image.topics) < 4:
            new = NewTopic(name=f"t{random.randrange(1000)}", partition_count=3, replication_factor=2)
            await self._ask(CreateTopicsRequest(topics=(new,)))
        elif chance < 0.11 and len(image.topics) > 1:
            await self._ask(DeleteTopicsRequest(topics=(next(iter(image.topics)),)))
        elif chance < 0.14:
            await self._ask(AllocateProducerIdsRequest(broker_id=self.id, broker_epoch=self.epoch))
        elif chance < 0.17:
            await self._ask(ElectLeadersRequest(election=ElectionType.PREFERRED, partitions=None))
        elif chance < 0.8:
            proposals = tuple(self._proposals(random, shrink=chance < 0.22))
            if proposals:
                request = AlterPartitionRequest(broker_id=self.id, broker_epoch=self.epoch, partitions=proposals)
                await self._ask(request)

    def _proposals(self, random: Random, *, shrink: bool) -> list[ProposedIsr]:
        image, proposals = self.follower.image, []
        for id, partition in image.partitions():
            if partition.leader != self.id:
                continue
            active = [replica for replica in partition.replicas if image.active(replica)]
            members = [self.id] if shrink and random.random() < 0.2 else sorted({self.id, *active})
            if set(members) != set(partition.isr):
                proposals.append(
                    ProposedIsr(
                        topic=id.topic_id,
                        index=id.number,
                        leader_epoch=partition.leader_epoch,
                        partition_epoch=partition.partition_epoch,
                        new_isr=tuple((member, image.brokers[member].epoch) for member in members),
                    )
                )
        return proposals


class Outcome(NamedTuple):
    violations: list[str]
    committed: int
    terms: int
    snapshots: int
    changes: int
    history: bytes


class Cluster:
    def __init__(self, seed: int, protections: Protections, *, record: bool = False) -> None:
        self.world = World(seed, record=record)
        self.judge = Judge()
        self.invariants = Invariants()
        self.protections = protections
        self.controllers: dict[int, ControllerNode] = {}
        self.brokers: dict[int, Broker] = {}
        self.changes = 0
        self._seen: dict[int, Seen] = {}
        self._judged = 0
        self.config = hasty(CONTROLLERS, self.world.random("config"))
        self.addresses = {id: Address(f"c{id}", 9093) for id in CONTROLLERS}
        for id in CONTROLLERS + BROKERS:
            self.world.machine(f"c{id}")
            self.start(id)

    def start(self, id: int) -> None:
        program = self._controller if id in CONTROLLERS else self._broker
        self.world.start(self.world.machines[f"c{id}"], partial(program, id))

    def _controller(self, id: int, environment: Environment):  # type: ignore[no-untyped-def]
        node = self.controllers[id] = ControllerNode(
            environment,
            id,
            self.addresses[id],
            self.addresses,
            self.config,
            SETTINGS,
            self.protections,
            self._watch,
            self._watch_core,
        )
        self._seen[id] = self.invariants.started(node.replica.raft)
        return node.run()

    async def _broker(self, id: int, environment: Environment) -> None:
        follower = Follower()
        replica = Replica(environment, id, self.config, self.addresses, follower)
        broker = self.brokers[id] = Broker(id, environment, follower, replica, self.addresses, self.judge)
        life = self.world.loop.create_task(broker.live())
        try:
            await replica.run()
        finally:
            life.cancel()

    def _watch(self, replica: Replica) -> None:
        self.invariants.check(replica.raft, self._seen[replica.node_id], self.world.loop.now)
        while (batch := self.invariants.committed.get(self._judged)) is not None:
            self.judge.commit(batch.values)
            self._judged = batch.next_offset
            self.changes += bool(batch.values)

    def _watch_core(self, node: ControllerNode, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answered):
                self.judge.answered(effect.response)
                self.world.note(f"c{node.node_id} answers {effect.response}")
        if node.core.committed_offset == self._judged and node.core.image != self.judge.image:
            self.judge.bad(f"same log, other state: controller {node.node_id} at {self._judged}")

    # Faults

    def hit(self, fault: Fault) -> None:
        world, name = self.world, f"c{fault.node_id}"
        world.note(f"fault {fault}")
        match fault.kind:
            case "kill" | "power-loss":
                machine = world.machines[name]
                world.kill(machine) if fault.kind == "kill" else world.power_loss(machine)
                world.after(fault.duration, partial(self.start, fault.node_id))
            case "pause":
                world.pause(world.machines[name])
                world.after(fault.duration, partial(world.resume, world.machines[name]))
            case "isolate" | "deafen":
                for other in world.machines:
                    world.network.cut(other, name)
                    if fault.kind == "isolate":
                        world.network.cut(name, other)
                world.after(fault.duration, world.network.heal)
            case _:
                worse = Trouble(loss=0.2) if fault.kind == "loss" else Trouble(slow=200 * MILLISECOND)
                world.network.trouble = worse
                world.after(fault.duration, self._calm)

    def _calm(self) -> None:
        self.world.network.trouble = Trouble()

    def heal(self) -> None:
        self._calm()
        self.world.network.heal()
        for machine in self.world.machines.values():
            self.world.resume(machine)
        for id in CONTROLLERS + BROKERS:
            self.start(id)

    def broken(self) -> bool:
        return bool(self.judge.violations or self.invariants.violations or self.world.failures)

    def violations(self) -> list[str]:
        stopped = [f"{name} stops: {error!r}" for name, error in self.world.failures]
        return self.judge.violations + self.invariants.violations + stopped


def run(
    seed: int,
    protections: Protections = ALL_ON,
    *,
    duration: int = 5 * SECOND,
    record: bool = False,
    translate: Callable[[object], object] = lambda message: message,
) -> Outcome:
    """One life of a cluster. Ends at the first violation. translate: what the network makes of each message."""
    cluster = Cluster(seed, protections, record=record)
    cluster.world.network.translate = translate
    world, random = cluster.world, cluster.world.random("schedule")
    faults = Scenario(voters=CONTROLLERS, observers=BROKERS, duration=duration, mix=FAULTS)
    for fault in schedule(faults, random):
        world.after(SECOND + fault.at, partial(cluster.hit, fault))
    world.run_for(SECOND + duration, stop=cluster.broken)
    if not cluster.broken():
        cluster.heal()
        world.run_for(3 * SECOND, stop=cluster.broken)
        for _ in range(40):  # an active controller that has just resigned for its snapshot is no fault
            if cluster.broken() or not _unsettled(cluster):
                break
            world.run_for(SECOND // 10, stop=cluster.broken)
    violations = cluster.violations() or _unsettled(cluster)
    outcome = Outcome(
        violations,
        cluster.invariants.committed_end[0],
        len(cluster.invariants.leaders),
        sum(node.replica.raft.log.start_offset > 0 for node in cluster.controllers.values()),
        cluster.changes,
        world.history(),
    )
    world.close()
    return outcome


def _unsettled(cluster: Cluster) -> list[str]:
    """What is not as it should be after a calm."""
    image = cluster.judge.image
    found = [f"liveness: broker {id} is not active" for id in BROKERS if not image.active(id)]
    found += [f"liveness: broker {id} does not serve" for id, broker in cluster.brokers.items() if not broker.serves]
    found += [f"liveness: {partition}" for _, partition in image.partitions() if partition.leader == NO_LEADER]
    if sum(node.core.active for node in cluster.controllers.values()) != 1:
        found.append("liveness: not one active controller")
    return found
