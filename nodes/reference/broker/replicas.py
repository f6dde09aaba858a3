"""All partitions that this broker has replicas of: opened from the disk, told of metadata, their effects carried out.

    replicas = Replicas(environment, settings, protections, metadata, propose=alterations.propose)
    replicas.take_up(broker_epoch)                        # registered, and the image has this registration: open everything
    hosted = replicas.find("orders", 0)                   # Hosted | None
    answer = await replicas.produce(hosted, batch, acks=-1, deadline=...)

Before `take_up` no partition exists here: metadata older than this process's own registration tells of leaderships that ended with the
process before it, and a log replaced by an empty one must not be led on their account (KIP-903). Directories and checkpoints are Kafka's:
`orders-0/00000000000000000000.log` with `partition.metadata`, by which a topic of the same name that was created anew is known.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from nodes.reference.broker import directories
from nodes.reference.broker.hosted import Hosted
from nodes.reference.broker.metadata import Changes, Metadata
from nodes.reference.broker.settings import BrokerSettings
from nodes.reference.environment import MILLISECOND, Environment
from nodes.reference.log import checkpoint
from nodes.reference.log.log import Log
from nodes.reference.metadata.entities import PartitionId
from nodes.reference.metadata.image import BROKER, EVERY_BROKER, TOPIC
from nodes.reference.partition.effects import (
    AlterPartition,
    AskLeaderOffsets,
    Effect,
    FetchRefused,
    HighWatermarkMoved,
    LogFailed,
    LogGrew,
    LogTruncated,
    ProduceAnswered,
)
from nodes.reference.partition.local import Local
from nodes.reference.partition.partition import Partition
from nodes.reference.partition.requests import Produce, WriteMarker
from nodes.reference.protections import Protections

TICK: Final = 100 * MILLISECOND
_LOG: Final = logging.getLogger("krash.reference.broker")


class Replicas:
    """propose: hands an ISR change to whoever asks the controller. moved: leaders or followers changed. lost: the disk failed."""

    def __init__(
        self, environment: Environment, settings: BrokerSettings, protections: Protections, metadata: Metadata
    ) -> None:
        self._clock = environment.clock
        self._disk = environment.disk
        self._settings = settings
        self._protections = protections
        self._metadata = metadata
        self._hosted: dict[PartitionId, Hosted] = {}
        self._by_name: dict[tuple[str, int], Hosted] = {}
        self._tickets: dict[int, asyncio.Future[ProduceAnswered]] = {}
        self._ticket = 0
        self._checkpoint: Mapping[tuple[str, int], int] = {}
        self._recovery_points: Mapping[tuple[str, int], int] = {}
        self.broker_epoch = -1
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.propose: Callable[[Hosted, AlterPartition], None] = _nobody
        self.ask_offsets: Callable[[Hosted, AskLeaderOffsets], None] = _nobody
        self.moved: list[Callable[[], None]] = []
        metadata.watch(self._metadata_changed)

    # Looking

    def __iter__(self) -> Iterator[Hosted]:
        return iter(tuple(self._hosted.values()))

    def find(self, topic: str, index: int) -> Hosted | None:
        return self._by_name.get((topic, index))

    def by_id(self, id: PartitionId) -> Hosted | None:
        return self._hosted.get(id)

    @property
    def taken_up(self) -> bool:
        return self.broker_epoch >= 0

    # Metadata

    def take_up(self, broker_epoch: int) -> bool:
        """Open every partition of this broker; False while the image does not have this registration. Again for a new epoch."""
        mine = self._metadata.image.brokers.get(self._settings.node_id)
        if mine is None or mine.epoch != broker_epoch:
            return False
        if self.broker_epoch != broker_epoch:
            if not self.taken_up:
                self._checkpoint = directories.offsets(self._disk, checkpoint.HIGH_WATERMARKS)
                self._recovery_points = directories.offsets(self._disk, checkpoint.RECOVERY_POINTS)
            self.broker_epoch = broker_epoch
            self._catch_up(Changes(everything=True))
        return True

    def _metadata_changed(self, changes: Changes) -> None:
        if self.taken_up:
            self._catch_up(changes)

    def _catch_up(self, changes: Changes) -> None:
        """Every partition hears of brokers, those that changed of themselves; new ones are opened, removed ones are deleted."""
        image, now = self._metadata.image, self._clock.now()
        views = image.broker_views
        concerned = set(changes.partitions)
        if changes.everything:
            concerned |= {id for id, _ in image.partitions_of(self._settings.node_id)}
        if changes.everything or changes.brokers or changes.configs:
            concerned |= set(self._hosted)
        gone = [id for id in sorted(concerned & set(self._hosted)) if image.partition(id) is None]
        gone += [PartitionId(topic.id, index) for topic in changes.removed for index in topic.partitions]
        opened = False
        try:
            for id in gone:
                self._delete(id, now)
            for id in sorted(concerned):
                known = image.partition(id)
                hosted = self._hosted.get(id)
                if known is None or (hosted is None and self._settings.node_id not in known.replicas):
                    continue
                if hosted is None:
                    hosted = self._open(id, image.topics[id.topic_id].name)
                    opened = True
                local = hosted.partition.local
                local.broker_epoch = self.broker_epoch
                if changes.configs:
                    local.settings = self._settings.partition(self._configured(hosted.topic))
                self.carry_out(hosted, hosted.partition.metadata_changed(known.view, views, now))
                hosted.wake_all()
        except OSError as error:
            self._fail(str(error))
        if opened or changes.everything:
            self._write_recovery_points()  # once for all of them
        for moved in self.moved:
            moved()

    def _configured(self, topic: str) -> dict[str, str]:
        image = self._metadata.image
        return {**image.config(BROKER, EVERY_BROKER), **image.config(TOPIC, topic)}

    def _open(self, id: PartitionId, topic: str) -> Hosted:
        directory = directories.prepare(self._disk, topic, id)
        configured = self._configured(topic)
        log = Log.open(
            self._disk,
            directory,
            self._settings.log(configured),
            self._protections,
            high_watermark=self._checkpoint.get((topic, id.number), 0),
            recovery_point=self._recovery_points.get((topic, id.number), 0),
        )
        local = Local(
            broker=self._settings.node_id,
            broker_epoch=self.broker_epoch,
            log=log,
            settings=self._settings.partition(configured),
            protections=self._protections,
            brokers=self._metadata.image.broker_views,
        )
        hosted = Hosted(id, topic, Partition(local))
        self._hosted[id] = self._by_name[topic, id.number] = hosted
        return hosted

    def _delete(self, id: PartitionId, now: int) -> None:
        hosted = self._hosted.pop(id, None)
        if hosted is None:
            return
        if self._by_name.get((hosted.topic, id.number)) is hosted:
            del self._by_name[hosted.topic, id.number]
        self.carry_out(hosted, hosted.partition.metadata_changed(None, self._metadata.image.broker_views, now))
        hosted.partition.local.log.close()
        directories.delete(self._disk, hosted.topic, id)
        hosted.wake_all()

    # Writing

    async def produce(
        self, hosted: Hosted, content: bytes, *, acks: int, deadline: int, of_coordinator: bool = False
    ) -> ProduceAnswered:
        ticket, answered = self._new_ticket()
        request = Produce(ticket=ticket, content=content, acks=acks, deadline=deadline, of_coordinator=of_coordinator)
        try:
            self.carry_out(hosted, hosted.partition.produce(request, self._clock.now()))
            return await answered
        finally:
            self._tickets.pop(ticket, None)

    async def write_marker(self, hosted: Hosted, marker: Callable[[int], WriteMarker]) -> ProduceAnswered:
        """marker: makes the request, given its ticket."""
        ticket, answered = self._new_ticket()
        try:
            self.carry_out(hosted, hosted.partition.write_marker(marker(ticket), self._clock.now()))
            return await answered
        finally:
            self._tickets.pop(ticket, None)

    def _new_ticket(self) -> tuple[int, asyncio.Future[ProduceAnswered]]:
        self._ticket += 1
        answered: asyncio.Future[ProduceAnswered] = asyncio.get_running_loop().create_future()
        self._tickets[self._ticket] = answered
        return self._ticket, answered

    # Effects and time

    def carry_out(self, hosted: Hosted, effects: list[Effect]) -> None:
        if hosted.recovery_point != hosted.partition.local.log.recovery_point:
            self._write_recovery_points()  # before anybody hears of what was flushed, or of what was cut
        for effect in effects:
            match effect:
                case ProduceAnswered(ticket=int() as ticket):
                    waiting = self._tickets.get(ticket)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(effect)
                case LogGrew():
                    hosted.wake_followers()
                case HighWatermarkMoved():
                    hosted.wake_consumers()
                case AlterPartition():
                    self.propose(hosted, effect)
                case AskLeaderOffsets():
                    self.ask_offsets(hosted, effect)
                case LogTruncated(was, end, high_watermark):
                    _LOG.info(
                        "%s-%d cut from %d to %d, high watermark was %d",
                        hosted.topic,
                        hosted.id.number,
                        was,
                        end,
                        high_watermark,
                    )
                case FetchRefused(reason):
                    _LOG.warning("%s-%d: %s", hosted.topic, hosted.id.number, reason)
                    hosted.fetch_after = self._clock.now() + self._settings.replica_fetch_backoff_ms * MILLISECOND
                case LogFailed(reason):
                    self._fail(f"{hosted.topic}-{hosted.id.number}: {reason}")

    async def run(self) -> None:
        """What time brings to partitions. A disk that has failed (`failure`) ends the broker, as it does Kafka's with one directory."""
        checkpoint_at = 0
        while True:
            now = self._clock.now()
            for hosted in self:
                self.carry_out(hosted, hosted.partition.tick(now))
            if now >= checkpoint_at:
                self.write_checkpoint()
                checkpoint_at = now + self._settings.replica_high_watermark_checkpoint_interval_ms * MILLISECOND
            await self._clock.sleep_until(now + TICK)

    def write_checkpoint(self) -> None:
        """High watermarks as they are now, if any has moved."""
        moved = False
        for hosted in self:
            high_watermark = hosted.partition.local.log.high_watermark
            moved = moved or high_watermark != hosted.checkpointed
            hosted.checkpointed = high_watermark
        if moved:
            marks = {(hosted.topic, hosted.id.number): hosted.checkpointed for hosted in self}
            checkpoint.write_offsets(self._disk, checkpoint.HIGH_WATERMARKS, marks)

    def _write_recovery_points(self) -> None:
        for hosted in self:
            hosted.recovery_point = hosted.partition.local.log.recovery_point
        points = {(hosted.topic, hosted.id.number): hosted.recovery_point for hosted in self}
        try:
            checkpoint.write_offsets(self._disk, checkpoint.RECOVERY_POINTS, points)
        except OSError as error:
            self._fail(str(error))

    def close(self) -> None:
        """A clean shutdown: everything is on the disk."""
        for hosted in self:
            if hosted.partition.failed is None:
                hosted.partition.local.log.close()
        self.write_checkpoint()
        self._write_recovery_points()

    def _fail(self, reason: str) -> None:
        _LOG.error("the disk failed: %s", reason)
        if not self.failure.done():
            self.failure.set_exception(OSError(reason))


def _nobody(hosted: Hosted, effect: object) -> None:
    raise AssertionError("nobody was told to take care of this")
