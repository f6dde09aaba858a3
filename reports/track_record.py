"""The track record of races: from single tries to a table that says how surely each known bug is shown again.

    Subject    one cell of the table: a race, a system, parameters, and what was stated beforehand
    Attempt    one try of it; one JSON line of tries.jsonl
    Line       a subject with all its tries, counted

A cell *must show* something (its expected outcome is an anomaly, or that a partition is unavailable) or *must not* (its
outcome is "valid"). It came *as stated* when at least 95 % of all tries showed it, or when every try that says anything ended
valid. A try that was not reached, hung or crashed shows nothing: where something must be shown, it counts against it. Where
nobody could judge a single try of a safe cell, the cell *says nothing*.

`track-record.json` is {"format": 1, "cells": [Line.as_json(), ...]}.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from statistics import median
from typing import Any, Final

from reports.verdict import Status
from reports.wording import visible

RECORD_FORMAT: Final = 1
BAR: Final = 0.95  # of all tries of a cell that must show something
SAFE: Final = "valid"  # the outcome of nemesis/races/expectation.py
BROKEN: Final = "crashed"  # a status besides those of reports/verdict.py: the try itself fell over
_SAID: Final = (Status.JUDGED, Status.NO_DATA)  # statuses that say something about the system

AS_STATED, DIFFERS, NOTHING = "as stated", "differs", "says nothing"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A cell: what is tried. `key` is a hash of all that its outcome depends on."""

    key: str
    race: str
    title: str
    affected: str
    fixed: str
    variant: str | None
    settings: Mapping[str, Any]  # other parameters that are not the defaults
    system: str  # "kafka:4.3.1"
    metadata_version: str | None  # None: the release's own
    expected: str
    because: str
    wanted: int  # tries

    @property
    def words(self) -> str:
        """ "kafka-14139 kill-leader kafka:4.3.1@3.4"."""
        at = f"@{self.metadata_version}" if self.metadata_version else ""
        parameters = [f"{name}={value}" for name, value in self.settings.items()]
        return " ".join(filter(None, [self.race, self.variant, *parameters, f"{self.system}{at}"]))


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One try. `subject`: its words, for people who read tries.jsonl; the key is what counts."""

    key: str
    subject: str
    at: str  # ISO 8601, UTC
    commit: str | None
    machine: str
    status: str  # of the run (reports/verdict.py), or BROKEN
    verdict: str
    reason: str | None
    anomalies: list[str]
    acknowledged: int
    lost: int
    seconds: float
    as_expected: bool | None
    run_dir: str | None

    def as_line(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of_line(cls, text: str) -> Attempt:
        """ValueError for what is no attempt."""
        found = json.loads(text)
        names = {one.name for one in fields(cls)}
        if not isinstance(found, dict) or found.keys() != names:
            raise ValueError(f"expected an object with {', '.join(sorted(names))}")
        return cls(**found)

    @property
    def said(self) -> bool:
        """Does it say anything about the system?"""
        return self.status in _SAID


@dataclass(frozen=True, kw_only=True)
class Line:
    subject: Subject
    attempts: Sequence[Attempt] = field(default_factory=list)

    @property
    def safe(self) -> bool:
        return self.subject.expected == SAFE

    @property
    def shown(self) -> int:
        """Tries that showed what must be shown; of a safe cell those that did not end valid, although they say something."""
        return sum(one.as_expected is not self.safe for one in self.attempts if one.as_expected is not None)

    @property
    def not_reached(self) -> int:
        return sum(one.status == Status.NOT_REACHED for one in self.attempts)

    @property
    def failed(self) -> int:
        """Tries in which krash itself did not get to the end."""
        return sum(not one.said and one.status != Status.NOT_REACHED for one in self.attempts)

    @property
    def seconds(self) -> float | None:
        said = [one.seconds for one in self.attempts if one.said]
        return median(said) if said else None

    @property
    def anomalies(self) -> Mapping[str, int]:
        """Type -> tries that had it."""
        return Counter(kind for one in self.attempts for kind in dict.fromkeys(one.anomalies))

    @property
    def standing(self) -> str:
        tries = len(self.attempts)
        if self.safe:
            if self.shown:
                return DIFFERS
            return AS_STATED if any(one.said for one in self.attempts) else NOTHING
        if not tries:
            return NOTHING
        return AS_STATED if self.shown >= BAR * tries else DIFFERS

    def as_json(self) -> dict[str, Any]:
        lost = sorted({(one.acknowledged, one.lost) for one in self.attempts if one.said})
        return {
            **asdict(self.subject),
            "tries": len(self.attempts),
            "shown": self.shown,
            "not_reached": self.not_reached,
            "failed": self.failed,
            "seconds": None if self.seconds is None else round(self.seconds, 1),
            "anomalies": dict(self.anomalies),
            "acknowledged_and_lost": [list(pair) for pair in lost],
            "standing": self.standing,
            "commits": _several(one.commit for one in self.attempts),
            "machines": _several(one.machine for one in self.attempts),
            "first": min((one.at for one in self.attempts), default=None),
            "last": max((one.at for one in self.attempts), default=None),
        }


def record_json(lines: Sequence[Line]) -> str:
    return json.dumps({"format": RECORD_FORMAT, "cells": [line.as_json() for line in lines]}, indent=1) + "\n"


def record_page(lines: Sequence[Line]) -> str:
    """docs/track-record.md. The same tries give the same page."""
    return "\n".join([*_head(lines), *_differing(lines), *_races(lines)]) + "\n"


def _head(lines: Sequence[Line]) -> Iterator[str]:
    attempts = [one for line in lines for one in line.attempts]
    standings = Counter(line.standing for line in lines)
    days = sorted({one.at[:10] for one in attempts})
    yield "# Track record"
    yield ""
    yield "<!-- Written by `krash track-record`; changes made by hand are lost. -->"
    yield ""
    yield "How surely krash shows each known bug again where it is, and finds nothing where it is not."
    yield "What is expected was stated beforehand, in the race's own file (`krash race show RACE`); what came is the checker's verdict."
    yield ""
    untried = sum(not line.attempts for line in lines)
    yield (
        f"- {len(lines)} cells: {standings[AS_STATED]} as stated, {standings[DIFFERS]} differ, "
        f"{standings[NOTHING] - untried} say nothing, {untried} not tried yet (left out below)."
    )
    yield f"- {len(attempts)} tries" + (f", {_span(days)}" if days else "") + f"; {_machines(attempts)}."
    yield "- *Shown*: tries that showed what is expected, of all tries; where `valid` is expected, tries that did not end so."
    yield "- *Not reached*: a step's condition was not met in time: such a try says nothing. *Failed*: krash itself did not get to the end."
    yield "- *Seconds*: median from the first node to the verdict. *Lost*: acknowledged records that are gone, of all acknowledged ones."
    yield "- Again: `krash track-record --only RACE`; one try: `krash race run RACE --variant VARIANT --system SYSTEM@METADATA_VERSION`."
    yield ""


def _differing(lines: Sequence[Line]) -> Iterator[str]:
    differing = [line for line in lines if line.standing == DIFFERS]
    if not differing:
        return
    yield "## What differs from what was stated"
    yield ""
    for line in differing:
        wanted = "another end than `valid`" if line.safe else f"`{line.subject.expected}`"
        others = [f"{kind} × {count}" for kind, count in line.anomalies.items()]  # noqa: RUF001 - a multiplication sign
        came = f"; anomalies: {', '.join(others)}" if others else ""
        yield f"- {_cell(line.subject.words)}: {wanted} in {line.shown} of {len(line.attempts)} tries{came}{_silent(line)}"
    yield ""


def _silent(line: Line) -> str:
    told = [f"{line.not_reached} not reached"] * bool(line.not_reached) + [f"{line.failed} failed"] * bool(line.failed)
    why = Counter(one.reason for one in line.attempts if not one.said and one.reason)
    most = f" ({_cell(why.most_common(1)[0][0] or '')[:200]})" if why else ""
    return f"; {', '.join(told)}{most}" if told else ""


_COLUMNS = (
    "variant",
    "system",
    "metadata.version",
    "expected",
    "shown",
    "not reached",
    "failed",
    "seconds",
    "anomalies",
    "lost",
    "commit",
    "date",
)


def _races(lines: Sequence[Line]) -> Iterator[str]:
    tried = [line for line in lines if line.attempts]
    for race in dict.fromkeys(line.subject.race for line in tried):
        mine = [line for line in tried if line.subject.race == race]
        about = mine[0].subject
        yield f"## {race}"
        yield ""
        yield f"{_cell(about.title)}. Affected: {_cell(about.affected)}. Fixed: {_cell(about.fixed)}."
        yield ""
        yield f"| {' | '.join(_COLUMNS)} |"
        yield "|" + "---|" * len(_COLUMNS)
        for line in mine:
            yield f"| {' | '.join(map(_cell, _row(line)))} |"
        yield ""


def _row(line: Line) -> Iterator[str]:
    subject, attempts = line.subject, line.attempts
    parameters = [f"{name}={value}" for name, value in subject.settings.items()]
    yield ", ".join(filter(None, [subject.variant, *parameters])) or "-"
    yield subject.system
    yield subject.metadata_version or "default"
    yield subject.expected
    shown = f"{line.shown}/{len(attempts)}"
    yield f"**{shown}**" if line.standing == DIFFERS else shown
    yield str(line.not_reached or "-")
    yield str(line.failed or "-")
    yield f"{line.seconds:.0f}" if line.seconds is not None else "-"
    yield (
        ", ".join(kind if count == len(attempts) else f"{kind} ({count})" for kind, count in line.anomalies.items())
        or "-"
    )
    yield _lost(attempts)
    yield ", ".join(_several(one.commit for one in attempts)) or "-"
    yield _span(sorted({one.at[:10] for one in attempts})) or "-"


def _lost(attempts: Iterable[Attempt]) -> str:
    """ "200/200", or the span where tries differ: "180..200/200"."""
    said = [one for one in attempts if one.said]
    if not said:
        return "-"
    return f"{_range(one.lost for one in said)}/{_range(one.acknowledged for one in said)}"


def _range(numbers: Iterable[int]) -> str:
    low, *rest = sorted(set(numbers))
    return f"{low}..{rest[-1]}" if rest else str(low)


def _span(days: Sequence[str]) -> str:
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}" if days else ""


def _machines(attempts: Iterable[Attempt]) -> str:
    return " and ".join(_several(one.machine for one in attempts)) or "no machine yet"


def _several(values: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(value for value in values if value))


def _cell(text: str) -> str:
    """Text that cannot end its cell or its line."""
    return visible(text).replace("\n", " ").replace("|", "\\|")
