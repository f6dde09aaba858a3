"""Transactions of one partition (KIP-98): which are open, up to where the log is stable, and which were aborted.

A function of the log, as the producers are. The last stable offset is the first offset of the oldest transaction that is open or whose
marker is not yet below the high watermark; readers of committed records read up to it and are told the aborted transactions in what they
read.

    transactions.first_unstable(high_watermark)  200 | None
    transactions.aborted_between(0, 300)         [AbortedTransaction(producer_id=7, first_offset=120, last_offset=140)]
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from nodes.reference.log.batch import BatchHeader, BatchRefused, EndOfTransaction, Marker


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int  # of its marker


class _Ended(NamedTuple):
    first_offset: int
    last_offset: int  # of its marker


class TransactionsSnapshot(NamedTuple):
    open: dict[int, int]
    ended: tuple[_Ended, ...]
    aborted: int  # how many there were


NO_TRANSACTIONS = TransactionsSnapshot({}, (), 0)


class Transactions:
    """Open, just ended and aborted transactions of one partition."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}  # producer id -> first offset
        self._ended: list[_Ended] = []  # whose markers may be above the high watermark
        self._aborted: list[AbortedTransaction] = []  # ascending in the offset of their markers

    def snapshot(self) -> TransactionsSnapshot:
        return TransactionsSnapshot(dict(self._open), tuple(self._ended), len(self._aborted))

    def restore(self, snapshot: TransactionsSnapshot) -> None:
        self._open = dict(snapshot.open)
        self._ended = list(snapshot.ended)
        del self._aborted[snapshot.aborted :]

    def is_open(self, producer_id: int) -> bool:
        return producer_id in self._open

    def check(self, header: BatchHeader) -> None:
        """A producer with an open transaction writes inside it. BatchRefused(INVALID_TXN_STATE) otherwise."""
        if header.producer_id in self._open and not header.transactional:
            raise BatchRefused(
                ErrorCode.invalid_txn_state,
                f"producer {header.producer_id} has a transaction open and sent a batch outside of it",
            )

    def appended(self, header: BatchHeader) -> None:
        """A data batch is in the log: the first transactional one of a producer opens its transaction here."""
        if header.transactional:
            self._open.setdefault(header.producer_id, header.base_offset)

    def ended(self, header: BatchHeader, end: EndOfTransaction) -> None:
        """A marker is in the log. A transaction that wrote nothing here leaves no trace."""
        first = self._open.pop(header.producer_id, None)
        if first is None:
            return
        self._ended.append(_Ended(first, header.last_offset))
        if end.marker is Marker.ABORT:
            self._aborted.append(AbortedTransaction(header.producer_id, first, header.last_offset))

    def first_unstable(self, high_watermark: int) -> int | None:
        """KIP-98, Last Stable Offset: where the oldest transaction begins that is open or ended above the high watermark."""
        if not self._open and not self._ended:
            return None
        self._ended = [ended for ended in self._ended if ended.last_offset >= high_watermark]
        firsts = [*self._open.values(), *(ended.first_offset for ended in self._ended)]
        return min(firsts, default=None)

    def aborted_between(self, start: int, end: int) -> list[AbortedTransaction]:
        """Aborted transactions with a record in [start, end), as a Fetch lists them (KIP-98, Aborted Transaction Index)."""
        from_here = bisect_left(self._aborted, start, key=lambda aborted: aborted.last_offset)
        return [aborted for aborted in self._aborted[from_here:] if aborted.first_offset < end]
