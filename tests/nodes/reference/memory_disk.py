"""A disk in memory that knows what was synced, and can lose the rest: all of it, or some bytes of a write (a torn one)."""

from __future__ import annotations

import errno
from random import Random


class MemoryFile:
    def __init__(self, disk: MemoryDisk) -> None:
        self.content = bytearray()
        self.synced = b""
        self._disk = disk

    def size(self) -> int:
        return len(self.content)

    def append(self, content: bytes | bytearray) -> None:
        self._disk.may_write()
        self.content += content

    def read(self, position: int, size: int) -> bytes:
        return bytes(self.content[position : position + size])

    def truncate(self, size: int) -> None:
        self._disk.may_write()
        del self.content[size:]

    def sync(self) -> None:
        self._disk.may_write()
        self._disk.syncs += 1
        self.synced = bytes(self.content)

    async def sync_aside(self) -> None:
        self.sync()

    def close(self) -> None:
        pass


class MemoryDisk:
    def __init__(self) -> None:
        self.files: dict[str, MemoryFile] = {}
        self.full = False
        self.syncs = 0

    def may_write(self) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")

    def open(self, path: str) -> MemoryFile:
        return self.files.setdefault(path, MemoryFile(self))

    def read(self, path: str) -> bytes | None:
        return bytes(self.files[path].content) if path in self.files else None

    def replace(self, path: str, content: bytes, *, sync: bool = True) -> None:
        self.may_write()
        file = self.files[path] = MemoryFile(self)
        file.content += content
        file.synced = content

    def rename(self, source: str, target: str) -> None:
        self.files[target] = self.files.pop(source)

    def list(self, directory: str) -> list[str]:
        prefix = directory + "/"
        return sorted(path.removeprefix(prefix) for path in self.files if path.startswith(prefix))

    def make_directory(self, path: str) -> None:
        pass

    def remove(self, path: str) -> None:
        self.files.pop(path, None)

    def lose_power(self, random: Random) -> None:
        """Of what was appended since the last sync a part is there, and the end of that part may be other bytes: a torn write."""
        for file in self.files.values():
            if not file.content.startswith(file.synced):
                file.content[:] = file.synced  # truncated, and not synced since
                continue
            kept = random.randint(len(file.synced), len(file.content))
            torn = min(kept - len(file.synced), random.choice([0, 8, 64]))
            tail = bytes(torn) if random.random() < 0.5 else random.randbytes(torn)
            grown = len(file.content) if random.random() < 0.5 else kept  # the size may be there before the bytes
            file.content[:] = file.content[: kept - torn] + tail + bytes(grown - kept)
