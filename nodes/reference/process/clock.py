"""The clock of a node that runs for real (`environment.Clock`): CLOCK_MONOTONIC, by which asyncio's loops go too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from nodes.reference.environment import SECOND


class LoopClock:
    """Timers are those of the running loop, but never early: uvloop rounds to milliseconds, and counts them from when its turn began."""

    def now(self) -> int:
        return time.monotonic_ns()

    def wall(self) -> int:
        return time.time_ns() // 1_000_000

    def call_at(self, when: int, callback: Callable[[], None]) -> LoopTimer:
        return LoopTimer(self, when, callback)

    async def sleep_until(self, when: int) -> None:
        while (left := when - self.now()) > 0:  # noqa: ASYNC110 - once may be too early
            await asyncio.sleep(left / SECOND)


class LoopTimer:
    """`when`: whoever is called may rely on that it is then."""

    def __init__(self, clock: LoopClock, when: int, callback: Callable[[], None]) -> None:
        self._clock, self._when, self._callback = clock, when, callback
        self._handle = self._armed()

    def cancel(self) -> None:
        self._handle.cancel()

    def _armed(self) -> asyncio.TimerHandle:
        left = max(0, self._when - self._clock.now()) / SECOND
        return asyncio.get_running_loop().call_later(left, self._fire)

    def _fire(self) -> None:
        if self._clock.now() < self._when:
            self._handle = self._armed()
        else:
            self._callback()
