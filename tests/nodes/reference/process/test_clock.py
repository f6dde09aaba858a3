"""Timers of real nodes, with the event loop that they use, which counts in milliseconds."""

from __future__ import annotations

import asyncio

import uvloop

from nodes.reference.environment import MILLISECOND
from nodes.reference.process.clock import LoopClock


def test_nobody_is_called_early() -> None:
    """A Fetch that is woken before its deadline finds that it is not over, and has no other timer."""

    async def main() -> list[int]:
        clock, early, left = LoopClock(), list[int](), asyncio.Semaphore(0)

        def called(when: int) -> None:
            early.append(when - clock.now())
            left.release()

        for number in range(200):
            when = clock.now() + 5 * MILLISECOND + number * 37_501
            clock.call_at(when, lambda when=when: called(when))
        for _ in range(200):
            await left.acquire()
        return early

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert max(runner.run(main())) <= 0


def test_who_cancels_is_not_called() -> None:
    async def main() -> bool:
        clock, called = LoopClock(), asyncio.Event()
        timer = clock.call_at(clock.now() + MILLISECOND, called.set)
        timer.cancel()
        await clock.sleep_until(clock.now() + 5 * MILLISECOND)
        return called.is_set()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert not runner.run(main())
