"""What each idempotent producer has written to one partition (KIP-98): duplicates are recognised, gaps and zombies refused.

State is a function of the log: `Log` rebuilds it from batch headers after a restart, a truncation, and on followers, so that a new
leader knows what its predecessor knew. The last five batches of a producer are kept, as many as a client may have in flight.

    producers.duplicate(header)   AppendedBatch(base_sequence=7, ..., base_offset=200, ...) | None: answer the same offset again
    producers.check(header)       BatchRefused(OUT_OF_ORDER_SEQUENCE_NUMBER | INVALID_PRODUCER_EPOCH)
    producers.appended(header)    now it is in the log
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from nodes.reference.log.batch import NO_PRODUCER, BatchHeader, BatchRefused, EndOfTransaction
from nodes.reference.protections import Protection, Protections

REMEMBERED_BATCHES: Final = 5
NO_PRODUCER_EPOCH: Final = -1
_LAST_SEQUENCE: Final = 0x7FFF_FFFF


class AppendedBatch(NamedTuple):
    """Where a batch of a producer is."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class Producer:
    """One producer id: immutable, so that a snapshot of all of them is a copy of a dict."""

    epoch: int = NO_PRODUCER_EPOCH
    batches: tuple[AppendedBatch, ...] = ()  # of this epoch, oldest first
    coordinator_epoch: int = -1


class ProducerStates:
    """Producers of one partition by their id."""

    def __init__(self, protections: Protections) -> None:
        self._protections = protections
        self._producers: dict[int, Producer] = {}

    def get(self, producer_id: int) -> Producer:
        return self._producers.get(producer_id, _UNKNOWN)

    def snapshot(self) -> dict[int, Producer]:
        return dict(self._producers)

    def restore(self, snapshot: dict[int, Producer]) -> None:
        self._producers = dict(snapshot)

    def forget(self) -> None:
        """Know nothing of any producer: what a leader without their state does, which is a defect."""
        self._producers = {}

    def duplicate(self, header: BatchHeader) -> AppendedBatch | None:
        """KIP-98, Idempotent Producer Guarantees: a batch that is already there, among the last five of its producer and epoch."""
        if header.producer_id == NO_PRODUCER:
            return None
        known = self.get(header.producer_id)
        if known.epoch != header.producer_epoch:
            return None
        for batch in known.batches:
            if (batch.base_sequence, batch.last_sequence) == (header.base_sequence, header.last_sequence):
                return batch
        return None

    def check(self, header: BatchHeader) -> None:
        """May a producer append this batch? BatchRefused says why not."""
        if header.producer_id == NO_PRODUCER:
            return
        known = self.get(header.producer_id)
        self.check_epoch(header.producer_id, header.producer_epoch)
        _check_sequence(known, header)

    def check_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """KIP-98, Zombie Fencing: who carries an older epoch than the log has seen is a zombie."""
        known = self.get(producer_id)
        if producer_epoch < known.epoch and self._protections.on(Protection.PRODUCER_EPOCH_FENCED):
            raise BatchRefused(
                ErrorCode.invalid_producer_epoch,
                f"producer {producer_id} has epoch {producer_epoch}, the partition has seen {known.epoch}",
            )

    def check_coordinator(self, producer_id: int, coordinator_epoch: int) -> None:
        """KIP-98, WriteTxnMarkers: a coordinator that has lost its partition may not end transactions."""
        known = self.get(producer_id)
        if coordinator_epoch < known.coordinator_epoch and self._protections.on(Protection.COORDINATOR_EPOCH_FENCED):
            raise BatchRefused(
                ErrorCode.transaction_coordinator_fenced,
                f"coordinator epoch {coordinator_epoch}, the partition has seen {known.coordinator_epoch}",
            )

    def appended(self, header: BatchHeader) -> None:
        """A data batch is in the log, on whichever replica. What a zombie wrote, where one is let through, changes nothing."""
        if header.producer_id == NO_PRODUCER:
            return
        known = self.get(header.producer_id)
        if header.producer_epoch < known.epoch:
            return
        earlier = known.batches if header.producer_epoch == known.epoch else ()
        batch = AppendedBatch(header.base_sequence, header.last_sequence, header.base_offset, header.last_offset)
        self._producers[header.producer_id] = Producer(
            epoch=header.producer_epoch,
            batches=(*earlier[1 - REMEMBERED_BATCHES :], batch),
            coordinator_epoch=known.coordinator_epoch,
        )

    def ended(self, header: BatchHeader, end: EndOfTransaction) -> None:
        """A transaction marker is in the log; it may carry a newer epoch, which fences the producer from there on."""
        known = self.get(header.producer_id)
        self._producers[header.producer_id] = Producer(
            epoch=max(header.producer_epoch, known.epoch),
            batches=known.batches if header.producer_epoch <= known.epoch else (),
            coordinator_epoch=max(end.coordinator_epoch, known.coordinator_epoch),
        )


_UNKNOWN: Final = Producer()


def _check_sequence(known: Producer, header: BatchHeader) -> None:
    """KIP-98, Idempotent Producer Guarantees: one after the other, from 0 in a new epoch.

    A producer that the log knows nothing of may begin anywhere: its records may have been deleted (KIP-360). Who has an older epoch
    got here only where zombies are let through.
    """
    if known.epoch == NO_PRODUCER_EPOCH or header.producer_epoch < known.epoch:
        return
    last = known.batches[-1].last_sequence if known.batches and header.producer_epoch == known.epoch else _LAST_SEQUENCE
    expected = 0 if last == _LAST_SEQUENCE else last + 1
    if header.base_sequence != expected:
        raise BatchRefused(
            ErrorCode.out_of_order_sequence_number,
            f"producer {header.producer_id} sent sequence {header.base_sequence}, {expected} is next",
        )
