"""tries.jsonl: every try of a track record, one JSON line each, appended and synced when the try is over.

A process that dies loses at most the try that it was in: a line that was torn is cut off when the file is opened again.
One process at a time: the file is locked while it is open.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from harness.errors import CommandError
from reports.track_record import Attempt, Subject


class Tries:
    """with Tries(path) as tries: tries.of(subject), tries.add(attempt)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self.all: list[Attempt] = []

    def of(self, subject: Subject, *, earlier: bool = False) -> Sequence[Attempt]:
        """Those that still count; with `earlier` also those of sources that have changed since."""
        return [one for one in self.all if one.key == subject.key or (earlier and one.subject == subject.words)]

    def add(self, attempt: Attempt) -> None:
        assert self._file is not None
        self._file.write(attempt.as_line().encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.all.append(attempt)

    def __enter__(self) -> Tries:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise CommandError(
                f"{self._path}: another `krash track-record` writes here; wait for it, or say --runs DIR"
            ) from None
        self._read(self._file)
        return self

    def _read(self, file: BinaryIO) -> None:
        file.seek(0)
        content = file.read()
        whole = content.rfind(b"\n") + 1
        file.truncate(whole)
        for number, line in enumerate(content[:whole].decode(errors="replace").splitlines(), start=1):
            try:
                self.all.append(Attempt.of_line(line))
            except (ValueError, TypeError) as error:
                self._close()
                raise CommandError(f"{self._path}, line {number}: no try of a race: {error}") from None

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
