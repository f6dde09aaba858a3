"""FindCoordinator: who leads the partition that a group or a transactional id belongs to. The topic is created when first asked for."""

from __future__ import annotations

import enum
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from nodes.reference.coordinator.partitioning import GROUPS_TOPIC, TRANSACTIONS_TOPIC, partition_of
from nodes.reference.environment import Caller
from nodes.reference.server.schema import NO_TIME, fitted, response_module
from nodes.reference.server.services import Services


class KeyType(enum.IntEnum):
    GROUP = 0
    TRANSACTION = 1


_TOPICS: Final[dict[int, str]] = {KeyType.GROUP: GROUPS_TOPIC, KeyType.TRANSACTION: TRANSACTIONS_TOPIC}


class Found(NamedTuple):
    error: ErrorCode
    node_id: int = -1
    host: str = ""
    port: int = -1


class CoordinatorFinder:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._creating: set[str] = set()

    async def find_coordinator(self, caller: Caller, request: Any) -> object:
        """Versions 0 to 3 ask for one key, 4 for several (KIP-699)."""
        reply, kind = response_module(request), getattr(request, "key_type", KeyType.GROUP)
        if not hasattr(request, "coordinator_keys"):
            found = await self._find(kind, request.key)
            return fitted(
                reply.FindCoordinatorResponse,
                throttle_time=NO_TIME,
                error_code=found.error,
                error_message=None,
                node_id=found.node_id,
                host=found.host,
                port=found.port,
            )
        coordinators = []
        for key in request.coordinator_keys:
            found = await self._find(kind, key)
            coordinators.append(
                reply.Coordinator(
                    key=key,
                    node_id=found.node_id,
                    host=found.host,
                    port=found.port,
                    error_code=found.error,
                    error_message=None,
                )
            )
        return reply.FindCoordinatorResponse(throttle_time=NO_TIME, coordinators=tuple(coordinators))

    async def _find(self, kind: int, key: str) -> Found:
        topic = _TOPICS.get(kind)
        if topic is None or (kind == KeyType.TRANSACTION and not key):
            return Found(ErrorCode.invalid_request)
        if not self._services.may_serve:
            return Found(ErrorCode.coordinator_not_available)
        partitions = self._services.partition_count(topic)
        if partitions is None:
            await self._create(topic)
            partitions = self._services.partition_count(topic)
        if partitions is None:
            return Found(ErrorCode.coordinator_not_available)
        leader = self._services.leader_of(topic, partition_of(key, partitions))
        where = None if leader is None else self._services.host_and_port(leader)
        if leader is None or where is None:
            return Found(ErrorCode.coordinator_not_available)
        return Found(ErrorCode.none, leader, *where)

    async def _create(self, topic: str) -> None:
        """Once at a time; whoever asks meanwhile is told to ask again."""
        if topic in self._creating:
            return
        self._creating.add(topic)
        try:
            await self._services.create_internal(topic)
        finally:
            self._creating.discard(topic)
