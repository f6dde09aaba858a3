"""Three controllers over one agreed log, brokers that die and come back with empty disks, and an adversary who picks each next step.

    model = Model()
    model.step("elect", 1)             # node 2 leads from now on; what was not committed may be gone
    model.step("deliver", 0)           # some message of a broker arrives, however late
    model.violations                   # [] or sentences
    walk(seed=7, steps=300)            # the same from a seed

The log is what Raft promises: one writer in an epoch, a committed prefix that only grows, a new leader that has all of it. `judge` is
one who sees each batch of that prefix once, and everything that is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final
from uuid import UUID

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
    ElectionType,
    ElectLeadersRequest,
    NewTopic,
)
from nodes.reference.controller.core import Answered, Controller, Effect
from nodes.reference.controller.messages import (
    Request,
    Response,
)
from nodes.reference.controller.settings import ControllerSettings
from nodes.reference.controller.store import QuorumStatus
from nodes.reference.environment import SECOND
from nodes.reference.metadata.entities import PartitionId
from nodes.reference.protections import ALL_ON, Protections
from nodes.reference.raft.events import NotLeader
from tests.nodes.reference.controller.judge import Judge
from tests.nodes.reference.controller.stage import FEATURES

CONTROLLERS: Final = (1, 2, 3)
BROKERS: Final = (11, 12, 13)
SESSION: Final = 8 * SECOND
ACTIONS: Final = (
    *("beat", "commit", "deliver", "propose", "start", "time", "elect", "tell", "topic", "ids", "stop", "prefer"),
    "silence",
)
WEIGHTS: Final = (40, 50, 20, 14, 5, 10, 2, 4, 2, 3, 2, 3, 2)


@dataclass(eq=False)
class Process:
    """One life of a broker."""

    broker: int
    incarnation_id: UUID
    epoch: int = -1
    silent: bool = False
    target: BrokerState = BrokerState.ACTIVE


@dataclass
class Batch:
    values: tuple[bytes, ...]
    end: int


@dataclass
class Node:
    controller: Controller
    applied: int = 0  # batches
    heard: dict[int, int] = field(default_factory=dict)  # by broker, when it asked last in this term
    since: int = 0  # when its term began


class Model:
    def __init__(self, protections: Protections = ALL_ON) -> None:
        self.now = 0
        self.epoch = 0
        self.leader = 0
        self.batches: list[Batch] = []
        self.committed = 0
        self.judge = Judge()
        self.processes: list[Process] = []
        self.held: list[Callable[[], None]] = []  # requests on their way
        self.accepted = 0  # proposals
        self._asked: dict[int, Callable[[Response], None]] = {}
        self._tickets = 0
        settings = ControllerSettings(cluster_id="k", broker_session_timeout=SESSION)
        self.nodes = {
            id: Node(Controller(id, settings, _Store(self, id), protections, Random(id))) for id in CONTROLLERS
        }
        for broker in BROKERS:
            self._start(broker)

    @property
    def violations(self) -> list[str]:
        return self.judge.violations

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end if self.batches else 0

    def append(self, node: int, epoch: int, values: tuple[bytes, ...]) -> int:
        if (node, epoch) != (self.leader, self.epoch):
            raise NotLeader(self.leader, self.epoch)
        self.batches.append(Batch(values, self.end_offset + len(values)))
        return self.end_offset - 1

    def step(self, action: str, choice: int) -> None:
        """`choice` picks whom it concerns, modulo how many there are."""
        process = self.processes[choice % len(self.processes)]
        match action:
            case "start":
                self._start(BROKERS[choice % len(BROKERS)], both=choice % 5 == 0)
            case "silence":
                process.silent = not process.silent
            case "stop":
                process.target = BrokerState.SHUTDOWN if choice % 2 else BrokerState.FENCED
            case "beat" if not process.silent:
                self._beat(process, lagging=choice % 7 == 0)
            case "propose":
                self._propose(choice)
            case "deliver" if self.held:
                self.held.pop(choice % len(self.held))()
            case "commit":
                self._commit()
            case "elect":
                self._elect(CONTROLLERS[choice % 3], kept=choice // 3 % (len(self.batches) - self.committed + 1))
            case "tell":
                self._tell()
            case "time":
                self._pass_time()
            case "topic":
                new = NewTopic(name=f"t{self._tickets}", partition_count=1, replication_factor=3)
                self._ask(CreateTopicsRequest(topics=(new,)))
            case "ids":
                asks = AllocateProducerIdsRequest(broker_id=process.broker, broker_epoch=process.epoch)
                self._ask(asks)
            case "prefer":
                self._ask(ElectLeadersRequest(election=ElectionType.PREFERRED, partitions=None))

    # The log

    def _elect(self, node: int, kept: int) -> None:
        """Of what is not committed, the new leader has a beginning; that is committed at once."""
        del self.batches[self.committed + kept :]
        self.epoch += 1
        self.leader = node
        while self.committed < len(self.batches):
            self.judge.commit(self.batches[self.committed].values)
            self.committed += 1
        self._hear(node, self.nodes[node].controller.leader_changed(None, self.epoch, self.now))  # if it led before
        self._catch_up(node)
        self._hear(node, self.nodes[node].controller.leader_changed(node, self.epoch, self.now))
        self.nodes[node].since = self.now
        self.nodes[node].heard = {}

    def _tell(self) -> None:
        """Those that do not lead hear who does, and what was committed."""
        for id, node in self.nodes.items():
            if id != self.leader:
                self._hear(id, node.controller.leader_changed(self.leader or None, self.epoch, self.now))
                self._catch_up(id)

    def _commit(self) -> None:
        if self.leader and self.committed < len(self.batches):
            self.judge.commit(self.batches[self.committed].values)
            self.committed += 1
            self._catch_up(self.leader)

    def _catch_up(self, id: int) -> None:
        node = self.nodes[id]
        for batch in self.batches[node.applied : self.committed]:
            node.applied += 1
            self._hear(id, node.controller.committed(batch.values, batch.end, self.now))
        if node.controller.image != self.judge.image:
            self.judge.bad(f"same log, other state: controller {id}")

    # What is asked and answered

    def _ask(self, request: Request, answered: Callable[[Response], None] = lambda _: None) -> None:
        if self.leader:
            self._tickets += 1
            self._asked[self._tickets] = answered
            self._hear(self.leader, self.nodes[self.leader].controller.ask(self._tickets, request, self.now))

    def _hear(self, id: int, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answered):
                ticket = effect.ticket
                assert isinstance(ticket, int)
                self.judge.answered(effect.response)
                self._asked.pop(ticket)(effect.response)

    def _start(self, broker: int, *, both: bool = False) -> None:
        """A new life with an empty disk; the old one has ended, or (a conflict) has not."""
        if not both:
            self.processes = [process for process in self.processes if process.broker != broker]
        process = Process(broker, UUID(int=len(self.processes) + 1 + 1000 * self._tickets))
        self.processes.append(process)
        self.held.append(lambda: self._register(process))

    def _register(self, process: Process) -> None:
        def answered(response: Response) -> None:
            assert isinstance(response, BrokerRegistrationResponse)
            if response.error is not OK:
                self.held.append(lambda: self._register(process))
                return
            self.judge.got_epoch(process.broker, process.incarnation_id, response)
            process.epoch = response.broker_epoch

        request = BrokerRegistrationRequest(
            broker_id=process.broker, cluster_id="k", incarnation_id=process.incarnation_id, features=FEATURES
        )
        self._ask(request, answered)

    def _beat(self, process: Process, *, lagging: bool) -> None:
        if process.epoch < 0:
            return
        node = self.nodes[self.leader] if self.leader else None

        def answered(response: Response) -> None:
            assert isinstance(response, BrokerHeartbeatResponse)
            if response.error is OK and node is not None:
                current = node.controller.image.brokers.get(process.broker)
                if current is None or current.epoch != process.epoch:
                    self.judge.bad(f"heartbeat of a stale process: {process}, {current}")

        request = BrokerHeartbeatRequest(
            broker_id=process.broker,
            broker_epoch=process.epoch,
            target=process.target,
            metadata_offset=0 if lagging else self.batches[self.committed - 1].end if self.committed else 0,
            lease_start_ms=0,
        )
        if node is not None:
            node.heard[process.broker] = self.now
            self._ask(request, answered)

    def _propose(self, choice: int) -> None:
        """A leader wants one broker more, or less; what it knows of brokers is true now, but the request may take its time."""
        led = [
            (id, partition, process)
            for id, partition in self.judge.image.partitions()
            for process in self.processes
            if process.broker == partition.leader and process.epoch >= 0
        ]
        if not led:
            return
        id, partition, leader = led[choice % len(led)]
        other = partition.replicas[choice // 7 % len(partition.replicas)]
        members = set(partition.isr) ^ {other} | {partition.leader}
        lives = {member: self._life(member) for member in members}
        known = tuple((member, lives[member].epoch if lives[member] else -2) for member in sorted(members))  # type: ignore[union-attr]
        request = AlterPartitionRequest(
            broker_id=leader.broker,
            broker_epoch=leader.epoch,
            partitions=(
                ProposedIsr(
                    topic=id.topic_id,
                    index=id.number,
                    leader_epoch=partition.leader_epoch,
                    partition_epoch=partition.partition_epoch,
                    new_isr=known,
                ),
            ),
        )
        self.held.append(lambda: self._ask(request, lambda response: self._altered(request, response)))

    def _altered(self, request: AlterPartitionRequest, response: Response) -> None:
        """KIP-903: whoever is in the ISR by this proposal is in the life that the proposal meant."""
        (proposed,) = request.partitions
        for done in getattr(response, "partitions", ()):
            if done.error is not OK:
                continue
            self.accepted += 1
            partition = self.judge.image.partition(PartitionId(proposed.topic, done.index))  # type: ignore[arg-type]
            for member, epoch in proposed.new_isr:
                broker = self.judge.image.brokers.get(member)
                if partition is not None and member in partition.isr and (broker is None or broker.epoch != epoch):
                    self.judge.bad(f"stale incarnation in an ISR: {proposed}, {broker}")

    def _life(self, broker: int) -> Process | None:
        """The process that a leader has last heard of."""
        return next((process for process in self.processes if process.broker == broker and process.epoch >= 0), None)

    # Time

    def _pass_time(self) -> None:
        """A quarter of a session, and everyone's timers."""
        self.now += SESSION // 4
        for id, node in self.nodes.items():
            self._hear(id, node.controller.tick(self.now))
        leading = self.nodes.get(self.leader)
        if leading is None or leading.controller.pending is None:
            return
        for broker in leading.controller.pending.brokers.values():
            silent = self.now - max(leading.heard.get(broker.id, 0), leading.since)
            if not broker.fenced and silent > 3 * SESSION // 2:
                self.judge.bad(f"silent and not fenced: {broker}")


