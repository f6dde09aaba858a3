"""An asyncio event loop whose time is a number: it jumps to the next timer, so nothing ever waits, and a run depends on its seed alone.

Callbacks know which simulated process they belong to (a context variable, which tasks and timers inherit), and that is all it takes to
kill one: callbacks of a dead process are dropped, so its code stops where it is, `finally` blocks included. A paused process's callbacks
are kept until it goes on.

    loop = simulated_loop()
    process = Process("broker-1")
    process.context.run(loop.create_task, main())
    loop.run_until(10 * SECOND)
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final

from nodes.reference.environment import SECOND

_PROCESS: Final[ContextVar[Process | None]] = ContextVar("process", default=None)


class Process:
    """A run of a program on a simulated machine."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.held: deque[Call] = deque()
        self.tasks: list[asyncio.Task[Any]] = []
        self._many = 64
        self.context = copy_context()
        self.context.run(_PROCESS.set, self)

    def remember(self, task: asyncio.Task[Any]) -> None:
        """Of tasks that are done it may have many, but not too many."""
        self.tasks.append(task)
        if len(self.tasks) > self._many:
            self.tasks = [known for known in self.tasks if not known.done()]
            self._many = 64 + 2 * len(self.tasks)


class Call:
    """A callback that is due: what asyncio calls a Handle."""

    __slots__ = ("_arguments", "_callback", "cancelled", "context", "process")

    def __init__(self, callback: Callable[..., object], arguments: tuple[object, ...], context: Context) -> None:
        self._callback = callback
        self._arguments = arguments
        self.context = context
        self.process = context.get(_PROCESS)
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True

    def run(self) -> None:
        self.context.run(self._callback, *self._arguments)


class SimulatedLoop(asyncio.AbstractEventLoop):
    """`now` is the time in ns. Errors that nobody handled are in `errors`."""

    def __init__(self) -> None:
        self.now = 0
        self.steps = 0
        self.errors: list[BaseException | str] = []
        self._ready: deque[Call] = deque()
        self._timers: list[tuple[int, int, Call]] = []
        self._sequence = 0
        self._graveyard: list[Process] = []
        self.ended = False

    def run_until(self, when: int, *, stop: Callable[[], bool] | None = None) -> None:
        """Everything that happens up to a moment, or until `stop` says so. What a callback raises comes out here."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            ready = self._ready
            while ready or self._advance(when):
                call = ready.popleft()
                process = call.process
                if call.cancelled or (process is not None and not process.alive):
                    continue
                if process is not None and process.paused:
                    process.held.append(call)
                    continue
                self.steps += 1
                call.run()
                if stop is not None and stop():
                    return
        finally:
            asyncio._set_running_loop(before)

    def _advance(self, limit: int) -> bool:
        """Is there something to do up to `limit`? Time goes on only when nothing is left to do now."""
        while not self._ready:
            if not self._timers or self._timers[0][0] > limit:
                self.now = max(self.now, limit)
                return False
            when, _, call = heapq.heappop(self._timers)
            if not call.cancelled:
                self.now = max(self.now, when)
                self._ready.append(call)
        return True

    def resume(self, process: Process) -> None:
        process.paused = False
        self._ready.extend(process.held)
        process.held.clear()

    def bury(self, process: Process) -> None:
        """Keeps what a dead process was doing until the world ends: its coroutines must not run their `finally` when they are collected."""
        self._graveyard.append(process)

    def exhume(self) -> None:
        """The world has ended: the coroutines of the dead are closed, and whatever they do about it is nobody's business."""
        self.ended = True
        for process in self._graveyard:
            for task in process.tasks:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                coroutine = task.get_coro()
                with contextlib.suppress(BaseException):
                    process.context.run(coroutine.close)
            process.tasks.clear()
        self._graveyard.clear()

    def at(
        self, when: int, callback: Callable[..., object], *arguments: object, context: Context | None = None
    ) -> Call:
        """`call_at` in ns."""
        call = Call(callback, arguments, copy_context() if context is None else context)
        self._sequence += 1
        heapq.heappush(self._timers, (max(when, self.now), self._sequence, call))
        return call

    # What asyncio asks of a loop

    def time(self) -> float:
        return self.now / SECOND

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        call = Call(callback, args, copy_context() if context is None else context)
        self._ready.append(call)
        return call

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        return self.at(round(when * SECOND), callback, *args, context=context)

    def call_later(self, delay: float, callback: Any, *args: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        return self.at(self.now + round(delay * SECOND), callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Any = None) -> Any:  # type: ignore[override]
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name or "task", context=context)
        process = _PROCESS.get()
        if process is not None:
            process.remember(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.ended:
            self.errors.append(context.get("exception") or str(context.get("message")))

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return asyncio._get_running_loop() is self

    def is_closed(self) -> bool:
        return False


def simulated_loop() -> SimulatedLoop:
    """What a simulation has no use for (sockets, signals, threads) raises NotImplementedError."""
    return SimulatedLoop()  # type: ignore[abstract]
