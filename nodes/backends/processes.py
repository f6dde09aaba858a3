"""Processes of nodes on this machine: start one and wait for it without a thread, find all that belong to a node,
stop and kill for sure.

What belongs to a node is decided by facts: every process in its network namespace. A child that made its own session
or lost its parent is found too, which process groups and parent pids cannot promise. Signals are repeated until /proc
shows their effect, since a process may fork between the look and the signal.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from nodes.backends.namespaces import within
from nodes.node import Completed, NodeError

EFFECT_SECONDS = 20.0  # a signal without effect after this long is an error
_LOOK_SECONDS = 0.005
_COMMAND_SECONDS = 30.0
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

Find = Callable[[], Sequence[int]]
Choose = Callable[[int, Sequence[int]], signal.Signals]


class Process(Protocol):
    """What a Child needs to know of a process; `subprocess.Popen` is one."""

    pid: int
    returncode: int

    def wait(self) -> object: ...
    def send_signal(self, sig: int, /) -> None: ...


class Child:
    """A process that is a child of this one; leads its own session."""

    def __init__(self, popen: Process) -> None:
        self._popen = popen
        self._done = asyncio.Event()
        self._watch = os.pidfd_open(popen.pid)
        asyncio.get_running_loop().add_reader(self._watch, self._reap)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def code(self) -> int | None:
        """Exit code, -N for signal N, None while it lives."""
        return self._popen.returncode if self._done.is_set() else None

    async def exited(self) -> int:
        await self._done.wait()
        return self._popen.returncode

    def signal(self, number: signal.Signals) -> None:
        if not self._done.is_set():
            self._popen.send_signal(number)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._watch)
        os.close(self._watch)
        self._popen.wait()
        self._done.set()


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a command is started with: here, in a network namespace of this machine."""

    namespace: int
    cwd: Path
    env: Mapping[str, str]

    async def start(
        self,
        argv: Sequence[str],
        *,
        stdin: IO[bytes] | int = subprocess.DEVNULL,
        stdout: IO[bytes],
        stderr: IO[bytes] | int = subprocess.STDOUT,
    ) -> Child:
        """Start a process. OSError when it cannot be executed."""

        def make() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                list(argv),
                cwd=self.cwd,
                env=dict(self.env),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )

        return Child(await within(self.namespace, make))


async def complete(
    argv: Sequence[str],
    around: Surroundings,
    *,
    timeout: float,
    stdin: bytes = b"",
    on_start: Callable[[int], None] = lambda pid: None,
) -> Completed:
    """Run a command to its end. TimeoutError when it takes longer (it is killed then), OSError when it cannot be
    executed.

    Input and output go through unnamed files, so a child that keeps them open cannot hold up the answer.
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        child = await around.start(argv, stdin=given, stdout=out, stderr=err)
        on_start(child.pid)
        try:
            async with asyncio.timeout(timeout):
                code = await child.exited()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            await child.exited()
        for file in (out, err):
            file.seek(0)
        return Completed(code=code, stdout=out.read(), stderr=err.read())


async def system_command(argv: tuple[str, ...], around: Surroundings, stdin: bytes) -> Completed:
    """Run one of this machine's programs, e.g. iptables, in a node's network. NodeError when it cannot be run or hangs."""
    try:
        return await complete(argv, around, timeout=_COMMAND_SECONDS, stdin=stdin)
    except TimeoutError:
        raise NodeError(f"{' '.join(argv)} took longer than {_COMMAND_SECONDS:.0f} s") from None
    except OSError as error:
        raise NodeError(f"cannot run {argv[0]}: {error}; see `krash doctor`") from error


def in_namespace(namespace: int) -> list[int]:
    """Pids of the living processes in a network namespace."""
    wanted = os.fstat(namespace).st_ino
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError):  # gone, or a zombie, which is in no namespace any more
                if os.stat(f"/proc/{entry}/ns/net").st_ino == wanted:
                    found.append(int(entry))
    return found


def stopped(pid: int) -> bool:
    """Are all threads of a process stopped by a signal? False when it is gone."""
    states = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                states.append(_state(f"/proc/{pid}/task/{thread}/stat"))
    return bool(states) and set(states) <= {"T", "t"}


def resident_bytes(pid: int) -> int:
    """Resident memory of a process (pages shared with others count fully), 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


def session(pid: int) -> int | None:
    """Session of a process, None when it is gone."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def started(pid: int) -> str:
    """Start time of a process in clock ticks since boot, which tells it from a later one with its pid; empty when it is gone."""
    try:
        return _after_name(f"/proc/{pid}/stat")[19]
    except OSError:
        return ""


async def kill(find: Find) -> None:
    """Kill all processes that `find` returns, and what they start meanwhile."""
    await _until(find, lambda pids: not pids, lambda pid, pids: signal.SIGKILL, "kill")


async def pause(find: Find) -> None:
    """Stop all processes that `find` returns, and what they start meanwhile.

    A process in vfork waits, in state D, until its child executes something; it can stop only after that. So the
    child is let through first.
    """

    def choose(pid: int, pids: Sequence[int]) -> signal.Signals:
        parent = _parent(pid)
        return signal.SIGCONT if parent in pids and _waits(parent) else signal.SIGSTOP

    await _until(find, lambda pids: all(map(stopped, pids)), choose, "pause")


async def resume(find: Find) -> None:
    """Continue all processes that `find` returns."""
    await _until(find, lambda pids: not any(map(stopped, pids)), lambda pid, pids: signal.SIGCONT, "resume")


async def _until(find: Find, done: Callable[[Sequence[int]], bool], choose: Choose, what: str) -> None:
    """Signal what `find` returns, again and again, until `done` holds. NodeError says who resisted for
    EFFECT_SECONDS."""
    try:
        async with asyncio.timeout(EFFECT_SECONDS):
            while not done(pids := find()):
                for pid in pids:
                    with suppress(ProcessLookupError):
                        os.kill(pid, choose(pid, pids))
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        raise NodeError(f"could not {what} {', '.join(map(describe, find()))} in {EFFECT_SECONDS:.0f} s") from None


def describe(pid: int) -> str:
    """ "java (pid 12, state D)" for messages."""
    try:
        return f"{Path(f'/proc/{pid}/comm').read_text().strip()} (pid {pid}, state {_state(f'/proc/{pid}/stat')})"
    except OSError:
        return f"pid {pid} (gone)"


def _waits(pid: int) -> bool:
    """Is a process in an uninterruptible wait?"""
    try:
        return _state(f"/proc/{pid}/stat") == "D"
    except OSError:
        return False


def _parent(pid: int) -> int:
    try:
        return int(_after_name(f"/proc/{pid}/stat")[1])
    except OSError:
        return 0


def _state(path: str) -> str:
    return _after_name(path)[0]


def _after_name(path: str) -> list[str]:
    """Fields of a /proc stat file from the state on; the name before may hold anything."""
    return Path(path).read_text(errors="replace").rpartition(")")[2].split()
