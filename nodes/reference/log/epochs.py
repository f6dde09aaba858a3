"""Where each leader epoch began in the log (KIP-101): what followers and leaders compare to find the offset at which they diverge.

cache.entries        [EpochStart(epoch=0, offset=0), EpochStart(epoch=4, offset=120)]
cache.end_of(2, 200) EpochEnd(epoch=0, offset=120): the largest epoch that is not above 2 ended where epoch 4 began
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1


class EpochStart(NamedTuple):
    epoch: int
    offset: int  # of its first record, or where one would have been


class EpochEnd(NamedTuple):
    """The largest epoch not above the one asked for, and the offset after its last record; (-1, -1) if unknown."""

    epoch: int
    offset: int


UNKNOWN_END: Final = EpochEnd(NO_EPOCH, NO_OFFSET)


class EpochCache:
    """Leader epochs of one log, ascending in epoch and in offset."""

    def __init__(self, entries: Iterable[EpochStart] = ()) -> None:
        self.entries: list[EpochStart] = []
        for entry in entries:
            self.assign(*entry)

    @property
    def latest(self) -> int:
        """-1 while there is none."""
        return self.entries[-1].epoch if self.entries else NO_EPOCH

    def assign(self, epoch: int, offset: int) -> bool:
        """An epoch begins. Entries that contradict it go: what is in the log now outweighs them. False if it was known."""
        if self.entries and self.entries[-1].epoch == epoch:
            return False
        while self.entries and (self.entries[-1].epoch >= epoch or self.entries[-1].offset >= offset):
            self.entries.pop()
        self.entries.append(EpochStart(epoch, offset))
        return True

    def end_of(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """OffsetForLeaderEpoch (KIP-101, KIP-279): the end of the largest epoch that is not above the one asked for."""
        if epoch == NO_EPOCH or not self.entries:
            return UNKNOWN_END
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        after = bisect_right(self.entries, epoch, key=lambda entry: entry.epoch)
        if after == len(self.entries):
            return UNKNOWN_END  # an epoch that this log has not reached
        if after == 0:
            return EpochEnd(epoch, self.entries[0].offset)
        return EpochEnd(self.entries[after - 1].epoch, self.entries[after].offset)

    def epoch_of(self, offset: int) -> int:
        """The epoch in which the record at an offset was written; -1 if before all of them."""
        after = bisect_right(self.entries, offset, key=lambda entry: entry.offset)
        return self.entries[after - 1].epoch if after else NO_EPOCH

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forget epochs that began at or after an offset. True if there were any."""
        kept = [entry for entry in self.entries if entry.offset < end_offset]
        changed = len(kept) < len(self.entries)
        self.entries = kept
        return changed
