"""The metadata log as the core sees it: batches in memory, leader epochs, voters, and the snapshot they continue from.

Metadata is small, and every controller holds all of it anyway; so the core owns its log as plain data and what a disk must do follows as
effects (`events.py`, carried out by `storage.py`). Offsets are Kafka's: `end_offset` is the next to be written. A batch is appended,
replicated and truncated as a whole; leader epochs begin at batches.

    log = MetadataLog(static_voters=Voters((1, 2, 3)))
    log.append(Batch(base_offset=0, epoch=1, timestamp=0, control=LeaderChange(1, (1, 2, 3), (1, 2))))
    log.append(Batch(base_offset=1, epoch=1, timestamp=0, values=(b"...", b"...")))
    log.end_offset, log.last_epoch           # 3, 1
    log.end_of_epoch(0)                      # OffsetAndEpoch(offset=0, epoch=0): where a log of epoch 0 parts from this one
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

BATCH_OVERHEAD = 61
RECORD_OVERHEAD = 12


class OffsetAndEpoch(NamedTuple):
    """An end offset and the epoch of the record before it."""

    offset: int
    epoch: int


class Voters(NamedTuple):
    """The content of KIP-642's VoterAssignmentMessage: who votes, and who shall in the end. Sorted; target None: nothing is under way."""

    current: tuple[int, ...]
    target: tuple[int, ...] | None = None


class LeaderChange(NamedTuple):
    """KIP-595, LeaderChangeMessage: the first record of each epoch, so that the epoch has something of its own to commit."""

    leader_id: int
    voters: tuple[int, ...]
    granting_voters: tuple[int, ...]


class SnapshotHeader(NamedTuple):
    """KIP-630: the first record of a snapshot's file."""

    last_contained_log_timestamp: int


class SnapshotFooter(NamedTuple):
    """KIP-630: the last one; a file without it is not whole."""


Control = LeaderChange | Voters | SnapshotHeader | SnapshotFooter


@dataclass(frozen=True)
class Batch:
    """Records that stand or fall together: values, or one control record."""

    base_offset: int
    epoch: int
    timestamp: int  # ms since 1970
    values: tuple[bytes, ...] = ()
    control: Control | None = None

    @cached_property
    def next_offset(self) -> int:
        return self.base_offset + (len(self.values) or 1)

    @cached_property
    def size(self) -> int:
        """About how many bytes it takes."""
        return BATCH_OVERHEAD + sum(RECORD_OVERHEAD + len(value) for value in self.values)


@dataclass(frozen=True)
class Snapshot:
    """The state of everything before an offset, in as few records as it takes; `voters` None: as configured."""

    id: OffsetAndEpoch
    voters: Voters | None
    values: tuple[bytes, ...]


class LogConflict(Exception):
    """A batch that does not continue the log; a defect, or a sender that is not what it says."""


