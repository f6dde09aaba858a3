"""Producer ids: handed out one by one from blocks that the controller gives (KIP-730), so that no two producers ever have the same."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId
from kio.static.primitive import i32, i64

from nodes.reference.broker.controller_channel import ControllerChannel
from nodes.reference.broker.serving import Serving
from nodes.reference.environment import SECOND, Caller, Disconnected
from nodes.reference.server.schema import NO_TIME, fitted, response_module

_DEADLINE: Final = 5 * SECOND


class ProducerIds:
    def __init__(self, serving: Serving, channel: ControllerChannel) -> None:
        self._serving = serving
        self._channel = channel
        self._next = 0
        self._end = 0
        self._turn = asyncio.Lock()

    async def next(self, *, deadline: int) -> int | None:
        """None: no controller gave a block of them in time."""
        async with self._turn:
            if self._next == self._end and not await self._allocate(deadline):
                return None
            self._next += 1
            return self._next - 1

    async def _allocate(self, deadline: int) -> bool:
        request = AllocateProducerIdsRequest(
            broker_id=BrokerId(i32(self._serving.settings.node_id)),
            broker_epoch=i64(self._serving.lifecycle.broker_epoch),
        )
        try:
            answer = await self._channel.ask(request, deadline=deadline)
        except Disconnected:
            return False
        if answer.error_code is not ErrorCode.none:
            return False
        self._next = int(answer.producer_id_start)
        self._end = self._next + int(answer.producer_id_len)
        return True

    async def init_producer_id(self, caller: Caller, request: Any) -> object:
        """For idempotent producers; one with a transactional id is its coordinator's business."""
        reply = response_module(request)
        producer_id, error = None, ErrorCode.not_coordinator
        if request.transactional_id is None:
            error = ErrorCode.coordinator_load_in_progress  # retriable
            if self._serving.may_serve:
                producer_id = await self.next(deadline=self._serving.clock.now() + _DEADLINE)
        return fitted(
            reply.InitProducerIdResponse,
            throttle_time=NO_TIME,
            error_code=error if producer_id is None else ErrorCode.none,
            producer_id=-1 if producer_id is None else producer_id,
            producer_epoch=-1 if producer_id is None else 0,
        )
