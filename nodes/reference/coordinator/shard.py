"""The shell around a coordinator's core: one partition of an internal topic, while this broker leads it.

    shards = Shards(GROUPS_TOPIC, services, clock, make_core, clock.now)
    said = await shards.ask("my-group", lambda core, ticket, now: core.join(ticket, request, now))
        Joined(...), or the ErrorCode that a client is told where this broker does not coordinate that key

A broker that becomes leader loads the whole log first, and then waits until all of it is committed: what a client was told by an earlier
coordinator it must be told again, and what it is told now must not be lost to a later one. Kafka does not wait. Until then everybody is
told COORDINATOR_LOAD_IN_PROGRESS. A broker that does not lead any more, or whose lease is over, says NOT_COORDINATOR.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, Generic, Protocol, TypeVar

from kio.schema.errors import ErrorCode

from nodes.reference.coordinator.effects import NEVER, Answer, Effect, SendMarkers, Ticket, Write
from nodes.reference.coordinator.partitioning import partition_of
from nodes.reference.environment import MILLISECOND, Clock
from nodes.reference.log.batch import BatchRefused, batches
from nodes.reference.log.keyed import Undecodable, encode
from nodes.reference.server.services import Services

_LOG: Final = logging.getLogger("krash.reference.coordinator")
_LOOK: Final = 5 * MILLISECOND


class Core(Protocol):
    """What the coordinators of groups and of transactions have in common."""

    def load(self, content: bytes) -> None: ...
    def loaded(self, now: int) -> list[Effect]: ...
    def written(self, token: int, error: ErrorCode, base_offset: int, now: int) -> list[Effect]: ...
    @property
    def next_deadline(self) -> int: ...
    def tick(self, now: int) -> list[Effect]: ...
    def give_up(self) -> list[Effect]: ...


C = TypeVar("C", bound=Core)
T = TypeVar("T")
SendThem = Callable[[SendMarkers], Coroutine[Any, Any, dict[Any, ErrorCode]]]


class Shard(Generic[C]):
    """In one leader epoch. time: what the core takes for `now`."""

    def __init__(
        self, core: C, topic: str, partition: int, epoch: int, services: Services, clock: Clock, time: Callable[[], int]
    ) -> None:
        self.core = core
        self.state: ErrorCode = ErrorCode.coordinator_load_in_progress  # none: it coordinates
        self.send_markers: SendThem | None = None
        self._topic, self._partition, self._epoch = topic, partition, epoch
        self._services = services
        self._clock = clock
        self._time = time
        self._tickets = 0
        self._waiting: dict[Ticket, asyncio.Future[object]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._after_loading: list[Callable[[C], None]] = []
        self._spawn(self._load())

    @property
    def name(self) -> str:
        return f"{self._topic}-{self._partition}"

    async def ask(self, call: Callable[[C, Ticket, int], list[Effect]]) -> Any:
        """call: hands a request to the core, given its ticket and the time. What the core answers."""
        self._tickets += 1
        ticket, answered = self._tickets, asyncio.get_running_loop().create_future()
        self._waiting[ticket] = answered
        try:
            self._take(call(self.core, ticket, self._time()))
            return await answered
        finally:
            self._waiting.pop(ticket, None)

    def direct(self, call: Callable[[C, int], T]) -> T:
        """What needs no ticket, because it is answered at once."""
        return call(self.core, self._time())

    def tell(self, news: Callable[[C], None]) -> None:
        """Something that the log has, too: if the shard is still loading, once it has loaded."""
        if self.state is ErrorCode.coordinator_load_in_progress:
            self._after_loading.append(news)
        else:
            news(self.core)

    def tick(self) -> None:
        now = self._time()
        if self.state is ErrorCode.none and self.core.next_deadline <= now:
            self._take(self.core.tick(now))

    def close(self) -> None:
        """Another leads. What is on its way into the log may arrive; nobody here will be told."""
        self.state = ErrorCode.not_coordinator
        for task in tuple(self._tasks):
            task.cancel()
        self._take(self.core.give_up())

    async def _load(self) -> None:
        offset = 0
        try:
            while True:
                read = self._services.read(self._topic, self._partition, offset)
                if read.error is not ErrorCode.none:
                    raise Undecodable(f"it cannot be read: {read.error.name}")
                if read.records:
                    self.core.load(read.records)
                    offset = max(header.next_offset for _, header in batches(read.records))
                    await self._clock.sleep_until(self._clock.now())
                elif read.high_watermark >= offset:
                    break
                else:
                    await self._clock.sleep_until(self._clock.now() + _LOOK)
        except (Undecodable, BatchRefused) as error:
            _LOG.error("%s cannot be coordinated from: %s", self.name, error)
            self.state = ErrorCode.coordinator_not_available
            return
        for news in self._after_loading:
            news(self.core)
        self.state = ErrorCode.none
        _LOG.info("%s is loaded up to offset %d, in epoch %d", self.name, offset, self._epoch)
        self._take(self.core.loaded(self._time()))

    def _take(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Answer(ticket, said):
                    waiting = self._waiting.get(ticket)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(said)
                case Write():
                    self._spawn(self._write(effect))
                case SendMarkers():
                    self._spawn(self._mark(effect))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _LOG.error("%s fails", self.name, exc_info=task.exception())
            self.state = ErrorCode.coordinator_not_available

    async def _write(self, write: Write) -> None:
        """Tasks begin in the order in which they were made, and partitions answer in the order of their offsets."""
        batch = encode(write.records, timestamp=self._clock.wall(), writer=write.writer)
        written = await self._services.append(
            self._topic, self._partition, batch, leader_epoch=self._epoch, deadline=NEVER
        )
        if self.state is ErrorCode.none:
            self._take(self.core.written(write.token, written.error, written.base_offset, self._time()))

    async def _mark(self, markers: SendMarkers) -> None:
        assert self.send_markers is not None, "only transactions have markers"
        results = await self.send_markers(markers)
        if self.state is ErrorCode.none:
            self._take(self.core.marked(markers, results, self._time()))  # type: ignore[attr-defined]


class Shards(Generic[C]):
    """Those partitions of one internal topic that this broker leads. make: a core for a leader epoch."""

    def __init__(
        self, topic: str, services: Services, clock: Clock, make: Callable[[int], C], time: Callable[[], int]
    ) -> None:
        self.send_markers: SendThem | None = None
        self._topic = topic
        self._services = services
        self._clock = clock
        self._make = make
        self._time = time
        self._shards: dict[int, Shard[C]] = {}
        services.watch_leadership(topic, self._leadership_changed)

    def __iter__(self) -> Iterator[Shard[C]]:
        return iter(tuple(self._shards.values()))

    def of_partition(self, partition: int) -> Shard[C] | None:
        return self._shards.get(partition)

    def find(self, key: str) -> Shard[C] | ErrorCode:
        """The shard that coordinates a key; what a client is told where there is none."""
        partitions = self._services.partition_count(self._topic)
        if not self._services.may_serve or partitions is None:
            return ErrorCode.not_coordinator
        shard = self._shards.get(partition_of(key, partitions))
        if shard is None:
            return ErrorCode.not_coordinator
        return shard if shard.state is ErrorCode.none else shard.state

    async def ask(self, key: str, call: Callable[[C, Ticket, int], list[Effect]]) -> Any:
        shard = self.find(key)
        return shard if isinstance(shard, ErrorCode) else await shard.ask(call)

    def tick(self) -> None:
        for shard in self:
            shard.tick()

    def close(self) -> None:
        for partition in tuple(self._shards):
            self._leadership_changed(partition, None)

    def _leadership_changed(self, partition: int, epoch: int | None) -> None:
        led = self._shards.pop(partition, None)
        if led is not None:
            led.close()
        if epoch is not None:
            shard = Shard(self._make(epoch), self._topic, partition, epoch, self._services, self._clock, self._time)
            shard.send_markers = self.send_markers
            self._shards[partition] = shard