@dataclass
class MetadataLog:
    """start_offset: what is before it is only in `snapshot`."""

    static_voters: Voters
    snapshot: Snapshot | None = None
    start_offset: int = 0
    _batches: list[Batch] = field(default_factory=list)
    _bases: list[int] = field(default_factory=list)
    _epochs: list[OffsetAndEpoch] = field(default_factory=list)  # where each epoch in the log begins
    _voters: list[tuple[int, Voters]] = field(default_factory=list)  # by the offset of their record

    @property
    def end_offset(self) -> int:
        return self._batches[-1].next_offset if self._batches else self.start_offset

    @property
    def last_epoch(self) -> int:
        """Of the last record; 0 before there was any, which no leader's epoch is."""
        if self._epochs:
            return self._epochs[-1].epoch
        return self.snapshot.id.epoch if self.snapshot else 0

    @property
    def end(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self.end_offset, self.last_epoch)

    @property
    def voters(self) -> Voters:
        """KIP-642, Quorum Change Protocol: the newest assignment in the log counts, committed or not; truncating it
        brings back the one before.
        """
        if self._voters:
            return self._voters[-1][1]
        if self.snapshot and self.snapshot.voters:
            return self.snapshot.voters
        return self.static_voters

    @property
    def voters_are_recorded(self) -> bool:
        return bool(self._voters) or bool(self.snapshot and self.snapshot.voters)

    def voters_before(self, offset: int) -> Voters | None:
        """The newest assignment below an offset, for a snapshot that ends there; None if only the configuration has one."""
        recorded = [voters for at, voters in self._voters if at < offset]
        if recorded:
            return recorded[-1]
        return self.snapshot.voters if self.snapshot else None

    def append(self, batch: Batch) -> None:
        """LogConflict unless it continues the log."""
        if batch.base_offset != self.end_offset or batch.epoch < self.last_epoch:
            raise LogConflict(
                f"offset {batch.base_offset} of epoch {batch.epoch} after offset {self.end_offset} of epoch {self.last_epoch}"
            )
        if not self._epochs or batch.epoch > self._epochs[-1].epoch:
            self._epochs.append(OffsetAndEpoch(batch.base_offset, batch.epoch))
        if isinstance(batch.control, Voters):
            self._voters.append((batch.base_offset, batch.control))
        self._batches.append(batch)
        self._bases.append(batch.base_offset)

    def truncate(self, end_offset: int) -> int:
        """Forget batches that reach beyond an offset; the end offset that is left."""
        while self._batches and self._batches[-1].next_offset > end_offset:
            self._batches.pop()
            self._bases.pop()
        end_offset = self.end_offset
        while self._epochs and self._epochs[-1].offset >= end_offset:
            self._epochs.pop()
        while self._voters and self._voters[-1][0] >= end_offset:
            self._voters.pop()
        return end_offset

    def begin_at(self, snapshot: Snapshot) -> None:
        """KIP-630, When to Increase the Log Start Offset: the snapshot, which ends where a batch does, stands for what is before it.

        If the log does not reach the snapshot, or has another epoch there, all of it goes.
        """
        if self.end_offset < snapshot.id.offset or self.epoch_before(snapshot.id.offset) != snapshot.id.epoch:
            self._batches, self._bases, self._epochs, self._voters = [], [], [], []
        first_kept = bisect_right(self._bases, snapshot.id.offset - 1)
        del self._batches[:first_kept], self._bases[:first_kept]
        self._epochs = [
            OffsetAndEpoch(max(begins.offset, snapshot.id.offset), begins.epoch)
            for begins, ends in zip(
                self._epochs, [*(epoch.offset for epoch in self._epochs[1:]), self.end_offset], strict=False
            )
            if self._batches and ends > snapshot.id.offset
        ]
        self._voters = [(at, voters) for at, voters in self._voters if at >= snapshot.id.offset]
        self.snapshot, self.start_offset = snapshot, snapshot.id.offset

    def epoch_before(self, offset: int) -> int:
        """The epoch of the record before an offset; 0 at the very start, -1 if the log does not say."""
        if self.snapshot and offset == self.start_offset:
            return self.snapshot.id.epoch
        if offset == 0:
            return 0
        if not self.start_offset < offset <= self.end_offset:
            return -1
        return self._batches[bisect_right(self._bases, offset - 1) - 1].epoch

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """KIP-101, KIP-595: the largest epoch that is not above the one asked for, and where its records end in this log."""
        after = bisect_right(self._epochs, epoch, key=lambda begins: begins.epoch)
        end = self._epochs[after].offset if after < len(self._epochs) else self.end_offset
        if after:
            return OffsetAndEpoch(end, self._epochs[after - 1].epoch)
        if self.snapshot:
            return OffsetAndEpoch(self.start_offset, self.snapshot.id.epoch)
        return OffsetAndEpoch(0, 0)

    def read(self, offset: int, *, up_to: int | None = None, max_bytes: int = 1 << 62) -> tuple[Batch, ...]:
        """Batches from the one at an offset on, those that end at or before `up_to`; at least one, so that a reader gets on."""
        found: list[Batch] = []
        size = 0
        limit = self.end_offset if up_to is None else up_to
        for position in range(max(0, bisect_right(self._bases, offset) - 1), len(self._batches)):
            batch = self._batches[position]
            if batch.next_offset > limit or (found and size + batch.size > max_bytes):
                break
            if batch.next_offset > offset:
                found.append(batch)
                size += batch.size
        return tuple(found)
