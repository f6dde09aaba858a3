"""The model's controller: as small as the rules allow, and the metadata log that it writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kio.schema.errors import ErrorCode

from nodes.reference.partition.effects import AlterPartition
from nodes.reference.partition.view import BrokerView, PartitionView


class Controller:
    """Elects cleanly, the first of the assignment that is in the ISR and active; nothing is committed but through it."""

    def __init__(self, brokers: tuple[int, ...], note: Callable[[str], None]) -> None:
        self._brokers = brokers
        self.note = note
        self._epochs = 100
        self.view = PartitionView(
            replicas=brokers, isr=frozenset(brokers), leader=brokers[0], leader_epoch=0, partition_epoch=0
        )
        self.registered: dict[int, BrokerView] = {}
        self.metadata: list[tuple[PartitionView, dict[int, BrokerView]]] = []

    def register(self, id: int) -> int:
        """A process registers: a new broker epoch, fenced, and out of the ISR."""
        self._epochs += 1
        self.registered[id] = BrokerView(epoch=self._epochs, fenced=True)
        if self.metadata:
            self.leave(id)
        return self._epochs

    def activate_all(self) -> None:
        self.registered = {
            id: replace(broker, fenced=False, in_controlled_shutdown=False) for id, broker in self.registered.items()
        }

    def commit(self, view: PartitionView) -> None:
        """One entry of the metadata log."""
        self.view = view
        self.metadata.append((view, dict(self.registered)))

    def change(self, *, isr: frozenset[int], leader: int) -> None:
        moved = leader != self.view.leader
        self.note(f"controller: leader {leader} isr {sorted(isr)}")
        self.commit(
            replace(
                self.view,
                isr=isr,
                leader=leader,
                leader_epoch=self.view.leader_epoch + moved,
                partition_epoch=self.view.partition_epoch + 1,
            )
        )

    def active(self, id: int) -> bool:
        broker = self.registered.get(id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    def leave(self, id: int) -> None:
        """Out of the ISR, unless it is the last one; whoever is in it and active leads (KIP-631, KIP-903's exception)."""
        isr = self.view.isr - {id} or self.view.isr
        leader = self.view.leader
        if leader in (-1, id):
            leader = next((other for other in self._brokers if other in isr and self.active(other)), -1)
        if (isr, leader) != (self.view.isr, self.view.leader):
            self.change(isr=isr, leader=leader)
        else:
            self.commit(self.view)

    def fence_broker(self, id: int) -> None:
        self.note(f"fence {id}")
        self.registered[id] = replace(self.registered[id], fenced=True)
        self.leave(id)

    def alter_partition_error(self, sender: int, asked: AlterPartition) -> ErrorCode:
        """Kafka's order of validation, as far as it concerns this model."""
        if asked.leader_epoch < self.view.leader_epoch:
            return ErrorCode.fenced_leader_epoch
        if sender != self.view.leader:
            return ErrorCode.invalid_request
        if asked.partition_epoch < self.view.partition_epoch:
            return ErrorCode.invalid_update_version
        for id, epoch in asked.new_isr:
            if not self.active(id) or epoch not in (-1, self.registered[id].epoch):
                return ErrorCode.ineligible_replica
        return ErrorCode.none
