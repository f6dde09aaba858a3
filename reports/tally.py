"""Tries of a race, one by one and counted.

    Attempt    one try; one JSON line of tries.jsonl
    Tally      many tries of one cell: how many, what they showed, what was lost, when and where they were made

Two tallies of the same cell can be added: what another machine counted (a cell of its track-record.json) and what was tried
here. Of their medians only a mean is left then, each weighed by the tries behind it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from statistics import median
from typing import Any, Final

from reports.verdict import Status

BROKEN: Final = "crashed"  # a status besides those of reports/verdict.py: the try itself fell over
_SAID: Final = (Status.JUDGED, Status.NO_DATA)  # statuses that say something about the system


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
    def of(cls, found: Any) -> Attempt:
        """ValueError for what is no attempt."""
        names = {one.name for one in fields(cls)}
        if not isinstance(found, dict) or found.keys() != names:
            raise ValueError(f"expected an object with {', '.join(sorted(names))}")
        return cls(**found)

    @property
    def said(self) -> bool:
        """Does it say anything about the system?"""
        return self.status in _SAID


@dataclass(frozen=True, kw_only=True)
class Tally:
    tries: int = 0
    shown: int = 0  # that showed what must be shown; of a safe cell: that said something and did not end valid
    not_reached: int = 0
    failed: int = 0  # krash itself did not get to the end
    seconds: float | None = None  # median of those that say something
    anomalies: Mapping[str, int] = field(default_factory=dict)  # type -> tries that had it
    acknowledged_and_lost: Sequence[tuple[int, int]] = ()  # the pairs that came, ascending
    silent: Mapping[str, int] = field(default_factory=dict)  # why a try says nothing -> how many
    commits: Sequence[str] = ()
    machines: Sequence[str] = ()
    first: str | None = None  # ISO 8601, UTC
    last: str | None = None

    @property
    def said(self) -> int:
        """Tries that say something about the system."""
        return self.tries - self.not_reached - self.failed

    @classmethod
    def of(cls, attempts: Sequence[Attempt], *, safe: bool) -> Tally:
        said = [one for one in attempts if one.said]
        not_reached = sum(one.status == Status.NOT_REACHED for one in attempts)
        return cls(
            tries=len(attempts),
            shown=sum(one.as_expected is not safe for one in attempts if one.as_expected is not None),
            not_reached=not_reached,
            failed=len(attempts) - len(said) - not_reached,
            seconds=median(one.seconds for one in said) if said else None,
            anomalies=dict(Counter(kind for one in attempts for kind in dict.fromkeys(one.anomalies))),
            acknowledged_and_lost=sorted({(one.acknowledged, one.lost) for one in said}),
            silent=dict(Counter(one.reason for one in attempts if not one.said and one.reason)),
            commits=_several(one.commit for one in attempts),
            machines=_several(one.machine for one in attempts),
            first=min((one.at for one in attempts), default=None),
            last=max((one.at for one in attempts), default=None),
        )

    @classmethod
    def of_json(cls, cell: Mapping[str, Any]) -> Tally:
        """What as_json() made; other keys do not matter. KeyError, TypeError or ValueError for what is none."""
        count = {name: int(cell[name]) for name in ("tries", "shown", "not_reached", "failed")}
        if min(count.values()) < 0 or count["not_reached"] + count["failed"] > count["tries"]:
            raise ValueError(f"tries that cannot be: {count}")
        return cls(
            **count,
            seconds=None if cell["seconds"] is None else float(cell["seconds"]),
            anomalies=_counts(cell["anomalies"]),
            acknowledged_and_lost=[
                (int(acknowledged), int(lost)) for acknowledged, lost in cell["acknowledged_and_lost"]
            ],
            silent=_counts(cell.get("silent", {})),
            commits=_several(cell["commits"]),
            machines=_several(cell["machines"]),
            first=cell["first"],
            last=cell["last"],
        )

    def as_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "seconds": None if self.seconds is None else round(self.seconds, 1),
            "acknowledged_and_lost": [list(pair) for pair in self.acknowledged_and_lost],
        }

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            tries=self.tries + other.tries,
            shown=self.shown + other.shown,
            not_reached=self.not_reached + other.not_reached,
            failed=self.failed + other.failed,
            seconds=_mean([self, other]),
            anomalies=dict(Counter(self.anomalies) + Counter(other.anomalies)),
            acknowledged_and_lost=sorted({*self.acknowledged_and_lost, *other.acknowledged_and_lost}),
            silent=dict(Counter(self.silent) + Counter(other.silent)),
            commits=_several([*self.commits, *other.commits]),
            machines=_several([*self.machines, *other.machines]),
            first=min((one for one in (self.first, other.first) if one), default=None),
            last=max((one for one in (self.last, other.last) if one), default=None),
        )


def _mean(tallies: Sequence[Tally]) -> float | None:
    known = [(one.seconds, one.said) for one in tallies if one.seconds is not None]
    return sum(seconds * said for seconds, said in known) / sum(said for _, said in known) if known else None


def _counts(found: Any) -> Mapping[str, int]:
    if not isinstance(found, dict):
        raise TypeError(f"expected an object with counts, not {found!r}")
    return {str(kind): int(count) for kind, count in found.items()}


def _several(values: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(value for value in values if value))
