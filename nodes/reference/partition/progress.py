"""How far a follower is, as its leader sees it from the Fetch requests (Kafka's Replica).

Times are ns. A follower is caught up when its log ends where the leader's does, or when it asked, not longer ago than
`replica.lag.time.max.ms`, for all that the leader had when it asked the time before: so one that follows at full speed stays in sync
although it never is at the very end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UNKNOWN_OFFSET: Final = -1


@dataclass(slots=True)
class Progress:
    """Of one follower in one leader epoch."""

    log_end_offset: int = UNKNOWN_OFFSET
    broker_epoch: int | None = None  # of its newest fetch; -1: it fetches with a version that has none
    last_caught_up: int | None = None
    _last_fetch: int | None = None
    _leader_end_then: int = UNKNOWN_OFFSET  # at the newest fetch

    def fetched(self, offset: int, broker_epoch: int, *, leader_end: int, now: int) -> None:
        """A fetch at an offset says that it has everything before."""
        if offset >= leader_end:
            self._caught_up(now)
        elif offset >= self._leader_end_then and self._last_fetch is not None:
            self._caught_up(self._last_fetch)
        self.log_end_offset = offset
        self.broker_epoch = broker_epoch
        self._last_fetch = now
        self._leader_end_then = leader_end

    def is_caught_up(self, *, leader_end: int, now: int, max_lag: int) -> bool:
        if self.log_end_offset == leader_end:
            return True
        return self.last_caught_up is not None and now - self.last_caught_up <= max_lag

    def _caught_up(self, at: int) -> None:
        self.last_caught_up = at if self.last_caught_up is None else max(self.last_caught_up, at)
