"""A simulated disk: what was appended is not what survives a power loss.

Each file remembers what has happened to it since it was last synced. When the machine loses power, a part of that survives, from the
front: some of the operations, and of the next append some of its bytes, perhaps as zeros (file systems grow a file before they fill it).
When only the process dies, everything survives: the operating system still has it.

A disk can also be full, or fail: `disk.fail("append", errno.ENOSPC)`, `disk.fail("sync", errno.EIO, times=1)`. As with Linux, a sync that
failed is reported once, and what it should have made safe never is: the next one has nothing to write, and succeeds.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from nodes.reference.environment import MILLISECOND, Clock


class PowerOff(BaseException):
    """Stops whoever uses a disk whose machine is off. Not an Exception: the program that it stops is not there any more to handle it."""


class _Appended(NamedTuple):
    content: bytes


class _Truncated(NamedTuple):
    size: int


class _Renamed(NamedTuple):
    """Another file took this name without a sync."""

    content: bytes


@dataclass
class Contents:
    """One file: as programs see it, and as the medium has it (None: not even its name)."""

    seen: bytearray = field(default_factory=bytearray)
    safe: bytes | None = None
    unsynced: list[_Appended | _Truncated | _Renamed] = field(default_factory=list)
    dropped: bool = False  # a sync has failed

    def sync(self, operations: int, seen: bytes) -> None:
        """The first so many operations have reached the medium."""
        if not self.dropped:
            self.safe = seen
        del self.unsynced[:operations]

    def drop(self) -> None:
        """They never will."""
        self.dropped = True
        self.unsynced.clear()

    def lose_power(self, random: Random) -> bytes | None:
        content = bytearray(self.safe or b"")
        survives = random.randint(0, len(self.unsynced))
        for operation in self.unsynced[:survives]:
            content = _after(content, operation)
        if survives < len(self.unsynced):
            torn = self.unsynced[survives]
            if isinstance(torn, _Appended):
                whole = random.randint(0, len(torn.content))
                content += torn.content[:whole] + bytes(random.choice((0, len(torn.content) - whole)))
            elif isinstance(torn, _Renamed) and random.random() < 0.5:
                content = bytearray()
        return None if self.safe is None and not content else bytes(content)


def _after(content: bytearray, operation: _Appended | _Truncated | _Renamed) -> bytearray:
    match operation:
        case _Appended(added):
            return content + added
        case _Truncated(size):
            return content[:size]
        case _Renamed(replaced):
            return bytearray(replaced)


class SimulatedDisk:
    """Belongs to a machine: outlives the processes on it. `capacity`: bytes until it is full.

    An `OSError` is what programs get then, as from a real one.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self.files: dict[str, Contents] = {}
        self.capacity = 1 << 40
        self.syncs = 0
        self._failing: dict[str, tuple[int, int]] = {}  # operation -> error number, how often
        self._countdown = -1  # operations until power goes; below 0: it does not
        self._happens: Callable[[], object] = _nothing

    def fail(self, operation: str, number: int, *, times: int = 1 << 40) -> None:
        """The next so many operations of a kind (`append`, `sync`) are errors; a replaced file counts as appended to."""
        self._failing[operation] = number, times

    def repair(self) -> None:
        """Nothing fails any more, and power stays."""
        self._failing = {}
        self._countdown = -1

    def after(self, operations: int, happens: Callable[[], object]) -> None:
        """Power goes in the middle of a step: after so many more operations, and nothing that would follow reaches the disk."""
        self._countdown, self._happens = operations, happens

    def attempt(self, operation: str) -> None:
        """OSError if it fails."""
        self._countdown -= 1
        if self._countdown == -1:
            self._happens()
            raise PowerOff
        number, times = self._failing.get(operation, (0, 0))
        if times:
            self._failing[operation] = number, times - 1
            raise OSError(number, f"{errno.errorcode[number]} of the simulated disk at {operation}")

    def write_back(self) -> None:
        """As a kernel does half a minute later, unasked."""
        for contents in self.files.values():
            contents.sync(len(contents.unsynced), bytes(contents.seen))

    def lose_power(self, *, everything: bool = False) -> None:
        """everything: none of what was not synced survives; else what comes up to a random operation does."""
        self._countdown = -1
        for path in sorted(self.files):
            contents = self.files[path]
            survived = contents.safe if everything else contents.lose_power(self._random)
            if survived is None:
                del self.files[path]
            else:
                self.files[path] = Contents(bytearray(survived), survived)

    def wipe(self) -> None:
        """An empty disk in its place; not while a process runs on it."""
        self.files = {}

    def mounted(self, clock: Clock, latency: tuple[int, int] = (MILLISECOND // 10, 2 * MILLISECOND)) -> MountedDisk:
        return MountedDisk(self, clock, self._random, latency)

    def charge(self, size: int) -> None:
        if sum(len(contents.seen) for contents in self.files.values()) + size > self.capacity:
            raise OSError(errno.ENOSPC, "No space left on the simulated disk")


def _nothing() -> None: ...


class OpenFile:
    def __init__(self, disk: MountedDisk, contents: Contents) -> None:
        self._disk = disk
        self._contents = contents

    def size(self) -> int:
        return len(self._contents.seen)

    def append(self, content: bytes | bytearray) -> None:
        self._disk.attempt("append")
        if self._disk.disk.capacity < 1 << 40:
            self._disk.disk.charge(len(content))
        self._contents.seen += content
        self._contents.unsynced.append(_Appended(bytes(content)))

    def read(self, position: int, size: int) -> bytes:
        return bytes(self._contents.seen[position : position + size])

    def truncate(self, size: int) -> None:
        self._disk.attempt("truncate")
        del self._contents.seen[size:]
        self._contents.unsynced.append(_Truncated(size))

    def sync(self) -> None:
        self._attempt_sync()
        self._disk.disk.syncs += 1
        self._contents.sync(len(self._contents.unsynced), bytes(self._contents.seen))

    async def sync_aside(self) -> None:
        """What was there at the start is safe at the end, and not before."""
        operations, seen = len(self._contents.unsynced), bytes(self._contents.seen)
        await self._disk.wait()
        self._attempt_sync()
        self._disk.disk.syncs += 1
        self._contents.sync(operations, seen)

    def _attempt_sync(self) -> None:
        try:
            self._disk.attempt("sync")
        except OSError:
            self._contents.drop()
            raise

    def close(self) -> None:
        pass


class MountedDisk:
    """A disk as one process sees it (`environment.Disk`)."""

    def __init__(self, disk: SimulatedDisk, clock: Clock, random: Random, latency: tuple[int, int]) -> None:
        self.disk = disk
        self._clock = clock
        self._random = random
        self._latency = latency
        self._off = False

    def attempt(self, operation: str) -> None:
        """OSError if it fails; PowerOff from the moment on at which the machine is off."""
        if self._off:
            raise PowerOff
        try:
            self.disk.attempt(operation)
        except PowerOff:
            self._off = True
            raise

    async def wait(self) -> None:
        await self._clock.sleep_until(self._clock.now() + self._random.randint(*self._latency))

    def open(self, path: str) -> OpenFile:
        return OpenFile(self, self.disk.files.setdefault(path, Contents()))

    def read(self, path: str) -> bytes | None:
        contents = self.disk.files.get(path)
        return None if contents is None else bytes(contents.seen)

    def replace(self, path: str, content: bytes, *, sync: bool = True) -> None:
        self.attempt("append")
        if self.disk.capacity < 1 << 40:
            self.disk.charge(len(content))
        contents = self.disk.files.setdefault(path, Contents())
        contents.seen = bytearray(content)
        contents.unsynced.append(_Renamed(content))
        if sync:
            self.disk.syncs += 1
            contents.sync(len(contents.unsynced), content)

    def rename(self, source: str, target: str) -> None:
        self.attempt("rename")
        if source not in self.disk.files:
            raise FileNotFoundError(errno.ENOENT, "No such file on the simulated disk", source)
        contents = self.disk.files.pop(source)
        contents.safe = contents.safe or b""
        self.disk.files[target] = contents

    def list(self, directory: str) -> list[str]:
        prefix = directory.rstrip("/") + "/"
        return sorted({path[len(prefix) :].split("/")[0] for path in self.disk.files if path.startswith(prefix)})

    def make_directory(self, path: str) -> None:
        pass

    def remove(self, path: str) -> None:
        self.attempt("remove")
        self.disk.files.pop(path, None)
