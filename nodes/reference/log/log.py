"""The log of one replica of a partition: durable record batches and everything that is a function of them.

    log = Log.open(disk, "data/orders-0", settings, protections, high_watermark=1200)     # cuts a torn tail
    at = log.append_as_leader(content, leader_epoch=3, now=clock.now())  # Appended(base_offset=1300, last_offset=1301)
    log.read(1200, upper_bound=log.high_watermark, max_bytes=1 << 20)                    # whole batches
    log.truncate(1250)                                                                   # a new leader's log ends there

What is derived: the leader epochs (KIP-101), what each idempotent producer wrote (KIP-98), open and aborted transactions. After a
restart all of it comes from one scan of the file, which also checks every checksum; after a truncation from a snapshot before that point
and the batches behind it. There is no index on disk. Offsets are Kafka's: the log end offset is the next one to be written, the high
watermark is the first one that is not known to be committed.

An append is durable when `log.flush.interval.messages` or `log.flush.interval.ms` say so; by default, as in Kafka, never before the
operating system wants: replication is what protects records then. `recovery_point` is how far the log is durable. OSError of the disk
goes through; the log must not be used after one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from nodes.reference.environment import MILLISECOND, Disk
from nodes.reference.log import batch as batches
from nodes.reference.log import checkpoint
from nodes.reference.log.batch import BatchHeader, BatchRefused
from nodes.reference.log.batch_file import BatchFile, StoredBatch
from nodes.reference.log.derived import Derived
from nodes.reference.log.epochs import EpochCache, EpochEnd
from nodes.reference.log.producers import ProducerStates
from nodes.reference.log.transactions import AbortedTransaction, Transactions
from nodes.reference.protections import Protection, Protections

_SUFFIX: Final = ".log"


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """Kafka's names with underscores for dots; None is never."""

    message_max_bytes: int = 1_048_588
    log_flush_interval_messages: int | None = None
    log_flush_interval_ms: int | None = None


class Appended(NamedTuple):
    base_offset: int
    last_offset: int
    duplicate: bool = False  # it was there already: the offsets of then


