"""What the metadata says of one broker, one topic, one partition. Values: a change is a new one.

Partition(replicas=(1, 2, 3), isr=(1, 2), leader=1, leader_epoch=4, partition_epoch=9)
partition.changed(PartitionChangeRecord(..., isr=(2,), leader=2))     isr (2,), leader 2, leader epoch 5, partition epoch 10
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple
from uuid import UUID

from nodes.reference.metadata.schema import (
    NO_LEADER_CHANGE,
    Endpoint,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    SupportedFeature,
)
from nodes.reference.partition.view import NO_LEADER, BrokerView, PartitionView

RECOVERED: Final = 0
RECOVERING: Final = 1  # KIP-704: its leader was elected uncleanly and has not finished what it must do then


class PartitionId(NamedTuple):
    topic_id: UUID
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A registration (KIP-631, Broker Registration). active: may lead, and may be in an ISR (KIP-841)."""

    id: int
    epoch: int  # the offset of its RegisterBrokerRecord
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...] = ()
    features: tuple[SupportedFeature, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False

    @property
    def active(self) -> bool:
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def view(self) -> BrokerView:
        return BrokerView(epoch=self.epoch, fenced=self.fenced, in_controlled_shutdown=self.in_controlled_shutdown)

    @classmethod
    def of(cls, record: RegisterBrokerRecord) -> Broker:
        return cls(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=record.end_points,
            features=record.features,
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
        )

    def record(self) -> RegisterBrokerRecord:
        return RegisterBrokerRecord(
            broker_id=self.id,
            incarnation_id=self.incarnation_id,
            broker_epoch=self.epoch,
            end_points=self.endpoints,
            features=self.features,
            rack=self.rack,
            fenced=self.fenced,
            in_controlled_shutdown=self.in_controlled_shutdown,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """replicas: in the order of preference. isr: in the order of `replicas`, where the controller wrote it."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int = NO_LEADER
    leader_epoch: int = 0
    partition_epoch: int = 0
    recovery: int = RECOVERED
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()

    @property
    def view(self) -> PartitionView:
        """As the replicas of the partition see it."""
        return PartitionView(
            replicas=self.replicas,
            isr=frozenset(self.isr),
            leader=self.leader,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
        )

    @classmethod
    def of(cls, record: PartitionRecord) -> Partition:
        return cls(
            replicas=record.replicas,
            isr=record.isr,
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            recovery=record.leader_recovery_state,
            removing=record.removing_replicas,
            adding=record.adding_replicas,
        )

    def record(self, id: PartitionId) -> PartitionRecord:
        return PartitionRecord(
            partition_id=id.number,
            topic_id=id.topic_id,
            replicas=self.replicas,
            isr=self.isr,
            removing_replicas=self.removing,
            adding_replicas=self.adding,
            leader=self.leader,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            leader_recovery_state=self.recovery,
        )

    def changed(self, change: PartitionChangeRecord) -> Partition:
        """KIP-497: every change is a new partition epoch; naming a leader, even the same one, is a new leader epoch."""
        leads = change.leader != NO_LEADER_CHANGE
        return replace(
            self,
            replicas=self.replicas if change.replicas is None else change.replicas,
            isr=self.isr if change.isr is None else change.isr,
            leader=change.leader if leads else self.leader,
            leader_epoch=self.leader_epoch + leads,
            partition_epoch=self.partition_epoch + 1,
            recovery=self.recovery if change.leader_recovery_state < 0 else change.leader_recovery_state,
            removing=self.removing if change.removing_replicas is None else change.removing_replicas,
            adding=self.adding if change.adding_replicas is None else change.adding_replicas,
        )


@dataclass(slots=True)
class Topic:
    """Its partitions by index. Owned by one image: only that one changes `partitions`."""

    id: UUID
    name: str
    partitions: dict[int, Partition] = field(default_factory=dict)
