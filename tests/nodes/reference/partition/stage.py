"""A replica in a given role, and short words for what is done to it."""

from __future__ import annotations

from dataclasses import replace

from kio.schema.errors import ErrorCode

from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.log.log import Log, LogSettings
from nodes.reference.partition.effects import (
    AlterPartition,
    AlterPartitionAnswer,
    Effect,
    FetchAnswer,
    HighWatermarkMoved,
    ProduceAnswered,
)
from nodes.reference.partition.local import Local
from nodes.reference.partition.partition import Partition
from nodes.reference.partition.requests import Acks, Produce, ReplicaFetch
from nodes.reference.partition.view import BrokerView, PartitionSettings, PartitionView
from nodes.reference.protections import ALL_ON, Protections
from tests.nodes.reference.lone_disk import LoneDisk
from tests.nodes.reference.producing import produced

LAG = 100  # ms
BROKERS = {1: BrokerView(epoch=101), 2: BrokerView(epoch=102), 3: BrokerView(epoch=103)}


def view(
    leader: int = 1, isr: tuple[int, ...] = (1, 2, 3), *, epoch: int = 0, partition_epoch: int = 0
) -> PartitionView:
    return PartitionView(
        replicas=(1, 2, 3),
        isr=frozenset(isr),
        leader=leader,
        leader_epoch=epoch,
        partition_epoch=partition_epoch,
    )


class Stage:
    """One replica, and a clock that stands still unless it is told."""

    def __init__(
        self,
        first: PartitionView | None = None,
        *,
        broker: int = 1,
        protections: Protections = ALL_ON,
        min_isr: int = 1,
        brokers: dict[int, BrokerView] = BROKERS,
    ) -> None:
        self.now = SECOND
        self.disk = LoneDisk()
        self.brokers = brokers
        self.partition = Partition(
            Local(
                broker=broker,
                broker_epoch=100 + broker,
                log=Log.open(self.disk, "t-0", LogSettings(), protections),
                settings=PartitionSettings(min_insync_replicas=min_isr, replica_lag_time_max_ms=LAG),
                protections=protections,
                brokers={},
            )
        )
        if first is not None:
            self.metadata(first)

    @property
    def log(self) -> Log:
        return self.partition.local.log

    def metadata(self, view: PartitionView | None, **brokers: BrokerView) -> list[Effect]:
        return self.partition.metadata_changed(view, self.brokers, self.now)

    def broker_is(self, id: int, **changes: object) -> None:
        """Metadata about a broker alone."""
        self.brokers = {**self.brokers, id: replace(self.brokers[id], **changes)}  # type: ignore[arg-type]
        self.metadata(self.partition.view)

    def produce(
        self, *values: bytes, ticket: str = "p", acks: int = Acks.ALL, wait: int = 30 * SECOND, **producer: object
    ) -> list[Effect]:
        content = produced(*(values or (b"x",)), **producer)  # type: ignore[arg-type]
        request = Produce(ticket=ticket, content=content, acks=acks, deadline=self.now + wait)
        return self.partition.produce(request, self.now)

    def fetch(
        self, replica: int, offset: int, *, epoch: int = 0, broker_epoch: int | None = None, last_epoch: int = -1
    ) -> tuple[FetchAnswer, list[Effect]]:
        request = ReplicaFetch(
            replica=replica,
            replica_epoch=100 + replica if broker_epoch is None else broker_epoch,
            leader_epoch=epoch,
            offset=offset,
            last_fetched_epoch=last_epoch,
        )
        return self.partition.replica_fetch(request, self.now)

    def fetches(self, *positions: tuple[int, int], epoch: int = 0) -> list[Effect]:
        """(replica, offset) after each other; all effects."""
        return [effect for replica, offset in positions for effect in self.fetch(replica, offset, epoch=epoch)[1]]

    def answer(self, asked: AlterPartition, error: ErrorCode = ErrorCode.none) -> list[Effect]:
        """The controller's: it did what it was asked, or it says why not."""
        answer = AlterPartitionAnswer(
            asked=asked,
            error=error,
            leader=1,
            leader_epoch=asked.leader_epoch,
            isr=asked.members,
            partition_epoch=asked.partition_epoch + 1,
        )
        return self.partition.alter_partition_answered(answer, self.now)

    def pass_ms(self, milliseconds: int) -> list[Effect]:
        self.now += milliseconds * MILLISECOND
        return self.partition.tick(self.now)


def answers(effects: list[Effect]) -> dict[object, ErrorCode]:
    """Ticket -> error."""
    return {effect.ticket: effect.error for effect in effects if isinstance(effect, ProduceAnswered)}


def proposals(effects: list[Effect]) -> list[AlterPartition]:
    return [effect for effect in effects if isinstance(effect, AlterPartition)]


def high_watermarks(effects: list[Effect]) -> list[int]:
    return [effect.high_watermark for effect in effects if isinstance(effect, HighWatermarkMoved)]