class Log:
    """One replica's log. Not safe for several threads; a partition owns it."""

    def __init__(
        self, disk: Disk, directory: str, start_offset: int, settings: LogSettings, protections: Protections
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._settings = settings
        self._protections = protections
        self._begin(start_offset)

    def _begin(self, start_offset: int) -> None:
        self._file = BatchFile(self._disk.open(self._path(start_offset)))
        self._first_offset = start_offset  # of the file
        self._derived = Derived(start_offset, self._protections)
        self.log_start_offset = start_offset
        self.high_watermark = start_offset
        self.recovery_point = start_offset  # below it everything is on the medium
        self._unflushed = 0
        self._unflushed_since: int | None = None

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        settings: LogSettings,
        protections: Protections,
        *,
        high_watermark: int = 0,
        log_start_offset: int = 0,
        recovery_point: int = 0,
    ) -> Log:
        """Open what is in a directory, or begin an empty log at 0. The offsets are the broker's checkpoints."""
        disk.make_directory(directory)
        starts = [int(name.removesuffix(_SUFFIX)) for name in disk.list(directory) if name.endswith(_SUFFIX)]
        log = cls(disk, directory, max(starts, default=0), settings, protections)
        log._recover()
        log.log_start_offset = min(max(log_start_offset, log._first_offset), log.log_end_offset)
        log.high_watermark = max(log.log_start_offset, min(high_watermark, log.log_end_offset))
        log.recovery_point = max(log.recovery_point, min(recovery_point, log.log_end_offset))
        return log

    @property
    def log_end_offset(self) -> int:
        """Of the next record."""
        return self._derived.end_offset

    @property
    def epochs(self) -> EpochCache:
        return self._derived.epochs

    @property
    def producers(self) -> ProducerStates:
        return self._derived.producers

    @property
    def transactions(self) -> Transactions:
        return self._derived.transactions

    @property
    def latest_epoch(self) -> int:
        """Of the newest record or leader; -1 while there was none."""
        return self.epochs.latest

    @property
    def last_stable_offset(self) -> int:
        """KIP-98: the end for readers of committed records; never above the high watermark."""
        unstable = self.transactions.first_unstable(self.high_watermark)
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    def append_as_leader(self, content: bytes, *, leader_epoch: int, now: int, in_sequence: bool = True) -> Appended:
        """Append what a client produced: one batch. BatchRefused if it is not sound, out of sequence or from a zombie.

        A batch of an idempotent producer that is there already is not appended again. in_sequence: False for a coordinator's, which
        writes in the name of a producer and has no sequence of it (Kafka's AppendOrigin.COORDINATOR).
        """
        header = batches.parse(content, 0)
        batches.check_produced(content, header, max_size=self._settings.message_max_bytes)
        there = self.producers.duplicate(header) if in_sequence else None
        if there is not None:
            return Appended(there.base_offset, there.last_offset, duplicate=True)
        if in_sequence:
            self.producers.check(header)
        elif header.producer_id != batches.NO_PRODUCER:
            self.producers.check_epoch(header.producer_id, header.producer_epoch)
        self.transactions.check(header)
        return self._append_stamped(content, header, leader_epoch, now)

    def append_marker(
        self,
        marker: batches.Marker,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        leader_epoch: int,
        timestamp: int,
        now: int,
    ) -> Appended:
        """End a transaction on this partition (KIP-98, WriteTxnMarkers). BatchRefused for a zombie or a fenced coordinator."""
        self.producers.check_epoch(producer_id, producer_epoch)
        self.producers.check_coordinator(producer_id, coordinator_epoch)
        content = batches.marker_batch(
            marker,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=timestamp,
        )
        return self._append_stamped(content, batches.parse(content, 0), leader_epoch, now)

    def append_as_follower(self, content: bytes, *, now: int) -> int:
        """Append what the leader sent: whole batches that go on where this log ends. Returns how many records.

        BatchRefused, with nothing appended, if a checksum does not fit or the offsets do not go on.
        """
        headers: list[BatchHeader] = []
        expected = self.log_end_offset
        for position, header in batches.batches(content):
            if header.base_offset != expected or header.last_offset_delta < 0:
                raise BatchRefused(
                    ErrorCode.offset_out_of_range, f"a batch at offset {header.base_offset}, the log ends at {expected}"
                )
            if not batches.intact(content, position, header):
                raise BatchRefused(
                    ErrorCode.corrupt_message, f"the checksum of the batch at offset {expected} does not fit"
                )
            headers.append(header)
            expected = header.next_offset
        self._file.append(content, headers)
        position, before, epoch = 0, self.log_end_offset, self.latest_epoch
        for header in headers:
            self._derived.add(header, content, position)
            position += header.size
        if self.latest_epoch != epoch:
            self._write_epochs()
        self._appended(expected - before, now)
        return expected - before

    def begin_epoch(self, leader_epoch: int) -> None:
        """A leader epoch begins at the end of the log, on the leader, before its first record (KIP-101)."""
        if self.epochs.assign(leader_epoch, self.log_end_offset):
            self._write_epochs()

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """OffsetForLeaderEpoch (KIP-101, KIP-279)."""
        return self.epochs.end_of(epoch, self.log_end_offset)

    def read(self, offset: int, *, upper_bound: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds an offset, while below the upper bound; at least one if there is one (KIP-74)."""
        if offset >= upper_bound:
            return b""
        return self._file.read(offset, upper_bound, max_bytes)

    def aborted_between(self, start: int, end: int) -> list[AbortedTransaction]:
        return self.transactions.aborted_between(start, end)

    def batches_since(self, timestamp: int) -> Iterator[StoredBatch]:
        """Batches in order, those left out that surely have no record at or after a timestamp (ms)."""
        return (
            found
            for found in self._file.first_at(timestamp)
            if found.header.max_timestamp >= timestamp and found.header.last_offset >= self.log_start_offset
        )

    def stored_batches(self, offset: int) -> Iterator[StoredBatch]:
        """Batches from the one that holds an offset."""
        return self._file.from_position(offset)

    def advance_high_watermark(self, offset: int) -> bool:
        """Up to the log end offset, and never back: what was committed once is committed. True if it moved."""
        offset = min(offset, self.log_end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    def truncate(self, offset: int) -> bool:
        """Remove every batch with a record at or after an offset. True if records went."""
        if offset >= self.log_end_offset:
            # an epoch may have been begun here, as leader, without a record
            if self.epochs.truncate_from_end(offset):
                self._write_epochs()
            return False
        end_offset = self._file.truncate(offset)
        self._derived.rewind(end_offset, self._file.from_position)
        self.high_watermark = min(self.high_watermark, end_offset)
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        self._write_epochs()
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Begin anew at an offset beyond the end: the leader has deleted everything before it."""
        old = self._path(self._first_offset)
        self._file.close()
        self._begin(offset)
        self._write_epochs()
        self._disk.remove(old)

    def advance_log_start_offset(self, offset: int) -> None:
        """DeleteRecords: records before an offset are not served any more; the file keeps them."""
        self.log_start_offset = max(self.log_start_offset, min(offset, self.high_watermark))

    def flush(self) -> None:
        """Make durable what was appended."""
        if self._protections.on(Protection.FSYNC_ON_PRODUCE):
            self._file.sync()
            self.recovery_point = self.log_end_offset
        self._unflushed, self._unflushed_since = 0, None

    def flush_if_due(self, now: int) -> None:
        """`log.flush.interval.ms`: now is in ns, on the clock of the appends."""
        interval = self._settings.log_flush_interval_ms
        since = self._unflushed_since
        if interval is not None and since is not None and now - since >= interval * MILLISECOND:
            self.flush()

    def close(self) -> None:
        """A clean shutdown: durable, then closed."""
        self.flush()
        self._file.close()

    def _append_stamped(self, content: bytes, header: BatchHeader, leader_epoch: int, now: int) -> Appended:
        base_offset = self.log_end_offset
        stored = batches.stamped(content, header, base_offset=base_offset, leader_epoch=leader_epoch)
        header = header._replace(base_offset=base_offset, leader_epoch=leader_epoch)
        self._file.append(stored, (header,))
        self._derived.add(header, stored, 0)
        self._appended(header.last_offset_delta + 1, now)
        return Appended(base_offset, header.last_offset)

    def _appended(self, records: int, now: int) -> None:
        """`log.flush.interval.messages`."""
        self._unflushed += records
        if self._unflushed_since is None:
            self._unflushed_since = now
        interval = self._settings.log_flush_interval_messages
        if interval is not None and self._unflushed >= interval:
            self.flush()

    def _recover(self) -> None:
        """Read everything there is; the file is cut before the first batch that is not whole.

        The checkpoint of the epochs is not read: power may have taken a truncation and what was appended after it, and then an
        epoch in it would vouch for records before it that are not the leader's.
        """
        for found in self._file.scan(self._sound):
            self._derived.add(found.header, found.content, found.start)
        self._write_epochs()

    def _sound(self, found: StoredBatch) -> bool:
        if found.header.base_offset != self.log_end_offset or found.header.last_offset_delta < 0:
            return False
        if not self._protections.on(Protection.CHECKSUM_AFTER_TORN_WRITE):
            return True
        return batches.intact(found.content, found.start, found.header)

    @property
    def _epochs_path(self) -> str:
        return f"{self._directory}/{checkpoint.LEADER_EPOCHS}"

    def _write_epochs(self) -> None:
        checkpoint.write_epochs(self._disk, self._epochs_path, self.epochs.entries)

    def _path(self, start_offset: int) -> str:
        return f"{self._directory}/{start_offset:020}{_SUFFIX}"
