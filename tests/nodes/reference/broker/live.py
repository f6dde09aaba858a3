"""Controllers and brokers in this process, on loopback ports and real disks: what real clients talk to in tests."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from nodes.reference.broker.broker import Broker, observe
from nodes.reference.broker.settings import BrokerSettings
from nodes.reference.controller.settings import ControllerSettings
from nodes.reference.controller.shell import ControllerNode
from nodes.reference.environment import MILLISECOND, SECOND, Address, Environment, Serve
from nodes.reference.process.clock import LoopClock
from nodes.reference.process.codec import Codec
from nodes.reference.process.disk import FileDisk
from nodes.reference.process.network import KafkaListening, KafkaNetwork
from nodes.reference.raft.log import Voters
from nodes.reference.raft.roles import RaftConfig
from nodes.reference.server.controller import controller_handlers

CLUSTER = "a-cluster"
CONTROLLER = 100
PATIENCE = 60.0  # seconds
INTERNAL_TOPICS = {"offsets_topic_num_partitions": 2, "transaction_state_log_num_partitions": 2}


class RememberingNetwork(KafkaNetwork):
    """Knows at which port it listens."""

    def __init__(self) -> None:
        super().__init__(Codec(CLUSTER))
        self.listens: asyncio.Future[Address] = asyncio.get_running_loop().create_future()

    async def listen(self, address: Address, serve: Serve) -> KafkaListening:
        listening = await super().listen(address, serve)
        self.listens.set_result(listening.address)
        return listening


class Live:
    def __init__(self, root: Path, settings: dict[str, Any]) -> None:
        self._root = root
        self._settings = settings
        self._controllers: dict[int, Address] = {}
        self._raft = RaftConfig(cluster_id=CLUSTER, voters=Voters((CONTROLLER,)), election_timeout=50 * MILLISECOND)
        self.brokers: dict[int, Broker] = {}
        self.tasks: dict[int, asyncio.Task[None]] = {}

    @property
    def bootstrap(self) -> str:
        addresses = (broker.listening.address for broker in self.brokers.values() if broker.listening)
        return ",".join(f"{host}:{port}" for host, port in addresses)

    async def start_controller(self) -> None:
        network = RememberingNetwork()
        settings = ControllerSettings(cluster_id=CLUSTER, broker_session_timeout=2 * SECOND)
        node = ControllerNode(
            self._environment(CONTROLLER, network),
            CONTROLLER,
            Address("127.0.0.1", 0),
            {},
            self._raft,
            settings,
        )
        self._spawn(CONTROLLER, node.run(controller_handlers(node)))
        self._controllers[CONTROLLER] = await network.listens

    def start_broker(self, id: int) -> None:
        environment = self._environment(id)
        settings = BrokerSettings(
            node_id=id,
            cluster_id=CLUSTER,
            listener=Address("127.0.0.1", 0),
            controllers=self._controllers,
            broker_heartbeat_interval_ms=200,
            replica_lag_time_max_ms=5_000,
            **{**INTERNAL_TOPICS, **self._settings},
        )
        self.brokers[id] = Broker(environment, settings, observe(environment, settings, self._raft))
        self._spawn(id, self.brokers[id].run())

    async def ready(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while not all(broker.lifecycle.may_serve(time.monotonic_ns()) for broker in self.brokers.values()):
            for task in self.tasks.values():
                if task.done():
                    task.result()
            assert time.monotonic() < deadline, "the brokers did not become active"
            await asyncio.sleep(0.01)

    async def kill(self, id: int) -> None:
        """Its connections end, nothing is said to anybody."""
        self.tasks[id].cancel()
        await asyncio.gather(self.tasks.pop(id), return_exceptions=True)
        del self.brokers[id]

    def _environment(self, id: int, network: KafkaNetwork | None = None) -> Environment:
        network = network or KafkaNetwork(Codec(CLUSTER))
        return Environment(LoopClock(), network, FileDisk(self._root / str(id)), random.Random(id))

    def _spawn(self, id: int, running: Coroutine[object, object, None]) -> None:
        self.tasks[id] = asyncio.get_running_loop().create_task(running)


@asynccontextmanager
async def live(root: Path, brokers: int, **settings: Any) -> AsyncIterator[Live]:
    """settings: of BrokerSettings."""
    cluster = Live(root, settings)
    await cluster.start_controller()
    for id in range(1, brokers + 1):
        cluster.start_broker(id)
    try:
        await cluster.ready()
        yield cluster
    finally:
        for task in cluster.tasks.values():
            task.cancel()
        await asyncio.gather(*cluster.tasks.values(), return_exceptions=True)