class _Store:
    def __init__(self, model: Model, node: int) -> None:
        self._model = model
        self._node = node
        self.snapshot_offset = 0

    @property
    def end_offset(self) -> int:
        return self._model.end_offset

    def append(self, epoch: int, values: tuple[bytes, ...]) -> int:
        return self._model.append(self._node, epoch, values)

    def quorum(self) -> QuorumStatus:
        return QuorumStatus(CONTROLLERS, frozenset(CONTROLLERS))


def settle(model: Model) -> None:
    """A cluster that works: a leader, active brokers, a topic."""
    model.step("elect", 0)
    for _ in range(3):
        while model.held:
            model.step("deliver", 0)
        model.step("topic", 0)
        for _ in range(10):
            model.step("commit", 0)
    for process in range(len(BROKERS)):  # 3, 4, 5: none of them lags
        model.step("beat", 3 + process)
        model.step("commit", 0)
    model.step("topic", 0)
    model.step("commit", 0)


def walk(seed: int, steps: int, protections: Protections = ALL_ON) -> Model:
    """A random walk; ends at the first violation."""
    random, model = Random(seed), Model(protections)
    settle(model)
    for action in random.choices(ACTIONS, WEIGHTS, k=steps):
        model.step(action, random.randrange(1 << 16))
        if model.violations:
            break
    return model
