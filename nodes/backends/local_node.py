"""A node of the local backend: a home directory, a network namespace, and the processes inside it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from nodes.backends import processes
from nodes.backends.homes import Home
from nodes.backends.namespaces import Place
from nodes.backends.processes import Child, Surroundings
from nodes.node import Command, Completed, Gone, NodeError, Paused, ProcessState, Running


class LocalNode(Home):
    """Implements `nodes.node.Node`. The main process and its children are all that is in the namespace, less what
    `run` started."""

    def __init__(
        self,
        name: str,
        directory: Path,
        place: Place,
        *,
        clock: str,
        python: tuple[str, ...],
        mounts: Mapping[str, Path],
        env: Mapping[str, str],
    ) -> None:
        super().__init__(name, directory)
        self.address = place.address
        self.clock = clock
        self.python = python
        self.place = place
        self._mounts = mounts
        self._env = {**env, "HOME": str(self.directory)}
        self._main: Child | None = None
        self._beside: set[int] = set()  # sessions of `run` commands

    def mounted(self, name: str) -> str:
        try:
            return str(self._mounts[name])
        except KeyError:
            raise NodeError(f"{self.name}: no mount {name!r}; there are {sorted(self._mounts)}") from None

    async def start(self, command: Command) -> None:
        there = self._pids()
        if there or await self.state() != Gone(self._code()):
            raise NodeError(f"{self.name}: still runs {', '.join(map(processes.describe, there))}; kill it first")
        log = self._inside(command.log)
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as output:
                self._main = await self._around(command.env).start(command.argv, stdout=output)
        except OSError as error:
            raise NodeError(f"{self.name}: cannot start {command.argv[0]}: {error}") from error

    async def kill(self) -> None:
        await self._all(processes.kill)
        if self._main:
            await self._main.exited()

    async def stop(self, *, timeout: float) -> int | None:
        if self._main is None:
            return None
        self._main.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(timeout):
                code = await self._main.exited()
        except TimeoutError:
            raise NodeError(
                f"{self.name}: SIGTERM did not end {processes.describe(self._main.pid)} in {timeout:g} s"
            ) from None
        await self._all(processes.kill)
        return code

    async def pause(self) -> None:
        if not self._pids():
            raise NodeError(f"{self.name}: nothing runs that could be paused")
        await self._all(processes.pause)

    async def resume(self) -> None:
        await self._all(processes.resume)

    async def state(self) -> ProcessState:
        if self._main is None or self._main.code is not None:
            return Gone(self._code())
        return Paused() if processes.stopped(self._main.pid) else Running()

    async def exited(self) -> Gone:
        return Gone(await self._main.exited() if self._main else None)

    async def resident_bytes(self) -> int:
        return sum(map(processes.resident_bytes, self._pids()))

    async def run(self, argv: tuple[str, ...], *, timeout: float, stdin: bytes = b"") -> Completed:
        started: list[int] = []

        def on_start(pid: int) -> None:
            started.append(pid)
            self._beside.add(pid)

        try:
            return await processes.complete(argv, self._around({}), timeout=timeout, stdin=stdin, on_start=on_start)
        except TimeoutError:
            raise NodeError(f"{self.name}: {' '.join(argv)} took longer than {timeout:g} s and was killed") from None
        except OSError as error:
            raise NodeError(f"{self.name}: cannot run {argv[0]}: {error}") from error
        finally:
            self._beside.difference_update(started)

    def attach(self, argv: Sequence[str]) -> list[str]:
        return ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self.place.namespace}", "--", *argv]

    async def end(self) -> None:
        """Kill whatever is in the namespace, commands of `run` too."""
        await processes.kill(self._everything)
        if self._main:
            await self._main.exited()

    def _around(self, env: Mapping[str, str]) -> Surroundings:
        return Surroundings(namespace=self.place.namespace, cwd=self.directory, env={**self._env, **env})

    def _code(self) -> int | None:
        return self._main.code if self._main else None

    def _everything(self) -> list[int]:
        return processes.in_namespace(self.place.namespace)

    def _pids(self) -> list[int]:
        return [pid for pid in self._everything() if processes.session(pid) not in self._beside]

    async def _all(self, act: Callable[[processes.Find], Awaitable[None]]) -> None:
        try:
            await act(self._pids)
        except NodeError as error:
            raise NodeError(f"{self.name}: {error}") from None
