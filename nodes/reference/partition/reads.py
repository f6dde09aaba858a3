"""Reading from the leader: what consumers may see, where logs diverge, offsets by time. Functions over a log; nothing changes."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from nodes.reference.log import timestamps
from nodes.reference.log.batch import batches
from nodes.reference.log.epochs import NO_EPOCH, UNKNOWN_END, EpochEnd
from nodes.reference.log.log import Log
from nodes.reference.log.transactions import AbortedTransaction
from nodes.reference.partition.effects import FetchAnswer, OffsetAnswer
from nodes.reference.partition.requests import ClientFetch, Isolation, Timestamp
from nodes.reference.protections import Protection, Protections


def epoch_error(asked: int, ours: int) -> ErrorCode:
    """KIP-320: who knows an older leader epoch than the leader is fenced, who knows a newer one is ahead of this broker."""
    if asked in (NO_EPOCH, ours):
        return ErrorCode.none
    return ErrorCode.fenced_leader_epoch if asked < ours else ErrorCode.unknown_leader_epoch


def position_error(log: Log, offset: int, last_fetched_epoch: int) -> tuple[ErrorCode, EpochEnd]:
    """May someone go on reading at an offset? KIP-595, Fetch: where the reader's last epoch ended earlier here, it has to truncate."""
    if last_fetched_epoch != NO_EPOCH:
        end = log.end_of_epoch(last_fetched_epoch)
        if end == UNKNOWN_END or offset < log.log_start_offset:
            return ErrorCode.offset_out_of_range, UNKNOWN_END
        if end.epoch < last_fetched_epoch or end.offset < offset:
            return ErrorCode.none, end
    if not log.log_start_offset <= offset <= log.log_end_offset:
        return ErrorCode.offset_out_of_range, UNKNOWN_END
    return ErrorCode.none, UNKNOWN_END


def visible_end(log: Log, isolation: Isolation, protections: Protections) -> int:
    """KIP-98, Last Stable Offset: the first offset that a consumer must not see."""
    if isolation is Isolation.READ_COMMITTED and protections.on(Protection.STABLE_OFFSET):
        return log.last_stable_offset
    return log.high_watermark


def client_fetch(log: Log, request: ClientFetch, protections: Protections) -> FetchAnswer:
    """Committed records from an offset on; none between the high watermark and the end of the log, which is no error."""
    error, diverging = position_error(log, request.offset, request.last_fetched_epoch)
    end = visible_end(log, request.isolation, protections)
    readable = error is ErrorCode.none and diverging is UNKNOWN_END
    records = log.read(request.offset, upper_bound=end, max_bytes=request.max_bytes) if readable else b""
    aborted = None
    if request.isolation is Isolation.READ_COMMITTED:
        aborted = _aborted(log, request.offset, records)
    return FetchAnswer(
        error=error,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        records=records,
        aborted=aborted,
        diverging=diverging,
    )


def _aborted(log: Log, offset: int, records: bytes) -> tuple[AbortedTransaction, ...]:
    """Aborted transactions that reach into the records."""
    if not records or not log.aborted_between(offset, log.high_watermark):
        return ()
    end = max(header.next_offset for _, header in batches(records))
    return tuple(log.aborted_between(offset, end))


def list_offset(
    log: Log, timestamp: int, isolation: Isolation | None, *, epoch_start: int, protections: Protections
) -> OffsetAnswer:
    """ListOffsets. isolation: None for a follower, which is told where the log ends."""
    if timestamp == Timestamp.EARLIEST:
        return _at(log, log.log_start_offset)
    end = log.log_end_offset if isolation is None else visible_end(log, isolation, protections)
    lags = isolation is not None and _lags_behind_predecessor(log, epoch_start, protections)
    if timestamp == Timestamp.LATEST:
        return OffsetAnswer(ErrorCode.offset_not_available) if lags else _at(log, end)
    found = timestamps.latest(log, end) if timestamp == Timestamp.MAX else timestamps.first_at(log, timestamp, end)
    if found is not None:
        return OffsetAnswer(ErrorCode.none, found.offset, found.timestamp, found.leader_epoch)
    return OffsetAnswer(ErrorCode.offset_not_available if lags else ErrorCode.none)


def _at(log: Log, offset: int) -> OffsetAnswer:
    return OffsetAnswer(ErrorCode.none, offset, leader_epoch=log.epochs.epoch_of(offset))


def _lags_behind_predecessor(log: Log, epoch_start: int, protections: Protections) -> bool:
    """KIP-207: until the high watermark has reached the start of the leader's epoch, its predecessor may have told a later one."""
    return log.high_watermark < epoch_start and protections.on(Protection.END_OFFSET_AFTER_EPOCH_START)
