"""The data directory of a node that runs for real (`environment.Disk`).

Paths stay inside it. Whatever changes names (a new file, a rename, a removal) syncs the directory too, without which a machine that loses
power may forget the name of a file whose content it has. Of the files below one directory it tells what is not synced (unsynced.py).

    disk = FileDisk(Path("/var/lib/krash/c1"), told="__cluster_metadata-0")
    file = disk.open("metadata/00000000000000000000.log")
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from nodes.reference.process.unsynced import Ledger, Page, Untold


class FileDisk:
    def __init__(self, root: Path, told: str | None = None) -> None:
        """Created if it is missing. `told`: a directory of it."""
        self._root = root.resolve()
        self._root.mkdir(parents=True, exist_ok=True)
        self._ledger = Ledger(self._root, told) if told is not None else None

    def open(self, path: str) -> OpenFile:
        at = self._inside(path)
        created = not at.exists()
        if created:
            at.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(at, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        return OpenFile(descriptor, at.parent if created else None, self._page(at))

    def read(self, path: str) -> bytes | None:
        try:
            return self._inside(path).read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, path: str, content: bytes, *, sync: bool = True) -> None:
        at = self._inside(path)
        part = at.with_name(at.name + ".part")
        page = self._page(at)
        if not sync:
            page.replaces(at)
        with part.open("wb") as file:
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        part.replace(at)
        if sync:
            sync_directory(at.parent)
            page.safe()

    def rename(self, source: str, target: str) -> None:
        at = self._inside(target)
        self._inside(source).replace(at)
        sync_directory(at.parent)

    def list(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(self._inside(directory)))
        except FileNotFoundError:
            return []

    def make_directory(self, path: str) -> None:
        at = self._inside(path)
        if not at.is_dir():
            at.mkdir(parents=True, exist_ok=True)
            sync_directory(at.parent)

    def remove(self, path: str) -> None:
        at = self._inside(path)
        at.unlink(missing_ok=True)
        if at.parent.is_dir():
            sync_directory(at.parent)
        self._page(at).safe()

    def _page(self, at: Path) -> Page | Untold:
        return self._ledger.of(at) if self._ledger is not None else Untold()

    def _inside(self, path: str) -> Path:
        at = (self._root / path).resolve()
        if not at.is_relative_to(self._root):
            raise ValueError(f"{path!r} leads out of the data directory {self._root}")
        return at


class OpenFile:
    def __init__(self, descriptor: int, new_in: Path | None, page: Page | Untold) -> None:
        self._descriptor = descriptor
        self._new_in = new_in  # the directory that does not know its name yet
        self._page = page
        self._syncing = 0  # how much of it a sync that is under way makes safe
        self._size = os.fstat(descriptor).st_size

    def size(self) -> int:
        return self._size

    def append(self, content: bytes | bytearray) -> None:
        """All of it, or OSError; then some of it may be there."""
        rest = memoryview(content)
        with self._page.lock:
            self._page.grows(self._size)
            while rest:
                written = os.write(self._descriptor, rest)
                self._size += written
                rest = rest[written:]

    def read(self, position: int, size: int) -> bytes:
        pieces = []
        while size > 0 and (piece := os.pread(self._descriptor, size, position)):
            pieces.append(piece)
            position, size = position + len(piece), size - len(piece)
        return b"".join(pieces)

    def truncate(self, size: int) -> None:
        if size >= self._size:
            return
        with self._page.lock:
            os.ftruncate(self._descriptor, size)
            self._size = size
            self._page.shrinks(size)
            self._syncing = min(self._syncing, size)

    def sync(self) -> None:
        with self._page.lock:
            self._syncing = self._size
        os.fsync(self._descriptor)
        if self._new_in is not None:
            sync_directory(self._new_in)
            self._new_in = None
        with self._page.lock:
            self._page.synced(self._syncing, self._size)

    async def sync_aside(self) -> None:
        await asyncio.to_thread(self.sync)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
