"""The verdict as the last lines of `krash run`, for eyes that will not open the report.

     INVALID  200 acknowledged records were lost.
              lost-write × 200: process 204 was told that w2/204/828/log/0 is stored in log-0 at offset 1689, and ...
              F2 kill b1: no write succeeded for 2.7 s
     counts   17,697 acknowledged · 17,497 read back · 200 lost · 20 unknown outcomes
     report   runs/2026-11-21T10-14-03-unclean-1f3a/report.html
     again    krash run examples/unclean.yaml --seed 7

Lines are data (label, text, style); the caller prints them. Text from a history was made visible before, so that no
value can send the terminal an escape sequence.
"""  # noqa: RUF002

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reports.headline import headline, reason
from reports.verdict import Severity, Status, Validity, Verdict
from reports.wording import duration, number, one_line, plural

STYLES = {Validity.INVALID: "bold red", Validity.UNKNOWN: "bold yellow", Validity.VALID: "bold green"}
_LABEL_WIDTH = 9
_UNAVAILABLE_FROM = 1.0  # seconds


@dataclass(frozen=True, kw_only=True)
class Line:
    label: str  # "" continues the line above
    text: str
    style: str = ""  # of the label, as rich spells it

    def __str__(self) -> str:
        return f" {self.label:<{_LABEL_WIDTH}}{self.text}"


def verdict_lines(verdict: Verdict, *, report: str | None = None, again: str | None = None) -> list[Line]:
    """What to print when a run is over. `report`: path of the page; `again`: the command that repeats the run."""
    lines = [Line(label=verdict.verdict.upper(), text=headline(verdict), style=STYLES[Validity(verdict.verdict)])]
    lines += [Line(label="", text=text) for text in _details(verdict)]
    if verdict.counts is not None:
        counts = verdict.counts
        unknown = counts.ops.get("info", 0)
        parts = (
            f"{number(counts.acknowledged)} acknowledged",
            f"{number(counts.read)} read back",
            f"{number(counts.lost)} lost",
            plural(unknown, "unknown outcome"),
        )
        lines.append(Line(label="counts", text=" · ".join(parts)))
    for label, text in (("report", report), ("again", again)):
        if text:
            lines.append(Line(label=label, text=one_line(text, 2_000)))
    return lines


def _details(verdict: Verdict) -> Iterator[str]:
    told = reason(verdict)
    if verdict.status != Status.JUDGED:
        yield one_line(f"{verdict.status}: {told}" if told else str(verdict.status))
    elif told:
        yield one_line(told)
    for anomaly in verdict.anomalies:
        if anomaly.severity != Severity.INFORMATION:
            tolerated = " (tolerated by the spec)" if anomaly.tolerated else ""
            yield one_line(f"{anomaly.type} × {number(anomaly.count)}{tolerated}: {anomaly.sentence}", 300)  # noqa: RUF001
    for line in verdict.unjudged[:5]:
        yield one_line(f"not judged: {line}", 300)
    for window in verdict.unavailability:
        seconds = window.writes_seconds
        if seconds is None or seconds >= _UNAVAILABLE_FROM:
            how_long = "until the end of the run" if seconds is None else f"for {duration(seconds)}"
            yield one_line(
                f"F{window.fault} {window.name} {', '.join(window.targets)}: no write succeeded {how_long}", 300
            )
