"""The outer process of a run: starts the stage, shows how it goes, watches for hangs, and afterwards has the history judged and reported.

Why two processes: the stage lives inside the backend's enclosure and may hang, die or be interrupted with it; whatever happens there, this
process still turns what was recorded into a verdict and a report. Ctrl-C reaches only this process (the stage has a session of its own):

    first Ctrl-C    the stage heals, drains what it can and ends; the run is judged as interrupted
    second Ctrl-C   the stage is killed; what reached the disk is judged
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from harness.control import LINE_LIMIT, Line

SILENCE_LIMIT = 45.0  # seconds without a word from the stage that make a hang; it says "alive" every second
CONNECT_LIMIT = 30.0


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a stage ended.

    `status` is what run.json holds: completed, interrupted, harness-error or hang; `code` a user command's exit code. `interrupted`: the
    user asked for an end, be it too late for this stage: whoever runs several starts no other.
    """

    status: str
    reason: str | None = None
    code: int = 0
    interrupted: bool = False


class Listener(Protocol):
    """Who is told what the stage says."""

    def heard(self, message: dict[str, Any]) -> None: ...
    def interrupted(self, times: int) -> None: ...


@dataclass(kw_only=True)
class Supervisor:
    """Runs one stage to its end. `enclose` is the backend's; `log` takes the stage's standard error."""

    stage: Sequence[str]  # argv of the stage without its control socket
    enclose: Callable[[Sequence[str]], list[str]]
    log: Path
    listener: Listener
    limit: float  # seconds for everything; beyond is a hang
    inherit_terminal: bool = False  # `krash up -- COMMAND`: the command talks to the user's terminal
    holder_pid: int | None = None  # of `krash up`: a process inside the first client's namespaces, as seen from here
    _interrupts: int = 0
    _line: Line | None = None
    _ending: Ending | None = None
    _heard_at: float = field(default_factory=time.monotonic)
    _process: asyncio.subprocess.Process | None = None
    _closed: asyncio.Event = field(default_factory=asyncio.Event)  # the stage's last words were read

    async def run(self) -> Ending:
        directory = Path(tempfile.mkdtemp(prefix="krash-"))
        socket = directory / "control"
        server = await asyncio.start_unix_server(self._serve, path=str(socket), limit=LINE_LIMIT)
        restore = self._catch_signals()
        try:
            ending = await self._run(socket)
            return replace(ending, interrupted=self._interrupts > 0 or ending.status == "interrupted")
        finally:
            restore()
            await self._kill()
            server.close()
            if self._line is not None:
                await self._closed.wait()
            shutil.rmtree(directory, ignore_errors=True)

    async def _run(self, socket: Path) -> Ending:
        argv = self.enclose([*self.stage, str(socket)])
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=None if self.inherit_terminal else asyncio.subprocess.DEVNULL,
                stdout=None if self.inherit_terminal else log,
                stderr=log,
                start_new_session=True,
            )
        if self._interrupts:
            self._signal_stage()  # it was not there yet
        self._heard_at = time.monotonic()
        ended = asyncio.create_task(self._process.wait())
        started = time.monotonic()
        while not ended.done():
            await asyncio.wait([ended], timeout=1.0)
            hang = self._hang(started)
            if hang and not ended.done():
                await self._kill()
                return Ending(status="hang", reason=hang)
        if self._line is not None:
            await self._closed.wait()
        if self._ending is not None:
            return self._ending
        if self._interrupts:
            return Ending(status="interrupted", reason="stopped before it had healed and drained")
        return Ending(
            status="harness-error", reason=f"the stage ended with code {ended.result()}: {self._last_words()}"
        )

    def _hang(self, started: float) -> str | None:
        now = time.monotonic()
        silent = now - self._heard_at
        limit = SILENCE_LIMIT if self._line else SILENCE_LIMIT + CONNECT_LIMIT
        if silent > limit:
            return f"the stage said nothing for {silent:.0f} s; see {self.log.name} for where it stood"
        if now - started > self.limit:
            return f"the run was not over after {self.limit:.0f} s"
        return None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = Line(reader, writer)
        try:
            async for message in line.messages():
                self._take(line, message)
        finally:
            await line.close()
            if line is self._line:
                self._closed.set()

    def _take(self, line: Line, message: dict[str, Any]) -> None:
        self._heard_at = time.monotonic()
        if message["type"] == "holder":
            self.holder_pid = line.peer_pid()
            return
        self._line = line
        self._closed.clear()
        if message["type"] == "done":
            self._ending = Ending(status=message["status"], reason=message.get("reason"), code=message.get("code", 0))
        elif message["type"] != "alive":
            self.listener.heard(message)

    def _catch_signals(self) -> Callable[[], None]:
        """Returns what puts back the handlers that were there: without asyncio's own, a Ctrl-C would raise wherever it comes, also
        where Python ignores what is raised."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.getsignal(number) or signal.SIG_DFL for number in signals}
        for number in signals:
            loop.add_signal_handler(number, self._interrupt)

        def restore() -> None:
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

        return restore

    def _interrupt(self) -> None:
        self._interrupts += 1
        self.listener.interrupted(self._interrupts)
        if self._interrupts == 1 and self._line is not None:
            self._line.send(type="interrupt")
        else:
            self._signal_stage()

    def _signal_stage(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._signal_stage()
            await self._process.wait()

    def _last_words(self) -> str:
        try:
            lines = self.log.read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1][:300] if lines else "it wrote nothing"


def stage_command(directory: Path) -> list[str]:
    return [sys.executable, "-m", "harness.stage", str(directory)]
