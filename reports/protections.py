"""The catch table: for each protection of the reference cluster, whether its absence was noticed, and its presence was not.

    Try        one simulated run with one seed; one JSON line of tries.jsonl
    RealTry    one run of real processes; one JSON line of a tries.jsonl of its own
    Row        a protection, what was stated beforehand, and what came: in simulated clusters, and on a real one

A protection is *caught* when the anomaly that was stated came in at least nine of ten simulated runs without it, and nothing in any run
with it. It is *shown* when a real run without it had the anomaly stated for it, and a real run with it was valid.

`protections.json` is {"format": 2, "date": "2026-11-21", "rows": [Row.as_json(), ...], "healthy": {"runs": 50, "found": 2}}. It is also
what the two commands leave to each other: the one that makes simulated runs keeps the real ones as they stand there, and the other way
round.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any, Final

from reports.wording import visible

FORMAT: Final = 2
BAR: Final = 0.9
HEALTHY: Final = "healthy"  # the subject of runs with all protections on and every fault


@dataclass(frozen=True, kw_only=True)
class Try:
    """first_s: seconds from the run's begin to the first op of the first anomaly that was stated."""

    key: str
    subject: str  # protection, or `healthy`
    off: bool
    seed: int
    verdict: str
    anomalies: Mapping[str, int]  # type -> how many
    first_s: float | None
    simulated_s: float
    note: str | None = None  # nodes that ended with an error; why there is no verdict

    def as_line(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True, kw_only=True)
class RealTry:
    """seconds: from the first node to the end of the run, without its judgement. first_s: as of Try; None where the anomaly names no op."""

    key: str
    subject: str
    off: bool
    at: str  # ISO 8601, UTC
    commit: str | None
    status: str  # of the run (reports/verdict.py)
    verdict: str
    anomalies: Mapping[str, int]
    first_s: float | None
    seconds: float
    note: str | None = None  # what was not reached, or fell over
    run_dir: str | None = None

    def as_line(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True, kw_only=True)
class Share:
    """Of runs without a protection: in how many the anomaly came, and what else. Of runs with it: in how many anything came."""

    runs: int = 0
    found: int = 0
    first_s: float | None = None
    also: tuple[str, ...] = ()

    @classmethod
    def without(cls, tries: Sequence[Try | RealTry], anomaly: str) -> Share:
        seconds = [one.first_s for one in tries if one.first_s is not None]
        return cls(
            runs=len(tries),
            found=sum(anomaly in one.anomalies for one in tries),
            first_s=median(seconds) if seconds else None,
            also=tuple(sorted(Counter(name for one in tries for name in one.anomalies if name != anomaly))),
        )

    @classmethod
    def having(cls, tries: Sequence[Try | RealTry]) -> Share:
        return cls(runs=len(tries), found=sum(one.verdict != "valid" for one in tries))

    @classmethod
    def of_json(cls, document: Mapping[str, Any]) -> Share:
        return cls(**{**document, "also": tuple(document["also"])})


@dataclass(frozen=True, kw_only=True)
class Real:
    """The real counterpart of a row. `because` says why there is none; then nothing else counts."""

    how: str = ""  # what is run, in words
    anomaly: str = ""
    because: str | None = None
    off: Share = field(default_factory=Share)
    on: Share = field(default_factory=Share)  # runs that say nothing (not reached) are left out of both
    seconds: float | None = None  # of a run, the median
    at: str | None = None  # day of the last try

    @property
    def shown(self) -> bool:
        return self.because is None and self.off.found > 0 and self.on.runs > 0 and self.on.found == 0

    @classmethod
    def of_json(cls, document: Mapping[str, Any]) -> Real:
        return cls(**{**document, "off": Share.of_json(document["off"]), "on": Share.of_json(document["on"])})


