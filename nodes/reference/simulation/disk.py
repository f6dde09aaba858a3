"""A simulated disk: what was appended is not what survives a power loss.

Each file remembers what has happened to it since it was last synced. When the machine loses power, a part of that survives, from the
front: some of the operations, and of the next append some of its bytes, perhaps as zeros (file systems grow a file before they fill it).
When only the process dies, everything survives: the operating system still has it.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from nodes.reference.environment import MILLISECOND, Clock


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

    def sync(self, operations: int, seen: bytes) -> None:
        """The first so many operations have reached the medium."""
        self.safe = seen
        del self.unsynced[:operations]

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

    def lose_power(self) -> None:
        for path in sorted(self.files):
            survived = self.files[path].lose_power(self._random)
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


class OpenFile:
    def __init__(self, disk: MountedDisk, contents: Contents) -> None:
        self._disk = disk
        self._contents = contents

    def size(self) -> int:
        return len(self._contents.seen)

    def append(self, content: bytes | bytearray) -> None:
        if self._disk.disk.capacity < 1 << 40:
            self._disk.disk.charge(len(content))
        self._contents.seen += content
        self._contents.unsynced.append(_Appended(bytes(content)))

    def read(self, position: int, size: int) -> bytes:
        return bytes(self._contents.seen[position : position + size])

    def truncate(self, size: int) -> None:
        del self._contents.seen[size:]
        self._contents.unsynced.append(_Truncated(size))

    def sync(self) -> None:
        self._disk.disk.syncs += 1
        self._contents.sync(len(self._contents.unsynced), bytes(self._contents.seen))

    async def sync_aside(self) -> None:
        """What was there at the start is safe at the end, and not before."""
        operations, seen = len(self._contents.unsynced), bytes(self._contents.seen)
        await self._disk.wait()
        self._disk.disk.syncs += 1
        self._contents.sync(operations, seen)

    def close(self) -> None:
        pass


class MountedDisk:
    """A disk as one process sees it (`environment.Disk`)."""

    def __init__(self, disk: SimulatedDisk, clock: Clock, random: Random, latency: tuple[int, int]) -> None:
        self.disk = disk
        self._clock = clock
        self._random = random
        self._latency = latency

    async def wait(self) -> None:
        await self._clock.sleep_until(self._clock.now() + self._random.randint(*self._latency))

    def open(self, path: str) -> OpenFile:
        return OpenFile(self, self.disk.files.setdefault(path, Contents()))

    def read(self, path: str) -> bytes | None:
        contents = self.disk.files.get(path)
        return None if contents is None else bytes(contents.seen)

    def replace(self, path: str, content: bytes, *, sync: bool = True) -> None:
        if self.disk.capacity < 1 << 40:
            self.disk.charge(len(content))
        contents = self.disk.files.setdefault(path, Contents())
        contents.seen = bytearray(content)
        contents.unsynced.append(_Renamed(content))
        if sync:
            self.disk.syncs += 1
            contents.sync(len(contents.unsynced), content)

    def rename(self, source: str, target: str) -> None:
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
        self.disk.files.pop(path, None)
