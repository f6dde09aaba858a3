"""What a coordinator's core asks its shell to do. Values; nothing here acts.

A core never waits: who asks gives a ticket, and sooner or later there is an `Answer` with it. What has to be in the log before it is
answered is a `Write`; the shell appends it and comes back with `written(token, error, base_offset, now)`, in the order of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from nodes.reference.log.keyed import KeyedRecord, Writer

Ticket = Hashable  # names a request until it is answered; chosen by the shell
NEVER: Final = 1 << 62  # a deadline that does not come


@dataclass(frozen=True, slots=True)
class Answer:
    """Once for each ticket. `said` is one of the answers of requests.py, or an ErrorCode where there is nothing else to say."""

    ticket: Ticket
    said: object


@dataclass(frozen=True, slots=True)
class Write:
    """Append one batch to the partition of the internal topic that this core is made of, and say what became of it.

    Without a deadline: until it is committed, or nobody can say any more because another leads.
    """

    token: int
    records: tuple[KeyedRecord, ...]
    writer: Writer | None = None  # a transaction decides whether it counts


Written = Callable[[ErrorCode, int, int], "list[Effect]"]  # error, base offset, now


@dataclass(frozen=True, slots=True)
class SendMarkers:
    """WriteTxnMarkers to the leaders of these partitions (KIP-98); comes back with the very same object and what each said."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    partitions: frozenset[tuple[str, int]]


Effect = Answer | Write | SendMarkers
_IN_THE_LOG: Final = frozenset({ErrorCode.none, ErrorCode.not_enough_replicas_after_append})


class Writes:
    """Writes under way and what is to be done after each."""

    def __init__(self) -> None:
        self._under_way: dict[int, Written] = {}
        self._tokens = 0

    def __len__(self) -> int:
        return len(self._under_way)

    def begin(self, records: tuple[KeyedRecord, ...], then: Written, writer: Writer | None = None) -> Write:
        self._tokens += 1
        self._under_way[self._tokens] = then
        return Write(self._tokens, records, writer)

    def done(self, token: int, error: ErrorCode, base_offset: int, now: int) -> list[Effect]:
        return self._under_way.pop(token)(error, base_offset, now)


def is_in_the_log(error: ErrorCode) -> bool:
    """Committed, whatever else is said of it: too few replicas had it, but all that were in sync."""
    return error in _IN_THE_LOG


def of_the_log(error: ErrorCode) -> ErrorCode:
    """What a client is told when a coordinator could not write (GroupMetadataManager and TransactionStateManager translate alike)."""
    match error:
        case (
            ErrorCode.unknown_topic_or_partition
            | ErrorCode.not_enough_replicas
            | ErrorCode.not_enough_replicas_after_append
            | ErrorCode.request_timed_out
        ):
            return ErrorCode.coordinator_not_available
        case ErrorCode.not_leader_or_follower | ErrorCode.kafka_storage_error:
            return ErrorCode.not_coordinator
        case ErrorCode.message_too_large | ErrorCode.record_list_too_large | ErrorCode.invalid_fetch_size:
            return ErrorCode.unknown_server_error
        case _:
            return error
