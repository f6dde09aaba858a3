"""What a partition asks its shell to do, and what it answers. Values; nothing here acts.

A method of `Partition` takes one event and returns the effects in the order in which they are to be carried out. Reads answer directly.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from nodes.reference.log.epochs import UNKNOWN_END, EpochEnd
from nodes.reference.log.transactions import AbortedTransaction

Ticket = Hashable  # names a request until it is answered; chosen by the shell


@dataclass(frozen=True, slots=True)
class ProduceAnswered:
    """Once for every Produce and every marker, whatever acks asked for."""

    ticket: Ticket
    error: ErrorCode
    base_offset: int = -1
    log_start_offset: int = -1
    message: str | None = None


@dataclass(frozen=True, slots=True)
class AlterPartition:
    """Ask the controller for another ISR (KIP-497); the answer comes back with this very object. At most one is in flight."""

    leader_epoch: int
    partition_epoch: int  # that the controller is expected to have
    new_isr: tuple[tuple[int, int], ...]  # broker id and epoch, -1 where it is not known (KIP-903, NewIsrWithEpochs)

    @property
    def members(self) -> frozenset[int]:
        return frozenset(broker for broker, _ in self.new_isr)


@dataclass(frozen=True, slots=True)
class AlterPartitionAnswer:
    """What the controller says about one partition of an AlterPartition request."""

    asked: AlterPartition
    error: ErrorCode
    leader: int = -1
    leader_epoch: int = -1
    isr: frozenset[int] = frozenset()
    partition_epoch: int = -1


@dataclass(frozen=True, slots=True)
class LogGrew:
    """Followers that wait for records can read some."""

    log_end_offset: int


@dataclass(frozen=True, slots=True)
class HighWatermarkMoved:
    """Consumers that wait for records can read some."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class LogTruncated:
    """Records went. Below the high watermark: committed ones, which only an unclean election or a defect explains."""

    was: int
    end: int
    high_watermark: int  # before


@dataclass(frozen=True, slots=True)
class AskLeaderOffsets:
    """The follower's fetch offset is out of the leader's range: ask it with ListOffsets where its log begins and ends."""

    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class FetchRefused:
    """What the leader sent could not be appended; the next fetch tries again."""

    reason: str


@dataclass(frozen=True, slots=True)
class LogFailed:
    """The disk said no. The replica answers KAFKA_STORAGE_ERROR from now on and fetches nothing."""

    reason: str


Effect = (
    ProduceAnswered
    | AlterPartition
    | LogGrew
    | HighWatermarkMoved
    | LogTruncated
    | AskLeaderOffsets
    | FetchRefused
    | LogFailed
)


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """One partition of a Fetch response."""

    error: ErrorCode
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: bytes = b""
    aborted: tuple[AbortedTransaction, ...] | None = None  # only for read_committed
    diverging: EpochEnd = UNKNOWN_END  # KIP-595, DivergingEpoch: truncate to there and ask again


@dataclass(frozen=True, slots=True)
class OffsetAnswer:
    """One partition of a ListOffsets response; offset -1 where there is no such record."""

    error: ErrorCode
    offset: int = -1
    timestamp: int = -1
    leader_epoch: int = -1
