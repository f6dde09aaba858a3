"""Tries that a long command keeps, one JSON line each, appended and synced when the try is over.

    with Kept(runs / "tries.jsonl", Attempt.of) as kept:
        kept.all            # what earlier commands kept
        kept.add(attempt)

A process that dies loses at most the try that it was in: a line that was torn is cut off when the file is opened again.
One process at a time: the file is locked while it is open.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Generic, Protocol, TypeVar

from harness.errors import CommandError


class Line(Protocol):
    def as_line(self) -> str: ...


T = TypeVar("T", bound=Line)


class Kept(Generic[T]):
    """`of`: what a line's JSON value stands for; it raises ValueError, TypeError or KeyError for what is none of ours."""

    def __init__(self, path: Path, of: Callable[[Any], T]) -> None:
        self._path, self._of = path, of
        self._file: BinaryIO | None = None
        self.all: list[T] = []

    def add(self, one: T) -> None:
        assert self._file is not None
        self._file.write(one.as_line().encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.all.append(one)

    def __enter__(self) -> Kept[T]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._read(self._file)
        except BlockingIOError:
            self._file.close()
            raise CommandError(f"{self._path}: another krash writes here; wait for it, or say --runs DIR") from None
        except BaseException:
            self._file.close()
            raise
        return self

    def _read(self, file: BinaryIO) -> None:
        file.seek(0)
        content = file.read()
        whole = content.rfind(b"\n") + 1
        file.truncate(whole)
        for number, line in enumerate(content[:whole].decode(errors="replace").splitlines(), start=1):
            try:
                self.all.append(self._of(json.loads(line)))
            except (ValueError, TypeError, KeyError) as error:
                raise CommandError(
                    f"{self._path}, line {number}: no try that this krash knows: {error}. Move the file away, or say --runs DIR."
                ) from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
