"""The track record of races: from single tries to a table that says how surely each known bug is shown again.

    Subject    one cell of the table: a race, a system, parameters, and what was stated beforehand
    Line       a subject with all its tries, counted (reports/tally.py)

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
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from reports.tally import Tally
from reports.wording import visible

RECORD_FORMAT: Final = 1
BAR: Final = 0.95  # of all tries of a cell that must show something
SAFE: Final = "valid"  # the outcome of nemesis/races/expectation.py

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

    @classmethod
    def of_json(cls, cell: Mapping[str, Any]) -> Subject:
        """Of a cell of a table. KeyError for what is none."""
        return cls(**{one.name: cell[one.name] for one in fields(cls)})

    @property
    def safe(self) -> bool:
        return self.expected == SAFE

    @property
    def words(self) -> str:
        """ "kafka-14139 kill-leader kafka:4.3.1@3.4"."""
        at = f"@{self.metadata_version}" if self.metadata_version else ""
        parameters = [f"{name}={value}" for name, value in self.settings.items()]
        return " ".join(filter(None, [self.race, self.variant, *parameters, f"{self.system}{at}"]))


@dataclass(frozen=True, kw_only=True)
class Line:
    subject: Subject
    tally: Tally

    @property
    def safe(self) -> bool:
        return self.subject.safe

    @property
    def standing(self) -> str:
        if self.safe:
            if self.tally.shown:
                return DIFFERS
            return AS_STATED if self.tally.said else NOTHING
        if not self.tally.tries:
            return NOTHING
        return AS_STATED if self.tally.shown >= BAR * self.tally.tries else DIFFERS

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self.subject), **self.tally.as_json(), "standing": self.standing}


def record_json(lines: Sequence[Line]) -> str:
    return json.dumps({"format": RECORD_FORMAT, "cells": [line.as_json() for line in lines]}, indent=1) + "\n"


def record_page(lines: Sequence[Line]) -> str:
    """docs/track-record.md. The same tries give the same page."""
    return "\n".join([*_head(lines), *_differing(lines), *_races(lines)]) + "\n"


def _head(lines: Sequence[Line]) -> Iterator[str]:
    total = sum((line.tally for line in lines), Tally())
    standings = Counter(line.standing for line in lines)
    yield "# Track record"
    yield ""
    yield "<!-- Written by `krash track-record`; changes made by hand are lost. -->"
    yield ""
    yield "How surely krash shows each known bug again where it is, and finds nothing where it is not."
    yield "What is expected was stated beforehand, in the race's own file (`krash race show RACE`); what came is the checker's verdict."
    yield ""
    untried = sum(not line.tally.tries for line in lines)
    yield (
        f"- {len(lines)} cells: {standings[AS_STATED]} as stated, {standings[DIFFERS]} differ, "
        f"{standings[NOTHING] - untried} say nothing, {untried} not tried yet (left out below)."
    )
    yield (
        f"- {total.tries} tries"
        + (f", {_span(total)}" if total.tries else "")
        + f"; {' and '.join(total.machines) or 'no machine yet'}."
    )
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
        others = [f"{kind} × {count}" for kind, count in line.tally.anomalies.items()]  # noqa: RUF001 - a multiplication sign
        came = f"; anomalies: {', '.join(others)}" if others else ""
        yield f"- {_cell(line.subject.words)}: {wanted} in {line.tally.shown} of {line.tally.tries} tries{came}{_silent(line)}"
    yield ""


def _silent(line: Line) -> str:
    tally = line.tally
    told = [f"{tally.not_reached} not reached"] * bool(tally.not_reached) + [f"{tally.failed} failed"] * bool(
        tally.failed
    )
    why = Counter(tally.silent).most_common(1)
    most = f" ({_cell(why[0][0])[:200]})" if why else ""
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
    tried = [line for line in lines if line.tally.tries]
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
    subject, tally = line.subject, line.tally
    parameters = [f"{name}={value}" for name, value in subject.settings.items()]
    yield ", ".join(filter(None, [subject.variant, *parameters])) or "-"
    yield subject.system
    yield subject.metadata_version or "default"
    yield subject.expected
    shown = f"{tally.shown}/{tally.tries}"
    yield f"**{shown}**" if line.standing == DIFFERS else shown
    yield str(tally.not_reached or "-")
    yield str(tally.failed or "-")
    yield f"{tally.seconds:.0f}" if tally.seconds is not None else "-"
    yield ", ".join(_times(kind, count, tally.tries) for kind, count in tally.anomalies.items()) or "-"
    yield _lost(tally)
    yield ", ".join(tally.commits) or "-"
    yield _span(tally)


def _times(kind: str, count: int, tries: int) -> str:
    return kind if count == tries else f"{kind} ({count})"


def _lost(tally: Tally) -> str:
    """ "200/200", or the span where tries differ: "180..200/200"."""
    if not tally.acknowledged_and_lost:
        return "-"
    acknowledged, lost = zip(*tally.acknowledged_and_lost, strict=True)
    return f"{_range(lost)}/{_range(acknowledged)}"


def _range(numbers: Iterable[int]) -> str:
    low, *rest = sorted(set(numbers))
    return f"{low}..{rest[-1]}" if rest else str(low)


def _span(tally: Tally) -> str:
    """The days of the first try and of the last."""
    days = list(dict.fromkeys(at[:10] for at in (tally.first, tally.last) if at))
    return " to ".join(days) or "-"


def _cell(text: str) -> str:
    """Text that cannot end its cell or its line."""
    return visible(text).replace("\n", " ").replace("|", "\\|")
