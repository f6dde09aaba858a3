"""Everything about a log that follows from its batches, kept up to date batch by batch, and taken back when the log is truncated.

derived.add(header, content, start)   the batch at content[start:] is in the file
derived.rewind(1250, stored_from)     the file ends at 1250 now: go back to a snapshot before it and add what is behind that
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from nodes.reference.log.batch import NO_PRODUCER, BatchHeader, read_marker
from nodes.reference.log.batch_file import StoredBatch
from nodes.reference.log.epochs import EpochCache
from nodes.reference.log.producers import Producer, ProducerStates
from nodes.reference.log.transactions import NO_TRANSACTIONS, Transactions, TransactionsSnapshot
from nodes.reference.protections import Protections

SNAPSHOT_INTERVAL: Final = 16 << 20  # bytes of batches between two snapshots


class _Snapshot(NamedTuple):
    """Of the batches before an offset."""

    offset: int
    producers: dict[int, Producer]
    transactions: TransactionsSnapshot


class Derived:
    """Leader epochs, producers and transactions of one log, and the offset at which it ends."""

    def __init__(self, start_offset: int, protections: Protections) -> None:
        self.end_offset = start_offset
        self.epochs = EpochCache()
        self.producers = ProducerStates(protections)
        self.transactions = Transactions()
        self._snapshots = [_Snapshot(start_offset, {}, NO_TRANSACTIONS)]
        self._since_snapshot = 0

    def add(self, header: BatchHeader, content: bytes | bytearray, start: int) -> None:
        if header.leader_epoch != self.epochs.latest:
            self.epochs.assign(header.leader_epoch, header.base_offset)
        self._add_producer(header, content, start)
        self.end_offset = header.next_offset
        self._since_snapshot += header.size
        if self._since_snapshot >= SNAPSHOT_INTERVAL:
            taken = _Snapshot(self.end_offset, self.producers.snapshot(), self.transactions.snapshot())
            self._snapshots.append(taken)
            self._since_snapshot = 0

    def rewind(self, end_offset: int, stored_from: Callable[[int], Iterable[StoredBatch]]) -> None:
        """The log ends at an offset now, where a batch begins; `stored_from(offset)` reads what is left from an offset on."""
        while self._snapshots[-1].offset > end_offset:
            self._snapshots.pop()
        last = self._snapshots[-1]
        self.producers.restore(last.producers)
        self.transactions.restore(last.transactions)
        self._since_snapshot = 0
        for found in stored_from(last.offset):
            self._add_producer(found.header, found.content, found.start)
            self._since_snapshot += found.header.size
        self.epochs.truncate_from_end(end_offset)
        self.end_offset = end_offset

    def _add_producer(self, header: BatchHeader, content: bytes | bytearray, start: int) -> None:
        if header.producer_id == NO_PRODUCER:
            return
        if not header.control:
            self.producers.appended(header)
            self.transactions.appended(header)
            return
        end = read_marker(content, start, header)
        if end is not None:
            self.producers.ended(header, end)
            self.transactions.ended(header, end)