@dataclass(frozen=True, kw_only=True)
class Row:
    protection: str
    source: str
    without: str
    anomaly: str
    faults: str
    off: Share = field(default_factory=Share)
    on: Share = field(default_factory=Share)
    real: Real = field(default_factory=Real)

    @property
    def meets_bar(self) -> bool:
        return self.off.runs > 0 and self.off.found >= BAR * self.off.runs and self.on.found == 0

    def with_tries(self, tries: Sequence[Try]) -> Row:
        off, on = [one for one in tries if one.off], [one for one in tries if not one.off]
        return replace(self, off=Share.without(off, self.anomaly), on=Share.having(on))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Table:
    """date: of the newest simulated runs."""

    date: str = ""
    rows: Sequence[Row] = ()
    healthy: Share = field(default_factory=Share)

    def of(self, protection: str) -> Row | None:
        return next((row for row in self.rows if row.protection == protection), None)

    def as_json(self) -> str:
        document = {
            "format": FORMAT,
            "date": self.date,
            "rows": [row.as_json() for row in self.rows],
            "healthy": {"runs": self.healthy.runs, "found": self.healthy.found},
        }
        return json.dumps(document, indent=1) + "\n"

    @classmethod
    def of_json(cls, text: str) -> Table:
        """ValueError or KeyError for what is no table of this format."""
        document = json.loads(text)
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']}, not {FORMAT}")
        rows = []
        for row in document["rows"]:
            told = {"off": Share.of_json(row["off"]), "on": Share.of_json(row["on"]), "real": Real.of_json(row["real"])}
            rows.append(Row(**{**row, **told}))
        return cls(date=document["date"], rows=rows, healthy=Share(**document["healthy"]))

    def page(self) -> str:
        """`docs/protections.md`."""
        return "\n".join(_page(self)) + "\n"


def _page(table: Table) -> Iterator[str]:
    met, shown = sum(row.meets_bar for row in table.rows), sum(row.real.shown for row in table.rows)
    left_out = sum(row.real.because is not None for row in table.rows)
    yield "# Protections of the reference cluster"
    yield ""
    yield "<!-- Written by `krash protections catch`; changes made by hand are lost. -->"
    yield ""
    yield "Each row is one switch of the reference cluster. The whole cluster runs in a simulated world (three controllers, three brokers,"
    yield "their clients, faults, all drawn from a seed), once with the protection off and once with it on, and the checker judges both"
    yield "histories as it judges those of real clusters. The anomaly was stated beforehand, in `harness/simulated/defects.py`."
    yield ""
    yield f"- {met} of {len(table.rows)} protections: found in at least nine of ten runs without it, in none with it."
    yield f"- All protections on, every fault: {table.healthy.found} of {table.healthy.runs} runs had an anomaly."
    yield f"- {table.date}. Again: `krash protections catch`; one: `krash protections catch --only NAME`."
    yield ""
    yield "| protection | from | without it | faults | anomaly stated | found without it | first after | found with it | also seen |"
    yield "|---|---|---|---|---|---|---|---|---|"
    yield from map(_line, table.rows)
    yield ""
    yield "## On a real cluster"
    yield ""
    yield "The same switches on processes in network namespaces of their own, with librdkafka's clients, by a spec or a race that"
    yield "`harness/real/counterparts.py` states, judged as every run is. Runs that were not reached say nothing and do not count."
    yield ""
    reasons = f"; {left_out} are not run, and say why" if left_out else ""
    yield f"- {shown} of {len(table.rows)} protections: found without it, and a valid run with it{reasons}."
    yield "- Again: `krash protections catch --real`; one: `krash protections catch --real --only NAME`."
    yield ""
    yield "| protection | what is run | anomaly stated | found without it | first after | found with it | a run takes | also seen | date |"
    yield "|---|---|---|---|---|---|---|---|---|"
    yield from map(_real_line, table.rows)


def _line(row: Row) -> str:
    return _cells(
        f"`{row.protection}`",
        visible(row.source),
        visible(row.without),
        visible(row.faults),
        f"`{row.anomaly}`",
        _share(row.off),
        _seconds(row.off.first_s),
        _share(row.on),
        ", ".join(row.off.also) or "-",
    )


def _real_line(row: Row) -> str:
    real = row.real
    if real.because is not None:
        return _cells(f"`{row.protection}`", f"not run: {visible(real.because)}", *["-"] * 7)
    return _cells(
        f"`{row.protection}`",
        visible(real.how),
        f"`{real.anomaly}`",
        _share(real.off),
        _seconds(real.off.first_s),
        _share(real.on),
        _seconds(real.seconds),
        ", ".join(real.off.also) or "-",
        real.at or "-",
    )


def _share(share: Share) -> str:
    return f"{share.found}/{share.runs}" if share.runs else "not tried"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} s"


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
