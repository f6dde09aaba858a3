"""One transactional id in the memory of its coordinator: what the log has of it, and what is on its way there."""

from __future__ import annotations

from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from nodes.reference.coordinator.transactions.markers import Marking
from nodes.reference.coordinator.transactions.state import PREPARED, Transaction, TransactionState


@dataclass(slots=True)
class Known:
    transaction: Transaction  # as it is in the log
    pending: Transaction | None = None  # on its way there
    leaving: bool = False  # its tombstone is on its way there
    fence_failed: bool = False  # the epoch was bumped for an abort that could not be written: not once more
    marking: Marking | None = None

    @property
    def busy(self) -> bool:
        """A record of it is on its way into the log, or the markers of its transaction into theirs: all else has to wait."""
        return self.pending is not None or self.leaving or self.transaction.state in PREPARED

    def end_error(self, *, commit: bool) -> ErrorCode:
        """What speaks against an EndTxn; none, too, where it is a retry."""
        if self.pending is not None or self.leaving:
            return ErrorCode.concurrent_transactions
        match self.transaction.state:
            case TransactionState.ONGOING:
                return ErrorCode.none
            case TransactionState.EMPTY:
                return ErrorCode.invalid_txn_state
            case _ if self.transaction.commits != commit:
                return ErrorCode.invalid_txn_state
            case ended:
                return ErrorCode.concurrent_transactions if ended in PREPARED else ErrorCode.none

    def deadlines(self) -> list[int]:
        """When it is to be looked at, in ms since 1970."""
        if self.pending is not None:
            return []
        if self.marking is not None:
            return [self.marking.retry_at]
        times_out = self.transaction.times_out_at()
        return [] if times_out is None else [times_out]
