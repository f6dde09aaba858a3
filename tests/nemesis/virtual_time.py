"""An event loop whose clock jumps to the next timer when nobody has anything to do: an hour of waiting takes no time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _JumpingSelector(selectors.SelectSelector):
    jump: Callable[[float], None]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or timeout == 0:
            return events
        if timeout is None:
            raise RuntimeError("everybody waits and no timer is set")
        self.jump(timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        selector = _JumpingSelector()
        selector.jump = self._jump
        self._virtual = 1000.0
        super().__init__(selector)
        self._clock_resolution = 1e-6

    def _jump(self, seconds: float) -> None:
        self._virtual += seconds

    def time(self) -> float:
        return self._virtual

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        done: asyncio.Future[Any] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - as an executor does
            done.set_exception(error)
        return done


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """asyncio.run, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)


def now_ns() -> int:
    return int(asyncio.get_running_loop().time() * 1e9)
