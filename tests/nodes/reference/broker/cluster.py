"""Three controllers and three brokers in one simulated world, and a client that writes and remembers what was acknowledged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.errors import ErrorCode
from kio.schema.produce.v9 import request as produce
from kio.schema.types import TopicName
from kio.static.primitive import Records, i16, i32

from nodes.reference.broker.broker import Broker, observe
from nodes.reference.broker.settings import BrokerSettings
from nodes.reference.controller.settings import ControllerSettings
from nodes.reference.controller.shell import ControllerNode
from nodes.reference.environment import MILLISECOND, SECOND, Address, Disconnected, Environment
from nodes.reference.metadata.entities import Partition
from nodes.reference.metadata.features import LATEST
from nodes.reference.partition.requests import ClientFetch
from nodes.reference.protections import ALL_ON, Protections
from nodes.reference.raft.log import Voters
from nodes.reference.raft.roles import RaftConfig
from nodes.reference.server.controller import controller_handlers
from nodes.reference.server.schema import milliseconds
from nodes.reference.simulation.world import World
from tests.nodes.reference.producing import produced, records

TOPIC = "orders"
BROKERS = (1, 2, 3)
CLUSTER = "a-cluster"
CONTROLLERS = {id: Address(f"c{id - 100}", 9093) for id in (101, 102, 103)}
RAFT = RaftConfig(cluster_id=CLUSTER, voters=Voters(tuple(CONTROLLERS)))
SESSION = 3 * SECOND


class SimulatedCluster:
    """One topic with one partition on all three brokers."""

    def __init__(
        self,
        seed: int = 1,
        *,
        protections: Protections = ALL_ON,
        record: bool = False,
        flush: bool = False,
        level: int = LATEST,
    ) -> None:
        """flush: every append is on the medium before it is acknowledged (log.flush.interval.messages=1). level: metadata.version."""
        self.world = World(seed, record=record)
        self.protections = protections
        self.flush = flush
        self.level = level
        self.controllers: dict[int, ControllerNode] = {}
        self.brokers: dict[int, Broker] = {}
        self.acknowledged: dict[int, bytes] = {}  # offset -> value
        self.errors: list[ErrorCode] = []
        self.machines = {id: self.world.machine(f"b{id}") for id in BROKERS}
        self.client = self.world.machine("client")
        self.quorum = {id: self.world.machine(address.host) for id, address in CONTROLLERS.items()}
        for id in CONTROLLERS:
            self.start_controller(id)
        for id in BROKERS:
            self.start(id)

    def start_controller(self, id: int) -> None:
        async def program(environment: Environment) -> None:
            settings = ControllerSettings(
                cluster_id=CLUSTER, broker_session_timeout=SESSION, metadata_version=self.level
            )
            self.controllers[id] = node = ControllerNode(
                environment, id, CONTROLLERS[id], CONTROLLERS, RAFT, settings, self.protections
            )
            await node.run(controller_handlers(node))

        self.world.start(self.quorum[id], program)

    def start(self, id: int) -> None:
        async def program(environment: Environment) -> None:
            settings = BrokerSettings(
                node_id=id,
                cluster_id=CLUSTER,
                listener=Address(f"b{id}", 9092),
                controllers=CONTROLLERS,
                replica_lag_time_max_ms=2_000,
                broker_heartbeat_interval_ms=500,
                log_flush_interval_messages=1 if self.flush else None,
                offsets_topic_num_partitions=2,
                transaction_state_log_num_partitions=2,
            )
            follow = observe(environment, settings, RAFT, self.protections)
            self.brokers[id] = broker = Broker(environment, settings, follow, self.protections)
            await broker.run()

        self.world.start(self.machines[id], program)

    # Waiting

    def until(self, condition: Any, seconds: int = 30) -> None:
        self.world.run_for(seconds * SECOND, stop=condition)
        assert condition(), f"not within {seconds} s: {self.world.failures}"

    def ready(self) -> None:
        """All active, and the topic is there."""
        self.until(lambda: len(self.brokers) == 3 and all(self.serves(id) for id in BROKERS))

        async def create(environment: Environment) -> None:
            deadline = environment.clock.now() + 10 * SECOND
            connection = await environment.network.connect(Address("b1", 9092), client_id="client", deadline=deadline)
            request = CreateTopicsRequest(topics=(_topic(),), timeout=milliseconds(5_000))
            answer: Any = await connection.ask(request, deadline=deadline)
            assert answer.topics[0].error_code is ErrorCode.none

        self.world.start(self.client, create)
        self.until(lambda: self.client.process is None)
        self.until(lambda: self.leader is not None and len(self.isr) == 3)
        self.until(lambda: all(broker.replicas.find(TOPIC, 0) for broker in self.brokers.values()))

    def serves(self, id: int) -> bool:
        broker = self.brokers[id]
        return broker.lifecycle.may_serve(broker._clock.now())

    @property
    def active(self) -> ControllerNode | None:
        """The controller that the newest term made active, if it still runs."""
        there = [node for id, node in self.controllers.items() if self.quorum[id].runs and node.core.active]
        return max(there, key=lambda node: node.replica.raft.epoch, default=None)

    @property
    def _partition(self) -> Partition | None:
        """As committed, by the controller that knows most."""
        there = [node.core for id, node in self.controllers.items() if self.quorum[id].runs]
        core = max(there, key=lambda core: core.committed_offset, default=None)
        topic = None if core is None else core.image.topic(TOPIC)
        return None if topic is None else topic.partitions.get(0)

    @property
    def whole(self) -> bool:
        """All replicas in sync, under a broker that knows that it leads."""
        leader = self.leader
        return (
            leader is not None
            and len(self.isr) == len(BROKERS)
            and self.brokers[leader].services.leads(TOPIC, 0) is not None
        )

    @property
    def leader(self) -> int | None:
        partition = self._partition
        return partition.leader if partition and partition.leader >= 0 else None

    @property
    def isr(self) -> tuple[int, ...]:
        return tuple(self._partition.isr) if self._partition else ()

    # The client

    def write(self, count: int, *, acks: int = -1, to: int | None = None, seconds: int = 60) -> None:
        """One record after the other, to whoever leads (or always to one broker), again after each error but the fixed one's."""

        async def program(environment: Environment) -> None:
            for number in range(count):
                await self._write(environment, b"%d" % number, acks, to)

        self.world.start(self.client, program)
        self.until(lambda: self.client.process is None, seconds)

    async def write_until(self, environment: Environment, stop: Callable[[], bool]) -> None:
        """A record every 50 ms, each until it is acknowledged."""
        number = 0
        while not stop():
            await self._write(environment, b"%d" % number, -1, None)
            number += 1
            await environment.clock.sleep_until(environment.clock.now() + 50 * MILLISECOND)

    async def _write(self, environment: Environment, value: bytes, acks: int, to: int | None) -> None:
        clock = environment.clock
        while True:
            broker = self.leader if to is None else to
            try:
                connection = await environment.network.connect(
                    Address(f"b{broker}", 9092), client_id="client", deadline=clock.now() + SECOND
                )
                answer: Any = await connection.ask(_produce(value, acks), deadline=clock.now() + 3 * SECOND)
                connection.close()
                partition = answer.responses[0].partition_responses[0]
                self.errors.append(partition.error_code)
                if partition.error_code is ErrorCode.none:
                    self.acknowledged[partition.base_offset] = value
            except Disconnected:
                self.errors.append(ErrorCode.network_exception)
            if self.errors[-1] is ErrorCode.none or to is not None:
                return
            await clock.sleep_until(clock.now() + 100 * MILLISECOND)

    def committed(self) -> dict[int, bytes]:
        """What the leader would give to a consumer: offset -> value."""
        assert self.leader is not None
        hosted = self.brokers[self.leader].replicas.find(TOPIC, 0)
        assert hosted is not None
        found: dict[int, bytes] = {}
        while content := hosted.partition.client_fetch(ClientFetch(offset=max(found, default=-1) + 1)).records:
            found |= {record.offset: record.value or b"" for record in records(content)}
        return found


def _produce(value: bytes, acks: int) -> produce.ProduceRequest:
    partition = produce.PartitionProduceData(index=i32(0), records=Records(produced(value)))
    return produce.ProduceRequest(
        acks=i16(acks),
        timeout=milliseconds(1_000),
        topic_data=(produce.TopicProduceData(name=TopicName(TOPIC), partition_data=(partition,)),),
    )


def _topic() -> CreatableTopic:
    return CreatableTopic(
        name=TopicName(TOPIC), num_partitions=i32(1), replication_factor=i16(3), assignments=(), configs=()
    )
