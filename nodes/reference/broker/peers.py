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
    """One connection to each for each kind of request: none waits behind a long poll, or behind markers that wait for followers."""

    def __init__(self, environment: Environment, metadata: Metadata, client_id: str) -> None:
        self._network = environment.network
        self._metadata = metadata
        self._client_id = client_id
        self._connections: dict[tuple[int, type], tuple[Address, Connection]] = {}

    async def ask(self, broker: int, request: object, *, deadline: int) -> Any:
        """kio's response. Disconnected if there is none."""
        connection = await self._connect(broker, type(request), deadline)
        return await connection.ask(request, deadline=deadline)

    def drop(self, broker: int) -> None:
        """Whatever is asked there gets no answer any more."""
        for key in [key for key in self._connections if key[0] == broker]:
            self._drop(*key)

    def close(self) -> None:
        for key in tuple(self._connections):
            self._drop(*key)

    def _drop(self, broker: int, kind: type) -> None:
        _, connection = self._connections.pop((broker, kind), (None, None))
        if connection is not None:
            connection.close()

    async def _connect(self, broker: int, kind: type, deadline: int) -> Connection:
        address = address_of(self._metadata.image.brokers.get(broker))
        if address is None:
            raise Disconnected(f"broker {broker} is not registered")
        connection = self._open(broker, kind, address)
        if connection is not None:
            return connection
        made = await self._network.connect(address, client_id=self._client_id, deadline=deadline)
        connection = self._open(broker, kind, address)
        if connection is not None:  # somebody else was quicker
            made.close()
            return connection
        self._drop(broker, kind)
        self._connections[broker, kind] = address, made
        return made

    def _open(self, broker: int, kind: type, address: Address) -> Connection | None:
        there, connection = self._connections.get((broker, kind), (None, None))
        return connection if connection is not None and not connection.closed and there == address else None
