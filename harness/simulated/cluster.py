"""A whole reference cluster in one thread: three controllers, three brokers, on simulated machines.

The same shells as in real processes (`nodes/reference/process/node.py`), in a world of which a seed decides everything. Short timeouts, so
that a minute of it has many elections.

    cluster = SimulatedCluster(seed=7, Shape(protections=Protections(off=[...])))
    cluster.ready([Topic("log", partitions=3, replication=3)])
    cluster.kill("b1"); cluster.world.run_for(3 * SECOND); cluster.start("b1")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i16, i32

from harness.simulated.client import Client
from nodes.reference.broker.broker import Broker, observe
from nodes.reference.broker.settings import BrokerSettings
from nodes.reference.controller.settings import ControllerSettings
from nodes.reference.controller.shell import ControllerNode
from nodes.reference.coordinator.groups.settings import GroupSettings
from nodes.reference.coordinator.partitioning import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from nodes.reference.coordinator.settings import CoordinatorSettings
from nodes.reference.environment import MILLISECOND, SECOND, Address, Disconnected, Environment
from nodes.reference.metadata.entities import Partition, PartitionId
from nodes.reference.metadata.features import LATEST
from nodes.reference.protections import ALL_ON, Protections
from nodes.reference.raft.log import Batch, Snapshot, Voters
from nodes.reference.raft.roles import RaftConfig
from nodes.reference.server.controller import controller_handlers
from nodes.reference.server.schema import milliseconds
from nodes.reference.simulation.world import Machine, Program, World

_GROUPS: Final = GroupSettings(group_min_session_timeout_ms=1_000, group_initial_rebalance_delay_ms=300)
COORDINATED_PARTITIONS: Final = 2  # of each internal topic
CLUSTER_ID: Final = "simulated"
CONTROLLER_PORT, BROKER_PORT = 9093, 9092


@dataclass(frozen=True, kw_only=True)
class Topic:
    name: str = "log"
    partitions: int = 2
    replication: int = 3
    config: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """brokers have the ids 1, 2, ...; controllers 101, 102, ...

    off_when_ready: the cluster comes up with all protections, because without one of them it may never do so.
    """

    controllers: int = 3
    brokers: int = 3
    topics: tuple[Topic, ...] = (Topic(),)
    protections: Protections = ALL_ON
    off_when_ready: bool = False
    session: int = 1500 * MILLISECOND
    heartbeat_ms: int = 200
    replica_lag_ms: int = 1500
    replica_fetch_max_bytes: int = 1 << 20  # less than a batch: one batch at a time
    min_insync_replicas: int = 1
    flush_messages: int | None = None
    request_timeout_ms: int = 300  # of what a broker asks a controller: as in Kafka (2 s of 9 s) well below its session
    unclean: bool = False
    snapshot_every: int = 40  # records of the metadata log
    raft_fetch_max_bytes: int = 8 << 20  # of the metadata log; less than a batch: one batch at a time
    largest_drift: int = 100  # parts in a million
    level: int = LATEST  # metadata.version


class NotReady(Exception):
    """The cluster did not come up in time: says nothing about what is tested."""


class SimulatedCluster:
    def __init__(self, seed: int, shape: Shape = Shape(), *, record: bool = False) -> None:
        self.shape = shape
        self.protections = Protections(() if shape.off_when_ready else shape.protections.off)
        self.world = World(seed, record=record)
        self.controllers: dict[str, ControllerNode] = {}
        self.brokers: dict[str, Broker] = {}
        self.committed: Callable[[Batch], None] = lambda batch: (
            None
        )  # each controller's next committed batch of the metadata log
        random = self.world.random("drift")
        self._addresses = {
            100 + number: Address(f"c{number}", CONTROLLER_PORT) for number in range(1, shape.controllers + 1)
        }
        self.nodes = [*(f"c{n}" for n in range(1, shape.controllers + 1)), *self.broker_names]
        for name in self.nodes:
            self.world.machine(name, drift=random.randint(-shape.largest_drift, shape.largest_drift))
        self._operator = self.world.machine("operator")
        for name in self.nodes:
            self.start(name)

    @property
    def broker_names(self) -> list[str]:
        return [f"b{number}" for number in range(1, self.shape.brokers + 1)]

    @property
    def bootstrap(self) -> list[Address]:
        return [Address(name, BROKER_PORT) for name in self.broker_names]

    def machine(self, name: str) -> Machine:
        return self.world.machines[name]

    # What is done to it

    def start(self, name: str) -> None:
        """Nothing if it runs."""
        self.world.start(
            self.machine(name), self._controller(name) if name.startswith("c") else self._broker(name, int(name[1:]))
        )

    def kill(self, name: str) -> None:
        self.world.kill(self.machine(name))

    def start_twin(self, name: str) -> None:
        """Another process with this broker's id, on a machine of its own."""
        twin = _twin(name)
        machine = self.world.machines.get(twin) or self.world.machine(twin)
        self.world.start(machine, self._broker(twin, int(name[1:])))

    def kill_twin(self, name: str) -> None:
        self.kill(_twin(name))

    def cut(self, one: str, other: str) -> None:
        """Both ways, until `world.network.heal`."""
        self.world.network.cut(one, other)
        self.world.network.cut(other, one)

    def heal(self) -> None:
        self.world.network.heal()
        self.world.network.release()
        for name in self.nodes:
            self.world.resume(self.machine(name))
            self.start(name)

    # What can be seen of it

    def ready(self, within: int = 30 * SECOND) -> None:
        """Every broker is active, and every topic is there with all its replicas in sync. NotReady."""
        self._until(self._all_active, within, "the brokers are not all active")
        self.world.start(self._operator, self._create_topics)
        self._until(self._all_in_sync, within, "the topics are not there, or not all replicas are in sync")
        self.protections.off = self.shape.protections.off

    def partition(self, topic: str, number: int) -> Partition | None:
        """As the active controller has it, committed or about to be."""
        active = self.active
        known = active.core.image.topic(topic) if active else None
        return active.core.image.partition(PartitionId(known.id, number)) if active and known else None

    @property
    def active(self) -> ControllerNode | None:
        """The active controller; of two that think so, the one of the newer epoch."""
        running = [node for name, node in self.controllers.items() if self.machine(name).runs and node.core.active]
        return max(running, key=lambda node: node.replica.raft.epoch, default=None)

    def healed(self) -> bool:
        """Internal topics, too: what groups and transactions have committed is no less worth."""
        return self._all_active() and self._all_in_sync() and self._internal_in_sync()

    def _all_active(self) -> bool:
        active = self.active
        return active is not None and all(
            (broker := active.core.image.brokers.get(number)) is not None and not broker.fenced
            for number in range(1, self.shape.brokers + 1)
        )

    def _all_in_sync(self) -> bool:
        return all(
            (found := self.partition(topic.name, number)) is not None
            and found.leader >= 0
            and len(found.isr) == len(found.replicas)
            for topic in self.shape.topics
            for number in range(topic.partitions)
        )

    def _internal_in_sync(self) -> bool:
        image = self.active.core.image if self.active else None
        topics = (
            []
            if image is None
            else [topic for name in (GROUPS_TOPIC, TRANSACTIONS_TOPIC) if (topic := image.topic(name)) is not None]
        )
        return all(len(found.isr) == len(found.replicas) for topic in topics for found in topic.partitions.values())

    def _until(self, condition: Callable[[], bool], within: int, otherwise: str) -> None:
        self.world.run_for(within, stop=condition)
        if not condition():
            raise NotReady(f"{otherwise} after {within / SECOND:g} s of its time; {self.world.failures or ''}")

    # Programs

    def _controller(self, name: str) -> Program:
        shape, node_id = self.shape, 100 + int(name[1:])

        async def program(environment: Environment) -> None:
            node = ControllerNode(
                environment,
                node_id,
                self._addresses[node_id],
                self._addresses,
                self._raft,
                ControllerSettings(
                    cluster_id=CLUSTER_ID,
                    broker_session_timeout=shape.session,
                    unclean_leader_election_enable=shape.unclean,
                    snapshot_every=shape.snapshot_every,
                    snapshot_every_lagging=3 * shape.snapshot_every,
                    metadata_version=shape.level,
                ),
                self.protections,
            )
            self.controllers[name] = node
            node.tell(_Committed(self))
            await node.run(controller_handlers(node))

        return program

    def _broker(self, name: str, node_id: int) -> Program:
        shape = self.shape

        async def program(environment: Environment) -> None:
            settings = BrokerSettings(
                node_id=node_id,
                cluster_id=CLUSTER_ID,
                listener=Address(name, BROKER_PORT),
                controllers=self._addresses,
                broker_heartbeat_interval_ms=shape.heartbeat_ms,
                request_timeout_ms=shape.request_timeout_ms,
                replica_lag_time_max_ms=shape.replica_lag_ms,
                replica_fetch_max_bytes=shape.replica_fetch_max_bytes,
                replica_high_watermark_checkpoint_interval_ms=1_000,
                min_insync_replicas=shape.min_insync_replicas,
                log_flush_interval_messages=shape.flush_messages,
                auto_create_topics_enable=False,
                offsets_topic_num_partitions=COORDINATED_PARTITIONS,
                transaction_state_log_num_partitions=COORDINATED_PARTITIONS,
                coordinators=CoordinatorSettings(groups=_GROUPS),
            )
            follow = observe(environment, settings, self._raft, self.protections)
            self.brokers[name] = broker = Broker(environment, settings, follow, self.protections)
            await broker.run()

        return program

    @property
    def _raft(self) -> RaftConfig:
        return RaftConfig(
            cluster_id=CLUSTER_ID,
            voters=Voters(tuple(self._addresses)),
            election_timeout=200 * MILLISECOND,
            election_backoff_max=200 * MILLISECOND,
            fetch_timeout=500 * MILLISECOND,
            request_timeout=500 * MILLISECOND,
            fetch_max_wait_ms=200,
            fetch_max_bytes=self.shape.raft_fetch_max_bytes,
        )

    async def _create_topics(self, environment: Environment) -> None:
        client = Client(environment, "operator", self.bootstrap)
        topics = tuple(_creatable(topic) for topic in self.shape.topics)
        request = CreateTopicsRequest(topics=topics, timeout=milliseconds(10_000), validate_only=False)
        while True:
            await client.refresh()
            try:
                answer = await client.ask(
                    environment.random.randint(1, self.shape.brokers), request, timeout=12 * SECOND
                )
            except (Disconnected, KeyError):
                continue
            if all(one.error_code in (ErrorCode.none, ErrorCode.topic_already_exists) for one in answer.topics):
                return


def _twin(name: str) -> str:
    return f"{name}-twin"


class _Committed:
    """What a controller hears of its log (`raft/replica.py`, StateMachine), told to whoever listens at the cluster."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def load(self, snapshot: Snapshot) -> None:
        """Others have told what it stands for."""

    def apply(self, batch: Batch) -> None:
        self._cluster.committed(batch)

    def snapshot(self) -> tuple[bytes, ...]:
        return ()

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        """Claims are looked at from outside."""


def _creatable(topic: Topic) -> CreatableTopic:
    return CreatableTopic(
        name=TopicName(topic.name),
        num_partitions=i32(topic.partitions),
        replication_factor=i16(topic.replication),
        assignments=(),
        configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in topic.config.items()),
    )


def partitions_of(topics: Sequence[Topic]) -> list[tuple[str, int]]:
    return [(topic.name, number) for topic in topics for number in range(topic.partitions)]
