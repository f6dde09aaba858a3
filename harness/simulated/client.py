"""What simulated clients share: where partitions are led, a connection to each broker, answers by a deadline.

    client = Client(environment, "w1.p0", [Address("b1", 9092), ...])
    leader = await client.leader("log", 0)                      # node id; waits for metadata that names one
    response = await client.ask(leader, ProduceRequest(...))    # Disconnected: unknown whether it was carried out

Metadata is asked anew when an answer says that it was wrong, as every Kafka client does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v3.response import FindCoordinatorResponse
from kio.schema.metadata.v12.request import MetadataRequest
from kio.schema.metadata.v12.response import MetadataResponse
from kio.static.primitive import i8

from nodes.reference.environment import MILLISECOND, SECOND, Address, Connection, Disconnected, Environment

REQUEST_TIMEOUT: Final = 2 * SECOND
BACKOFF: Final = 50 * MILLISECOND
GROUP, TRANSACTION = 0, 1  # key types of FindCoordinator


class Asked(NamedTuple):
    """response: None if there was none in time; then the request may have been carried out."""

    leader: int
    response: Any


class Client:
    def __init__(self, environment: Environment, client_id: str, bootstrap: Sequence[Address]) -> None:
        self.environment = environment
        self.client_id = client_id
        self._bootstrap = list(bootstrap)
        self._brokers: dict[int, Address] = {}
        self._leaders: dict[tuple[str, int], int] = {}
        self._partitions: set[tuple[str, int]] | None = None
        self._connections: dict[Address, Connection] = {}

    @property
    def now(self) -> int:
        return self.environment.clock.now()

    async def pause(self, duration: int = BACKOFF) -> None:
        await self.environment.clock.sleep_until(self.now + duration)

    async def leader(self, topic: str, partition: int, *, deadline: int) -> int | None:
        """Node id; None: nobody led it before the deadline."""
        while self.now < deadline:
            leader = self._leaders.get((topic, partition))
            if leader is not None and leader in self._brokers:
                return leader
            await self.refresh()
        return None

    def is_gone(self, topic: str, partition: int) -> bool:
        """Is there no such partition, by the newest metadata?"""
        return self._partitions is not None and (topic, partition) not in self._partitions

    def forget_leader(self, topic: str, partition: int) -> None:
        self._leaders.pop((topic, partition), None)

    async def ask_leader(
        self, place: tuple[str, int], request: object, *, deadline: int, timeout: int = REQUEST_TIMEOUT
    ) -> Asked | None:
        """Once, whoever leads a partition now. None: nobody led it before the deadline."""
        leader = await self.leader(*place, deadline=deadline)
        if leader is None:
            return None
        try:
            return Asked(leader, await self.ask(leader, request, timeout=timeout))
        except Disconnected:
            self.forget_leader(*place)
            return Asked(leader, None)

    async def refresh(self) -> None:
        """Metadata from whichever broker answers; a pause if it brings nothing."""
        addresses = [*self._bootstrap, *self._brokers.values()]
        address = self.environment.random.choice(addresses)
        request = MetadataRequest(
            topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        try:
            answer = await self._ask(address, request, REQUEST_TIMEOUT)
        except Disconnected:
            await self.pause()
            return
        assert isinstance(answer, MetadataResponse)
        self._brokers = {int(broker.node_id): Address(broker.host, int(broker.port)) for broker in answer.brokers}
        leaders = {
            (str(topic.name), int(partition.partition_index)): int(partition.leader_id)
            for topic in answer.topics
            for partition in topic.partitions
        }
        self._leaders = {key: leader for key, leader in leaders.items() if leader >= 0}
        self._partitions = set(leaders)
        await self.pause()

    async def coordinator(self, key: str, kind: int, *, deadline: int) -> int | None:
        """Of what a key names, a group or a transactional id. None: nobody said before the deadline."""
        while self.now < deadline:
            address = self.environment.random.choice([*self._bootstrap, *self._brokers.values()])
            try:
                found = await self._ask(address, FindCoordinatorRequest(key=key, key_type=i8(kind)), REQUEST_TIMEOUT)
            except Disconnected:
                await self.pause()
                continue
            assert isinstance(found, FindCoordinatorResponse)
            if found.error_code is ErrorCode.none:
                self._brokers[int(found.node_id)] = Address(found.host, int(found.port))
                return int(found.node_id)
            await self.pause()
        return None

    async def ask(self, node: int, request: object, *, timeout: int = REQUEST_TIMEOUT) -> Any:
        """Disconnected when there is no answer in time."""
        return await self._ask(self._brokers[node], request, timeout)

    async def _ask(self, address: Address, request: object, timeout: int) -> object:
        deadline = self.now + timeout
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            network = self.environment.network
            connection = await network.connect(address, client_id=self.client_id, deadline=deadline)
            self._connections[address] = connection
        return await connection.ask(request, deadline=deadline)
