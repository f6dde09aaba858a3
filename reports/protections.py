"""The catch table: for each protection of the reference cluster, whether its absence was noticed, and its presence was not.

    Try     one run with one seed; one JSON line of tries.jsonl
    Row     a protection, what was stated beforehand, and its tries with it off and with it on

A protection is *caught* when the anomaly that was stated came in at least nine of ten runs without it, and nothing in any run with it.
`protections.json` is {"format": 1, "rows": [Row.as_json(), ...], "healthy": {...}}.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Final

from reports.wording import visible

FORMAT: Final = 1
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
class Row:
    protection: str
    source: str
    without: str
    anomaly: str
    faults: str
    off: Sequence[Try] = field(default_factory=tuple)
    on: Sequence[Try] = field(default_factory=tuple)

    @property
    def caught(self) -> int:
        return sum(self.anomaly in one.anomalies for one in self.off)

    @property
    def alarms(self) -> int:
        return sum(one.verdict != "valid" for one in self.on)

    @property
    def meets_bar(self) -> bool:
        return bool(self.off) and self.caught >= BAR * len(self.off) and self.alarms == 0

    @property
    def first_s(self) -> float | None:
        seconds = [one.first_s for one in self.off if one.first_s is not None]
        return median(seconds) if seconds else None

    @property
    def also(self) -> list[str]:
        """Other anomalies that came with it off."""
        return sorted(Counter(name for one in self.off for name in one.anomalies if name != self.anomaly))

    def as_json(self) -> dict[str, Any]:
        return {
            "protection": self.protection,
            "source": self.source,
            "anomaly": self.anomaly,
            "off": {"runs": len(self.off), "caught": self.caught, "median_first_s": self.first_s, "also": self.also},
            "on": {"runs": len(self.on), "found": self.alarms},
        }


def catch_json(rows: Sequence[Row], healthy: Sequence[Try]) -> str:
    document = {
        "format": FORMAT,
        "rows": [row.as_json() for row in rows],
        "healthy": {"runs": len(healthy), "found": sum(one.verdict != "valid" for one in healthy)},
    }
    return json.dumps(document, indent=1) + "\n"


def catch_page(rows: Sequence[Row], healthy: Sequence[Try], date: str) -> str:
    """`docs/protections.md`."""
    return "\n".join(_page(rows, healthy, date)) + "\n"


def _page(rows: Sequence[Row], healthy: Sequence[Try], date: str) -> Iterator[str]:
    alarms = sum(one.verdict != "valid" for one in healthy)
    met = sum(row.meets_bar for row in rows)
    yield "# Protections of the reference cluster"
    yield ""
    yield "<!-- Written by `krash protections catch`; changes made by hand are lost. -->"
    yield ""
    yield "Each row is one switch of the reference cluster. The whole cluster runs in a simulated world (three controllers, three brokers,"
    yield "their clients, faults, all drawn from a seed), once with the protection off and once with it on, and the checker judges both"
    yield "histories as it judges those of real clusters. The anomaly was stated beforehand, in `harness/simulated/defects.py`."
    yield ""
    yield f"- {met} of {len(rows)} protections: found in at least nine of ten runs without it, in none with it."
    yield f"- All protections on, every fault: {alarms} of {len(healthy)} runs had an anomaly."
    yield f"- {date}. Again: `krash protections catch`; one: `krash protections catch --only NAME`."
    yield ""
    yield "| protection | from | without it | faults | anomaly stated | found without it | first after | found with it | also seen |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        yield _line(row)


def _line(row: Row) -> str:
    first = "-" if row.first_s is None else f"{row.first_s:.0f} s"
    cells: Iterable[str] = (
        f"`{row.protection}`",
        visible(row.source),
        visible(row.without),
        visible(row.faults),
        f"`{row.anomaly}`",
        f"{row.caught}/{len(row.off)}",
        first,
        f"{row.alarms}/{len(row.on)}",
        ", ".join(row.also) or "-",
    )
    return f"| {' | '.join(cells)} |"
