"""Clients of the model: an idempotent producer that retries, and a transactional one that is replaced while it still runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from nodes.reference.environment import MILLISECOND
from nodes.reference.log.batch import Marker
from nodes.reference.partition.effects import ProduceAnswered
from nodes.reference.partition.requests import Acks, Produce, WriteMarker
from tests.nodes.reference.producing import produced

if TYPE_CHECKING:
    from nodes.reference.partition.partition import Partition
    from tests.nodes.reference.partition.cluster import Cluster

_SENT: Final[dict[tuple[int, int, int, bool], bytes]] = {}  # kio encodes slowly: batches are the same in every run


def encoded(producer: int, epoch: int, sequence: int, *, transactional: bool) -> tuple[bytes, bytes]:
    """A batch of one record, and the value in it, which no other batch has."""
    value = b"%d.%d.%d" % (producer, epoch, sequence)
    key = (producer, epoch, sequence, transactional)
    if key not in _SENT:
        _SENT[key] = produced(value, producer=producer, epoch=epoch, sequence=sequence, transactional=transactional)
    return _SENT[key], value


class IdempotentProducer:
    """One batch in flight with acks=all; without a clear answer it sends the same again, to whoever leads then."""

    def __init__(self, cluster: Cluster, id: int) -> None:
        self._cluster = cluster
        self.id = id
        self.sequence = 0
        self._attempt = 0
        self._waits_for: Partition | None = None
        self._at_newest_leader = False  # one that was deposed may have what nobody else has, and miss what all have

    def step(self, choice: int) -> None:
        machine = self._cluster.leader() if choice else self._cluster.any_leader()
        if machine is None or (self._waits_for is machine.partition and choice != 3):
            return
        content, value = encoded(self.id, 0, self.sequence, transactional=False)
        self._attempt += 1
        self._waits_for = machine.partition
        self._cluster.note(f"produce {value.decode()} at {machine.id}")
        self._at_newest_leader = machine.leads(self._cluster.view.leader_epoch)
        deadline = self._cluster.now + 50 * MILLISECOND
        request = Produce(ticket=(self.id, self._attempt), content=content, acks=Acks.ALL, deadline=deadline)
        self._cluster.ask(machine, request)

    def answered(self, attempt: int, answer: ProduceAnswered) -> None:
        if attempt != self._attempt:
            return  # of an attempt that was given up
        self._waits_for = None
        if answer.error is ErrorCode.none:
            _, value = encoded(self.id, 0, self.sequence, transactional=False)
            self._cluster.note(f"acknowledged {value.decode()} at offset {answer.base_offset}")
            self._cluster.observer.acknowledged(answer.base_offset, value)
            self.sequence += 1
        elif self._at_newest_leader:
            self._cluster.observer.refused(answer)


class TransactionalProducer:
    """A transactional id: one batch after the other, then a marker; a fencing marker raises the epoch while the old producer goes on."""

    def __init__(self, cluster: Cluster, id: int) -> None:
        self._cluster = cluster
        self.id = id
        self.epoch = 0
        self.sequence = 0
        self._attempt = 0
        self._doing: str | None = None
        self._waits_for: Partition | None = None
        self._at_newest_leader = False
        self._ending: tuple[Marker, int] | None = None  # decided by the coordinator, and not yet everywhere
        self._wrote: list[bytes] = []
        self._flushed = True  # what it wrote is acknowledged

    def step(self, choice: int) -> None:
        machine = self._cluster.leader()
        if machine is None or (self._waits_for is machine.partition and choice):
            return
        self._attempt += 1
        self._waits_for = machine.partition
        self._at_newest_leader = machine.leads(self._cluster.view.leader_epoch)
        if self._ending is not None:
            self._write_marker()
        elif choice == 3 and self.epoch:
            self._send(self.epoch - 1, 900 + self._attempt, "zombie")
        elif choice == 2 and self._wrote:
            fence = 0 if self._flushed and self._attempt % 2 else 1
            self._ending = (Marker.ABORT if fence else Marker(self.sequence % 2), self.epoch + fence)
            self._write_marker()
        else:
            self._send(self.epoch, self.sequence, "produce")

    def _send(self, epoch: int, sequence: int, doing: str) -> None:
        machine = self._cluster.leader()
        assert machine is not None
        content, value = encoded(self.id, epoch, sequence, transactional=True)
        self._doing = doing
        if doing == "produce":
            self._flushed = False
            self._cluster.observer.wrote(value)
            if value not in self._wrote:
                self._wrote.append(value)
        self._cluster.note(f"{doing} {value.decode()} at {machine.id}, transactional")
        request = Produce(
            ticket=(self.id, self._attempt),
            content=content,
            acks=Acks.ALL,
            deadline=self._cluster.now + 50 * MILLISECOND,
        )
        self._cluster.ask(machine, request)

    def _write_marker(self) -> None:
        machine = self._cluster.leader()
        assert machine is not None
        assert self._ending is not None
        marker, epoch = self._ending
        self._doing = "marker"
        self._cluster.observer.decided(self._wrote, marker)
        self._cluster.note(f"{marker.name} of {self.id} with epoch {epoch} at {machine.id}")
        request = WriteMarker(
            ticket=(self.id, self._attempt),
            marker=marker,
            producer_id=self.id,
            producer_epoch=epoch,
            coordinator_epoch=0,
            timestamp=1_000,
            deadline=self._cluster.now + 50 * MILLISECOND,
        )
        self._cluster.ask(machine, request)

    def answered(self, attempt: int, answer: ProduceAnswered) -> None:
        if attempt != self._attempt:
            return
        self._waits_for = None
        if answer.error is not ErrorCode.none:
            if self._doing != "zombie" and self._at_newest_leader:
                self._cluster.observer.refused(answer)
        elif self._doing == "zombie":
            self._cluster.observer.zombie_wrote(self.id)
        elif self._doing == "produce":
            self._cluster.observer.acknowledged(answer.base_offset, self._wrote[-1])
            self.sequence += 1
            self._flushed = True
        else:
            self._end()

    def _end(self) -> None:
        assert self._ending is not None
        _, epoch = self._ending
        if epoch != self.epoch:
            self.epoch, self.sequence = epoch, 0
        self._ending, self._wrote, self._flushed = None, [], True
