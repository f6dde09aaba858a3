"""Connections to other brokers, by id; where a broker is, its registration says."""

from __future__ import annotations

from typing import Any

from nodes.reference.broker.metadata import Metadata
from nodes.reference.environment import Address, Connection, Disconnected, Environment
from nodes.reference.metadata.entities import Broker


def address_of(broker: Broker | None) -> Address | None:
    """Of its first listener: every broker here has one, for clients and for brokers."""
    return Address(broker.endpoints[0].host, broker.endpoints[0].port) if broker and broker.endpoints else None


class Peers:
    """One connection to each, for one purpose: what waits behind a long poll should have another."""

    def __init__(self, environment: Environment, metadata: Metadata, client_id: str) -> None:
        self._network = environment.network
        self._metadata = metadata
        self._client_id = client_id
        self._connections: dict[int, tuple[Address, Connection]] = {}

    async def ask(self, broker: int, request: object, *, deadline: int) -> Any:
        """kio's response. Disconnected if there is none."""
        connection = await self._connect(broker, deadline)
        return await connection.ask(request, deadline=deadline)

    def drop(self, broker: int) -> None:
        """Whatever is asked there gets no answer any more."""
        _, connection = self._connections.pop(broker, (None, None))
        if connection is not None:
            connection.close()

    def close(self) -> None:
        for broker in tuple(self._connections):
            self.drop(broker)

    async def _connect(self, broker: int, deadline: int) -> Connection:
        address = address_of(self._metadata.image.brokers.get(broker))
        if address is None:
            raise Disconnected(f"broker {broker} is not registered")
        there, connection = self._connections.get(broker, (None, None))
        if connection is None or connection.closed or there != address:
            self.drop(broker)
            connection = await self._network.connect(address, client_id=self._client_id, deadline=deadline)
            self._connections[broker] = address, connection
        return connection
