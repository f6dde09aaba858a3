"""Asking the active controller, wherever it is: the leader of the metadata quorum, as far as this broker has heard.

    channel = ControllerChannel(environment, metadata, settings.controllers, client_id="broker-1")
    answer = await channel.ask(BrokerHeartbeatRequest(...), deadline=now + 2 * SECOND)

A controller that is not active answers NOT_CONTROLLER, at the top or for each topic; then the next try goes to whoever leads by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode

from nodes.reference.broker.metadata import Metadata
from nodes.reference.environment import MILLISECOND, Address, Connection, Disconnected, Environment

_RETRY: Final = 50 * MILLISECOND


class ControllerChannel:
    """One connection for what is asked one after the other; long waits (creating topics) should have a channel of their own."""

    def __init__(
        self,
        environment: Environment,
        metadata: Metadata,
        controllers: Mapping[int, Address],
        *,
        client_id: str,
        request_timeout_ms: int,
    ) -> None:
        self._clock = environment.clock
        self._network = environment.network
        self._metadata = metadata
        self._controllers = controllers
        self._client_id = client_id
        self._request_timeout = request_timeout_ms * MILLISECOND
        self._connection: Connection | None = None
        self._connected_to: int | None = None

    async def ask(self, request: object, *, deadline: int) -> Any:
        """Disconnected if no active controller has answered by then; a request that got no answer may have been carried out."""
        while True:
            try:
                answer = await self._ask_once(request, deadline)
                if not _not_controller(answer):
                    return answer
            except Disconnected:
                pass
            if self._clock.now() + _RETRY >= deadline:
                raise Disconnected("no active controller answered in time")
            await self._clock.sleep_until(self._clock.now() + _RETRY)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    async def _ask_once(self, request: object, deadline: int) -> Any:
        leader = self._metadata.leader_id
        address = None if leader is None else self._controllers.get(leader)
        if address is None:
            raise Disconnected("nobody leads the quorum, as far as this broker has heard")
        until = min(deadline, self._clock.now() + self._request_timeout)
        if self._connection is None or self._connection.closed or self._connected_to != leader:
            self.close()
            self._connection = await self._network.connect(address, client_id=self._client_id, deadline=until)
            self._connected_to = leader
        return await self._connection.ask(request, deadline=until)


def _not_controller(answer: Any) -> bool:
    if getattr(answer, "error_code", None) is ErrorCode.not_controller:
        return True
    parts = getattr(answer, "topics", ()) or getattr(answer, "responses", ()) or getattr(answer, "results", ())
    return any(getattr(part, "error_code", None) is ErrorCode.not_controller for part in parts)
