"""The client processes of a run, one per client node: start them, follow their counters, stop them, notice when one dies.

Each runs `python -m harness.client CONFIG` in its node and prints its counters as JSON lines; they are added up here and handed on, for the
progress line, for triggers that count ops, and for the achieved rate. A client that dies is a harness error, unless it was killed on
purpose (`kill`): then a new process takes its place (`start_again`), whose counters are added to those of the old one.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from nodes.node import Command, Gone, Node

START_DEADLINE = 60.0  # seconds for a client to be ready to send
STOP_DEADLINE = 60.0  # seconds for a client to finish what is in flight


class ClientDied(Exception):
    """A client process ended on its own; the message holds its last words."""


@dataclass(kw_only=True)
class ClientGroup:
    """Client processes of one phase. `configs`: node name -> the JSON configuration of harness/client.py."""

    nodes: Mapping[str, Node]
    configs: Mapping[str, Mapping[str, Any]]
    on_progress: Callable[[Mapping[str, int]], None]
    again: Callable[[str], Mapping[str, Any]] | None = None  # the configuration of the next process of a client
    _earlier: Counter[str] = field(default_factory=Counter)  # counters of processes that were killed
    _down: dict[str, asyncio.Event] = field(default_factory=dict)  # killed on purpose; set when there is another
    _counters: dict[str, dict[str, int]] = field(default_factory=dict)
    _last_words: dict[str, str] = field(default_factory=dict)
    _followers: list[asyncio.Task[None]] = field(default_factory=list)
    _started: dict[str, asyncio.Event] = field(default_factory=dict)

    async def start(self) -> None:
        """Start all; returns when each has said that its workload begins. Raises ClientDied."""
        await asyncio.gather(*(self._launch(name, config) for name, config in self.configs.items()))
        for name in self.configs:
            self._followers.append(asyncio.create_task(self._follow(name, _log(self.configs[name]))))
        await self._begun(self.configs)

    async def kill(self, name: str) -> None:
        """SIGKILL, and nobody is to wonder."""
        self._down[name] = asyncio.Event()
        await self.nodes[name].kill()

    async def start_again(self, name: str) -> None:
        """Another process in the place of one that was killed. Raises ClientDied."""
        if self.again is None or name not in self._down:
            raise ClientDied(f"client {name} was not killed, or may not be started again")
        self._earlier.update(self._counters.pop(name, {}))
        await self._launch(name, self.again(name))
        await self._begun([name])
        self._down.pop(name).set()

    async def _launch(self, name: str, config: Mapping[str, Any]) -> None:
        node, file = self.nodes[name], f"etc/client-{config['phase']}.json"
        self._started[name] = asyncio.Event()
        await node.write(file, json.dumps(config).encode())
        await node.start(Command(argv=(*node.python, "-m", "harness.client", node.absolute(file)), log=_log(config)))

    async def _begun(self, names: Iterable[str]) -> None:
        """Until each has said that its workload begins."""
        begun: asyncio.Future[Any] = asyncio.gather(*(self._started[name].wait() for name in names))
        death: asyncio.Future[Any] = asyncio.gather(*(self._failure_of(name) for name in names))
        try:
            await asyncio.wait([begun, death], timeout=START_DEADLINE, return_when=asyncio.FIRST_COMPLETED)
            if not begun.done():
                if death.done():
                    death.result()
                silent = ", ".join(name for name in names if not self._started[name].is_set())
                raise ClientDied(f"{silent} did not start within {START_DEADLINE:g} s")
        finally:
            for waiting in (begun, death):
                waiting.cancel()
            await asyncio.gather(begun, death, return_exceptions=True)

    async def _follow(self, name: str, log: str) -> None:
        async with aclosing(self.nodes[name].lines(log)) as lines:  # type: ignore[type-var]  # every implementation is a generator
            async for line in lines:
                self._heard(name, line)

    def _heard(self, name: str, line: str) -> None:
        self._last_words[name] = line
        if not line.startswith("{"):
            return
        try:
            message = json.loads(line)
        except ValueError:
            return
        if "started" in message:
            self._started[name].set()
        counters = message.get("progress")
        if isinstance(counters, dict):
            self._counters[name] = counters
            self.on_progress(self.totals())

    def totals(self) -> dict[str, int]:
        total = Counter(self._earlier)
        for counters in self._counters.values():
            total.update(counters)
        return dict(total)

    async def first_exit(self) -> None:
        """Wait until a client process ends on its own; raises ClientDied."""
        waits = [asyncio.create_task(self._exit_of(name)) for name in self.configs]
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in done:
                wait.result()
        finally:
            for wait in waits:
                wait.cancel()

    async def _exit_of(self, name: str) -> None:
        while True:
            try:
                await self._death_of(name)
            except ClientDied:
                if (down := self._down.get(name)) is None:
                    raise
                await down.wait()

    async def _failure_of(self, name: str) -> None:
        """A final reader may be done before another has begun; then its own words are on their way."""
        gone = await self.nodes[name].exited()
        if gone.code == 0:
            await asyncio.Event().wait()
        raise ClientDied(self._obituary(name, gone))

    async def _death_of(self, name: str) -> None:
        gone = await self.nodes[name].exited()
        raise ClientDied(self._obituary(name, gone))

    def _obituary(self, name: str, gone: Gone) -> str:
        return f"client {name} ended with code {gone.code}: {_in_words(self._last_words.get(name))}"

    async def finish(self, *, deadline: float) -> None:
        """Wait until every client ended by itself with code 0; raises ClientDied otherwise, or after `deadline` seconds."""
        try:
            async with asyncio.timeout(deadline):
                ended = {name: await self.nodes[name].exited() for name in self.configs}
        except TimeoutError:
            await asyncio.gather(*(self.nodes[name].kill() for name in self.configs))
            raise ClientDied(f"{', '.join(self.configs)} did not end within {deadline:g} s") from None
        finally:
            await self._stop_following()
        for name, gone in ended.items():
            if gone.code != 0:
                raise ClientDied(self._obituary(name, gone))

    async def stop(self) -> None:
        """Ask every client to finish what is in flight and end; kills what does not within the deadline."""
        codes = await asyncio.gather(
            *(self.nodes[name].stop(timeout=STOP_DEADLINE) for name in self.configs), return_exceptions=True
        )
        await self._stop_following()
        for name, code in zip(self.configs, codes, strict=True):
            if isinstance(code, BaseException):
                await self.nodes[name].kill()
                raise ClientDied(f"client {name} did not end within {STOP_DEADLINE:g} s of being asked to: {code}")
            if code not in (0, None, -signal.SIGTERM):  # the last: asked to end before it had begun to listen
                raise ClientDied(self._obituary(name, Gone(code=code)))

    async def _stop_following(self) -> None:
        for follower in self._followers:
            follower.cancel()
        await asyncio.gather(*self._followers, return_exceptions=True)


def _log(config: Mapping[str, Any]) -> str:
    return f"log/client-{config['phase']}.log"


def _in_words(last: str | None) -> str:
    """The last line of a client's log; of the error that harness/client.py prints there, type and message."""
    if last is None:
        return "it said nothing"
    try:
        error = json.loads(last)["error"]
        return f"{error['type']}: {error['message']}"
    except (ValueError, KeyError, TypeError):
        return last[:300]
