"""What must always hold of the metadata, told to someone who sees each committed batch once, in order.

an ISR is a non-empty set of replicas, with the leader in it
of an ISR with more than one member, none is fenced or stopping (KIP-841), and none has another life than the one that joined (KIP-903)
a leader is active, and the only one of its epoch
partition epochs grow with each change, leader epochs never shrink; a leader comes out of the ISR before
nothing is answered that is not committed; nothing is handed out twice
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from nodes.reference.controller.broker_messages import (
    OK,
    AllocateProducerIdsResponse,
    AlterPartitionResponse,
    BrokerRegistrationResponse,
)
from nodes.reference.controller.client_messages import CreateTopicsResponse
from nodes.reference.controller.messages import Response
from nodes.reference.metadata.entities import Partition, PartitionId
from nodes.reference.metadata.image import Image
from nodes.reference.metadata.records import decode
from nodes.reference.metadata.schema import RegisterBrokerRecord
from nodes.reference.partition.view import NO_LEADER


class Judge:
    def __init__(self) -> None:
        self.violations: list[str] = []
        self.image = Image()
        self.registered: dict[tuple[int, int], UUID] = {}  # broker and epoch -> incarnation
        self.topics: set[UUID] = set()  # that ever were
        self.leaders: dict[tuple[PartitionId, int], int] = {}
        self._partition_epochs: dict[PartitionId, int] = {}
        self._handed_out: set[int] = set()

    def commit(self, values: Sequence[bytes]) -> None:
        """One batch."""
        before = dict(self.image.partitions())
        for value in values:
            record = decode(value)
            self.image.apply(record)
            if isinstance(record, RegisterBrokerRecord):
                self.registered[record.broker_id, record.broker_epoch] = record.incarnation_id
        self.topics.update(self.image.topics)
        for id, partition in self.image.partitions():
            self._partition_epochs[id] = partition.partition_epoch
            if before.get(id) != partition:
                self._changed(id, before.get(id), partition)
            if len(partition.isr) > 1 and not all(self.image.active(member) for member in partition.isr):
                self.bad(f"fenced or stopping in an ISR: {partition}, {self.image.broker_views}")
            if partition.leader != NO_LEADER and not self.image.active(partition.leader):
                self.bad(f"a leader that is not active: {partition}")

    def answered(self, response: Response) -> None:
        """A controller answers; what it says must be committed by now."""
        match response:
            case CreateTopicsResponse(topics=topics):
                for topic in topics:
                    if topic.error is OK and topic.topic_id not in self.topics:
                        self.bad(f"answered before it was committed: {topic}")
            case AllocateProducerIdsResponse(error=error, start=start) if error is OK:
                if start >= self.image.next_producer_id:
                    self.bad(f"answered before it was committed: {response}")
                if start in self._handed_out:
                    self.bad(f"producer ids twice: {response}")
                self._handed_out.add(start)
            case AlterPartitionResponse(partitions=partitions):
                for done in partitions:
                    id = PartitionId(done.topic, done.index)  # type: ignore[arg-type]
                    if done.error is OK and self._partition_epochs.get(id, -1) < done.partition_epoch:
                        self.bad(f"answered before it was committed: {done}")
            case _:
                return

    def got_epoch(self, broker: int, incarnation_id: UUID, response: BrokerRegistrationResponse) -> None:
        """A process is told its epoch."""
        owner = self.registered.get((broker, response.broker_epoch))
        if owner is None:
            self.bad(f"answered before it was committed: {response} to broker {broker}")
        elif owner != incarnation_id:
            self.bad(f"two processes with one epoch: broker {broker} gets {response}")

    def bad(self, violation: str) -> None:
        self.violations.append(violation)

    def _changed(self, id: PartitionId, before: Partition | None, after: Partition) -> None:
        if not set(after.isr) <= set(after.replicas) or len(set(after.isr)) < len(after.isr) or not after.isr:
            self.bad(f"an ISR that is no set of replicas: {after}")
        if after.leader != NO_LEADER:
            if after.leader not in after.isr:
                self.bad(f"leader outside of the ISR: {after}")
            if self.leaders.setdefault((id, after.leader_epoch), after.leader) != after.leader:
                self.bad(f"two leaders in one epoch: {after}")
        if before is None:
            return
        if after.partition_epoch <= before.partition_epoch or after.leader_epoch < before.leader_epoch:
            self.bad(f"epochs do not grow: {before}, {after}")
        if after.leader not in (NO_LEADER, *before.isr):
            self.bad(f"unclean election: {before}, {after}")
