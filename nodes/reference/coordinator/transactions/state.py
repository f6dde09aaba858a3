"""One transactional id: its producer, and the transaction that it has open or ended last. A value; each transition makes a new one.

    Empty ──AddPartitionsToTxn──> Ongoing ──EndTxn──> PrepareCommit ──markers are everywhere──> CompleteCommit
      ^                            ^  |                                                              |
      |                            |  └─EndTxn, timeout, a new producer──> PrepareAbort ──> CompleteAbort
      └──────InitProducerId────────┴──────────────AddPartitionsToTxn─────────────────────────────────┘

Functions here are Kafka's TransactionMetadata.prepare*: what would be written. Whether it may be is core.py's business. Kafka has two more
states that never reach the log, Dead and PrepareEpochFence: the first is a tombstone on its way (`Known.leaving`); of the second only the
bumped epoch is left, in `fenced`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from nodes.reference.coordinator.groups.requests import TopicPartition
from nodes.reference.coordinator.transactions.requests import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

LAST_USABLE_EPOCH: Final = (1 << 15) - 2  # the one after it is left for fencing


class TransactionState(enum.Enum):
    """As Kafka spells them, and the number in the log."""

    EMPTY = ("Empty", 0)
    ONGOING = ("Ongoing", 1)
    PREPARE_COMMIT = ("PrepareCommit", 2)
    PREPARE_ABORT = ("PrepareAbort", 3)
    COMPLETE_COMMIT = ("CompleteCommit", 4)
    COMPLETE_ABORT = ("CompleteAbort", 5)

    def __init__(self, spelt: str, number: int) -> None:
        self.spelt = spelt
        self.number = number


PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
_AT_REST: Final = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_id: int = NO_PRODUCER_ID  # before this one, whose epochs were used up
    last_producer_epoch: int = NO_PRODUCER_EPOCH  # KIP-360: before the newest bump, so that a retry of it is recognised
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started: int = -1  # ms since 1970, as all times here: the next coordinator has to understand them
    updated: int = -1

    @property
    def epochs_used_up(self) -> bool:
        return self.producer_epoch >= LAST_USABLE_EPOCH

    @property
    def commits(self) -> bool:
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)

    def expired(self, now: int, expiration_ms: int) -> bool:
        """KIP-98, `transactional.id.expiration.ms`: nothing is open, and nobody has been heard of for so long."""
        return self.state in _AT_REST and self.updated <= now - expiration_ms

    def times_out_at(self) -> int | None:
        return self.started + self.timeout_ms if self.state is TransactionState.ONGOING else None


def with_epoch_bumped(
    known: Transaction, *, timeout_ms: int, expected_epoch: int | None, now: int
) -> Transaction | None:
    """InitProducerId. expected_epoch: KIP-360, what the producer has; None is returned for one that has been replaced."""
    bumped, last = known.producer_epoch + 1, NO_PRODUCER_EPOCH
    if expected_epoch is not None:
        last = known.producer_epoch
        if known.producer_epoch not in (NO_PRODUCER_EPOCH, expected_epoch):
            if expected_epoch != known.last_producer_epoch:
                return None
            bumped, last = known.producer_epoch, known.last_producer_epoch  # a retry: it did not get the answer
    return _empty(known, known.producer_id, bumped, last_epoch=last, timeout_ms=timeout_ms, now=now)


def with_new_producer_id(
    known: Transaction, producer_id: int, *, timeout_ms: int, remember_epoch: bool, now: int
) -> Transaction:
    """InitProducerId where the epochs of the old id are used up."""
    last = known.producer_epoch if remember_epoch else NO_PRODUCER_EPOCH
    renewed = _empty(known, producer_id, 0, last_epoch=last, timeout_ms=timeout_ms, now=now)
    return replace(renewed, last_producer_id=known.producer_id)


def with_partitions(known: Transaction, partitions: Iterable[TopicPartition], *, now: int) -> Transaction:
    """AddPartitionsToTxn: the first one begins the transaction."""
    begins = known.state is not TransactionState.ONGOING
    return replace(
        known,
        state=TransactionState.ONGOING,
        partitions=frozenset(partitions) | (frozenset() if begins else known.partitions),
        started=now if begins else known.started,
        updated=now,
    )


def prepared(known: Transaction, *, commit: bool, now: int) -> Transaction:
    """EndTxn: from here on there is no other outcome."""
    state = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
    return replace(known, state=state, updated=now)


def fenced(known: Transaction, *, bump: bool, now: int) -> Transaction:
    """Abort it and let its producer in no more (Kafka's PrepareEpochFence): the markers carry the next epoch."""
    epoch = known.producer_epoch + 1 if bump else known.producer_epoch
    aborted = prepared(known, commit=False, now=now)
    return replace(aborted, producer_epoch=epoch, last_producer_epoch=NO_PRODUCER_EPOCH)


def completed(known: Transaction, *, now: int) -> Transaction:
    """The markers are everywhere."""
    state = TransactionState.COMPLETE_COMMIT if known.commits else TransactionState.COMPLETE_ABORT
    return replace(known, state=state, partitions=frozenset(), updated=now)


def _empty(
    known: Transaction, producer_id: int, epoch: int, *, last_epoch: int, timeout_ms: int, now: int
) -> Transaction:
    return replace(
        known,
        producer_id=producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        partitions=frozenset(),
        started=-1,
        updated=now,
    )
