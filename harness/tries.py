"""The tries of a track record: those that were made here, and those that an earlier table counts.

Every try is a line of tries.jsonl (harness/kept.py). A table that was made elsewhere (docs/track-record.json of a checkout) has no
single tries, but it has counted them; each of its cells becomes a line, too, and counts like the tries of which it was made:

    {"carried": {"key": ..., "race": ..., "tries": 15, "shown": 15, ...}, "of": "docs/track-record.json"}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.errors import CommandError, UsageError
from harness.kept import Kept
from reports.tally import Attempt, Tally
from reports.track_record import RECORD_FORMAT, Subject


@dataclass(frozen=True, kw_only=True)
class Carried:
    """A cell of an earlier table."""

    of: str  # the table's path, as it was said
    cell: Mapping[str, Any]  # reports.track_record.Line.as_json()
    subject: Subject
    tally: Tally

    @classmethod
    def of_cell(cls, cell: Mapping[str, Any], of: str) -> Carried:
        """KeyError, TypeError or ValueError for what is none."""
        return cls(of=of, cell=cell, subject=Subject.of_json(cell), tally=Tally.of_json(cell))

    def as_line(self) -> str:
        return json.dumps({"carried": self.cell, "of": self.of})


def _line(found: Any) -> Attempt | Carried:
    if isinstance(found, dict) and "carried" in found:
        return Carried.of_cell(found["carried"], found["of"])
    return Attempt.of(found)


class Tries:
    """with Tries(path) as tries: tries.tally(subject), tries.add(attempt)."""

    def __init__(self, path: Path) -> None:
        self._kept: Kept[Attempt | Carried] = Kept(path, _line)
        self._path = path

    @property
    def all(self) -> list[Attempt]:
        """Those that were made here."""
        return [one for one in self._kept.all if isinstance(one, Attempt)]

    @property
    def carried(self) -> list[Carried]:
        return [one for one in self._kept.all if isinstance(one, Carried)]

    def add(self, attempt: Attempt) -> None:
        self._kept.add(attempt)

    def of(self, subject: Subject, *, earlier: bool = False) -> list[Attempt]:
        """Those that still count; with `earlier` also those of sources that have changed since."""
        return [one for one in self.all if _counts(subject, one.key, one.subject, earlier=earlier)]

    def tally(self, subject: Subject, *, earlier: bool = False) -> Tally:
        """All that count, those of an earlier table among them if that expected the same."""
        carried = [
            one.tally
            for one in self.carried
            if _counts(subject, one.subject.key, one.subject.words, earlier=earlier)
            and one.subject.expected == subject.expected
        ]
        return sum(carried, Tally()) + Tally.of(self.of(subject, earlier=earlier), safe=subject.safe)

    def carry(self, table: Path) -> int:
        """Count what a table counts: once, however often it is asked for. Returns how many tries it brings.

        CommandError where it cannot be read; UsageError where tries would be counted twice.
        """
        cells = _cells_of(table)
        there = self.carried
        if not there:
            self._refuse_twice(table, cells)
            for cell in cells:
                self._kept.add(cell)
        elif {one.of for one in there} != {str(table)}:
            raise UsageError(f"{self._path} goes on from {there[0].of} already; for another table say --runs DIR")
        return sum(one.tally.tries for one in self.carried)

    def _refuse_twice(self, table: Path, cells: list[Carried]) -> None:
        last = {one.subject.words: one.tally.last for one in cells}
        for attempt in self.all:
            until = last.get(attempt.subject)
            if until is not None and attempt.at <= until:
                raise UsageError(
                    f"{table} may count tries that {self._path} has, such as that of {attempt.subject} at {attempt.at}: say --runs DIR"
                )

    def __enter__(self) -> Tries:
        self._kept.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kept.__exit__(kind, error, trace)


def _counts(subject: Subject, key: str, words: str, *, earlier: bool) -> bool:
    """Does what was tried under this key, or with `earlier` under these words, count for the subject?"""
    return key == subject.key or (earlier and words == subject.words)


def _cells_of(table: Path) -> list[Carried]:
    try:
        found = json.loads(table.read_text(encoding="utf-8"))
        if found["format"] != RECORD_FORMAT:
            raise ValueError(f"format {found['format']}; this krash knows {RECORD_FORMAT}")
        cells = [Carried.of_cell(cell, str(table)) for cell in found["cells"]]
    except OSError as error:
        raise CommandError(f"{table}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError) as error:
        raise CommandError(f"{table}: no track record: {type(error).__name__}: {error}") from None
    return [one for one in cells if one.tally.tries]
