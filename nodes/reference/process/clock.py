"""The clock of a node that runs for real (`environment.Clock`): CLOCK_MONOTONIC, by which asyncio's loops go too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from nodes.reference.environment import SECOND


class LoopClock:
    """Timers are those of the running loop."""

    def now(self) -> int:
        return time.monotonic_ns()

    def wall(self) -> int:
        return time.time_ns() // 1_000_000

    def call_at(self, when: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(max(0, when - self.now()) / SECOND, callback)

    async def sleep_until(self, when: int) -> None:
        while (left := when - self.now()) > 0:  # noqa: ASYNC110 - uvloop rounds to milliseconds, so once may be too early
            await asyncio.sleep(left / SECOND)
