"""Bringing the outcome of one transaction to all of its partitions (KIP-98, WriteTxnMarkers): again and again, until each has its marker.

marking = Marking(transaction, partitions, coordinator_epoch=3, settings, now)
marking.sent                                   SendMarkers(...), under way
marking.answered({p0: none, p1: NOT_LEADER_OR_FOLLOWER}, now)
marking.again(now)                             None until the backoff is over, then SendMarkers for p1 alone
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from nodes.reference.coordinator.effects import NEVER, SendMarkers
from nodes.reference.coordinator.groups.requests import TopicPartition
from nodes.reference.coordinator.transactions.requests import Marked, TransactionSettings
from nodes.reference.coordinator.transactions.state import Transaction

# TransactionMarkerRequestCompletionHandler: neither has a marker that a consumer would look for
_NEEDS_NONE: Final = frozenset(
    {ErrorCode.none, ErrorCode.unsupported_for_message_format, ErrorCode.unsupported_version}
)
_REPLACED: Final = frozenset({ErrorCode.invalid_producer_epoch, ErrorCode.transaction_coordinator_fenced})


class Marking:
    """The first attempt is `sent`."""

    def __init__(
        self,
        transaction: Transaction,
        partitions: frozenset[TopicPartition],
        *,
        coordinator_epoch: int,
        settings: TransactionSettings,
        now: int,
    ) -> None:
        self._transaction = transaction
        self._coordinator_epoch = coordinator_epoch
        self._settings = settings
        self._began = now
        self.remaining = partitions
        self.replaced = False  # a newer coordinator or producer was there: nothing here is ours to end any more
        self.sent: SendMarkers | None = None
        self.retry_at = NEVER
        self._send()

    def answered(self, results: Marked, now: int) -> None:
        """What was said of each partition of `sent`."""
        self.sent = None
        self.replaced = any(error in _REPLACED for error in results.values())
        self.remaining -= {partition for partition, error in results.items() if self._is_settled(error, now)}
        self.retry_at = now + self._settings.marker_retry_backoff_ms

    def again(self, now: int) -> SendMarkers | None:
        """To be sent; None if nothing is, or it is too early."""
        if self.sent is not None or not self.remaining or now < self.retry_at:
            return None
        self._send()
        return self.sent

    def put_off(self, now: int) -> None:
        """All have theirs, and that could not be written down."""
        self.retry_at = now + self._settings.marker_retry_backoff_ms

    def _is_settled(self, error: ErrorCode, now: int) -> bool:
        if error is ErrorCode.unknown_topic_or_partition:
            return now - self._began >= self._settings.topic_gone_after_ms
        return error in _NEEDS_NONE

    def _send(self) -> None:
        self.retry_at = NEVER
        if self.remaining:
            self.sent = SendMarkers(
                self._transaction.transactional_id,
                self._transaction.producer_id,
                self._transaction.producer_epoch,
                self._coordinator_epoch,
                self._transaction.commits,
                self.remaining,
            )
