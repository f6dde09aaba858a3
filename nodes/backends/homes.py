"""Home directories of nodes that lie on this machine's disk: the file verbs of `nodes.node.Node`.

Paths come from specs and faults, so none may lead out of the home, by "..", by being absolute or through a symbolic
link that a node's process made. Blocking calls run in threads.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TypeVar

from nodes.node import Mark, NodeError, Tail

T = TypeVar("T")
_LOOK_SECONDS = 0.02


def home_relative(node: str, path: str) -> PurePosixPath:
    """Check a path of the Node interface. NodeError when it is absolute or climbs."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or "\0" in path:
        raise NodeError(f"{node}: path {path!r} leads out of the node's home; use one like 'data/log-0'")
    return pure


class Home:
    """A node's directory on this machine."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.directory = directory.resolve()

    def absolute(self, path: str) -> str:
        return str(self.directory / home_relative(self.name, path))

    async def write(self, path: str, content: bytes) -> None:
        target = self._inside(path)

        def write() -> None:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)

        await self._do(f"write {path}", write)

    async def read(self, path: str) -> bytes:
        return await self._do(f"read {path}", self._inside(path).read_bytes)

    async def tail(self, path: str, since: Mark = Mark(), *, limit: int = 1 << 20) -> Tail:  # noqa: B008 - frozen
        target = self._inside(path)
        with suppress(OSError):  # looking costs microseconds, a thread many times as much
            facts = os.stat(target)
            if (facts.st_ino, facts.st_size) == (since.identity, since.position):
                return Tail(mark=since, start=since.position, content=b"")
        return await self._do(f"read {path}", lambda: _tail(target, since, limit))

    async def exists(self, path: str) -> bool:
        return await asyncio.to_thread(self._inside(path).exists)

    async def list(self, path: str) -> list[str]:
        top = self._inside(path)

        def below() -> list[str]:
            return sorted(
                (Path(folder) / file).relative_to(top).as_posix() for folder, _, files in os.walk(top) for file in files
            )

        return await asyncio.to_thread(below)

    async def wipe(self, path: str, *, keep: tuple[str, ...] = ()) -> None:
        top = self._inside(path)

        def wipe() -> None:
            for child in top.iterdir() if top.exists() else ():
                if child.name not in keep:
                    _remove(child)

        await self._do(f"wipe {path}", wipe)

    async def copy(self, source: str, destination: str) -> None:
        origin, target = self._inside(source), self._inside(destination)
        if target.is_relative_to(origin) or origin.is_relative_to(target):
            raise NodeError(f"{self.name}: cannot copy {source} to {destination}: one lies inside the other")

        def copy() -> None:
            origin.lstat()
            _remove(target)
            _copy(origin, target)

        await self._do(f"copy {source} to {destination}", copy)

    async def truncate(self, path: str, size: int) -> None:
        target = self._inside(path)
        await self._do(f"truncate {path} to {size} bytes", lambda: os.truncate(target, size))

    async def fetch(self, path: str, to: Path) -> None:
        origin = self._inside(path)
        if origin.exists():
            await self._do(f"fetch {path} to {to}", lambda: _copy(origin, to))

    async def lines(self, path: str) -> AsyncIterator[str]:
        mark, rest = Mark(), b""
        while True:
            tail = await self.tail(path, mark)
            mark = tail.mark
            if tail.start == 0:
                rest = b""  # a new file, or the first look
            *whole, rest = (rest + tail.content).split(b"\n")
            for line in whole:
                yield line.decode(errors="replace").removesuffix("\r")
            if not tail.content:
                await asyncio.sleep(_LOOK_SECONDS)

    def _inside(self, path: str) -> Path:
        target = self.directory / home_relative(self.name, path)
        if not target.resolve().is_relative_to(self.directory):
            raise NodeError(f"{self.name}: path {path!r} leads out of the node's home through a symbolic link")
        return target

    async def _do(self, what: str, call: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(call)
        except OSError as error:
            raise NodeError(f"{self.name}: cannot {what}: {error}") from error


def _tail(path: Path, since: Mark, limit: int) -> Tail:
    with suppress(FileNotFoundError), path.open("rb") as file:
        facts = os.fstat(file.fileno())
        same = facts.st_ino == since.identity and facts.st_size >= since.position
        start = since.position if same else 0
        file.seek(start)
        content = file.read(limit)
        return Tail(mark=Mark(identity=facts.st_ino, position=start + len(content)), start=start, content=content)
    return Tail(mark=Mark(), start=0, content=b"")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _copy(origin: Path, target: Path) -> None:
    """Copy a file or tree that may be changing meanwhile: what vanishes under the copy is left out."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if origin.is_dir():
        shutil.copytree(origin, target, symlinks=True, dirs_exist_ok=True, copy_function=_copy_if_there)
    else:
        _copy_if_there(str(origin), str(target))


def _copy_if_there(origin: str, target: str) -> None:
    with suppress(FileNotFoundError):
        shutil.copy2(origin, target, follow_symlinks=False)
