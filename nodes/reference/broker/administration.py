"""What the controller decides: a broker hands such requests on as they are and brings back the answer (KIP-590, without its Envelope).

Creating a topic is answered when this broker has heard of it, too, so that a client's next question is not answered from older metadata.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.create_topics.v5.request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i16, i32

from nodes.reference.broker.controller_channel import ControllerChannel
from nodes.reference.broker.serving import Serving
from nodes.reference.environment import MILLISECOND, SECOND, Caller, Disconnected, Refused
from nodes.reference.server.schema import in_milliseconds, milliseconds

_DEADLINE: Final = 30 * SECOND
_LOOK: Final = 10 * MILLISECOND


class Administration:
    def __init__(self, serving: Serving, channel: ControllerChannel) -> None:
        self._serving = serving
        self._channel = channel

    async def forward(self, caller: Caller, request: Any) -> object:
        """Refused, after the time that the client gives, if there is no active controller: clients try another broker then."""
        if not self._serving.may_serve:
            raise Refused("this broker is fenced")
        wait = getattr(request, "timeout", None)
        deadline = self._serving.clock.now() + (
            _DEADLINE if wait is None else max(in_milliseconds(wait) * MILLISECOND, SECOND)
        )
        try:
            return await self._channel.ask(request, deadline=deadline)
        except Disconnected as gone:
            raise Refused(str(gone)) from gone

    async def create_topics(self, caller: Caller, request: Any) -> object:
        answer: Any = await self.forward(caller, request)
        if not getattr(request, "validate_only", False):
            await self._heard_of([topic.name for topic in answer.topics if topic.error_code is ErrorCode.none])
        return answer

    async def create(
        self, name: str, partitions: int, replication: int, configs: dict[str, str] | None = None
    ) -> ErrorCode:
        """A topic that this broker wants: one that a client asked for, or an internal one."""
        topic = CreatableTopic(
            name=TopicName(name),
            num_partitions=i32(partitions),
            replication_factor=i16(replication),
            assignments=(),
            configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()),
        )
        request = CreateTopicsRequest(topics=(topic,), timeout=milliseconds(5_000))
        try:
            answer = await self._channel.ask(request, deadline=self._serving.clock.now() + 5 * SECOND)
        except Disconnected:
            return ErrorCode.request_timed_out
        error: ErrorCode = answer.topics[0].error_code
        if error is ErrorCode.none:
            await self._heard_of([name])
        return error

    async def auto_create(self, name: str) -> ErrorCode:
        """`num.partitions` and `default.replication.factor` of this broker."""
        settings = self._serving.settings
        return await self.create(name, settings.num_partitions, settings.default_replication_factor)

    async def _heard_of(self, names: list[str]) -> None:
        clock = self._serving.clock
        deadline = clock.now() + 2 * SECOND
        while clock.now() < deadline and not all(self._serving.image.topic(name) for name in names):
            await clock.sleep_until(clock.now() + _LOOK)
