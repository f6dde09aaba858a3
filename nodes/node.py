"""One handle for one machine-like thing under test, wherever it runs. Callers never see a path or a pid of the harness's machine.

A node has a private home directory. Every `path` in this interface is POSIX, relative to that home ("data/log-0", "etc/server.properties");
`absolute(path)` says what the node's own processes call it, for use in configuration files. One main process at a time is started and
broken through the handle; `run` is for short commands beside it.

    node = await backend.add(NodeRequest(name="b1"))
    await node.write("etc/server.properties", b"...")
    await node.start(Command(argv=("java", "-version"), log="log/stdout.log"))
    await node.kill()
    assert (await node.state()) == Gone(code=-9)

Every verb is awaited and returns only when its effect is there (the process is gone, is stopped, is running), or raises `NodeError`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class NodeError(Exception):
    """A node could not do what was asked; the message names the node, what was tried and what was seen."""


class Role(StrEnum):
    SERVER = "server"  # a node under test
    CLIENT = "client"  # runs workload processes with the harness's own Python (`Node.python`)


@dataclass(frozen=True, kw_only=True)
class NodeRequest:
    name: str  # [a-z][a-z0-9-]{0,14}, unique in the run
    role: Role = Role.SERVER
    mounts: Mapping[str, Path] = field(
        default_factory=dict
    )  # harness path made readable: name -> path; see Node.mounted
    python: bool = False  # a server that runs the harness's own code: it gets `Node.python`, as clients do
    memory_mib: int | None = None  # limits, where the backend can
    cpus: float | None = None


@dataclass(frozen=True, kw_only=True)
class Command:
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)  # added to a minimal environment
    log: str = "log/stdout.log"  # home-relative; stdout and stderr are appended


@dataclass(frozen=True)
class Running:
    pass


@dataclass(frozen=True)
class Paused:
    pass


@dataclass(frozen=True)
class Gone:
    code: int | None  # exit code, -N for signal N, None where the backend cannot tell (or it never ran)


ProcessState = Running | Paused | Gone


@dataclass(frozen=True, kw_only=True)
class Completed:
    code: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True, kw_only=True)
class Mark:
    """How far a file was read, and which file it was (None: none yet)."""

    identity: int | None = None
    position: int = 0


@dataclass(frozen=True, kw_only=True)
class Tail:
    """What a file holds beyond a mark. `start` is where `content` begins: the mark's position, or 0 of another or a shorter file."""

    mark: Mark  # to ask with the next time; Mark() when there is no file
    start: int
    content: bytes


class Node(Protocol):
    name: str
    address: str  # IPv4 by which the other nodes of the run and the harness's observers reach it
    clock: str  # clock domain of its timestamps
    python: tuple[
        str, ...
    ]  # argv prefix of an interpreter with the harness installed; empty for servers that did not ask

    def absolute(self, path: str) -> str: ...
    def mounted(self, name: str) -> str:
        """Where a mount of its NodeRequest is, as its processes see it."""
        ...

    # the main process
    async def start(self, command: Command) -> None: ...
    async def kill(self) -> None:
        """SIGKILL the main process and all its children; returns when they are gone. Fine when nothing runs."""
        ...

    async def stop(self, *, timeout: float) -> int | None:
        """SIGTERM, wait for the exit, return its code. NodeError when it is still there after `timeout` seconds."""
        ...

    async def pause(self) -> None:
        """SIGSTOP the whole main process group; returns when it is stopped."""
        ...

    async def resume(self) -> None: ...
    async def state(self) -> ProcessState: ...
    async def exited(self) -> Gone:
        """Wait until the main process is gone."""
        ...

    async def resident_bytes(self) -> int:
        """Resident memory of the main process and its children, 0 when nothing runs."""
        ...

    # short commands and files
    async def run(self, argv: tuple[str, ...], *, timeout: float, stdin: bytes = b"") -> Completed: ...
    def attach(self, argv: Sequence[str]) -> list[str]:
        """The command that runs argv in this node's network, to be started by the process that holds this handle, with
        that one's terminal.
        """
        ...

    async def write(self, path: str, content: bytes) -> None: ...
    async def read(self, path: str) -> bytes: ...
    async def tail(self, path: str, since: Mark = Mark(), *, limit: int = 1 << 20) -> Tail:
        """What was added to a file since a mark, at most `limit` bytes; cheap when nothing was. A missing file is no error."""
        ...

    async def exists(self, path: str) -> bool: ...
    async def list(self, path: str) -> list[str]:
        """Every file below a directory, relative to it, sorted; empty when it does not exist."""
        ...

    async def wipe(self, path: str, *, keep: tuple[str, ...] = ()) -> None:
        """Delete what is below a directory except the named direct children; the directory itself stays."""
        ...

    async def copy(self, source: str, destination: str) -> None:
        """Copy a file or directory inside the node, replacing the destination."""
        ...

    async def truncate(self, path: str, size: int) -> None: ...
    async def fetch(self, path: str, to: Path) -> None:
        """Copy a file or directory of the node to the harness's machine (a missing one is not an error)."""
        ...

    def lines(self, path: str) -> AsyncIterator[str]:
        """Follow a text file from its start, as `tail -F`; ends when the iterator is closed."""
        ...
