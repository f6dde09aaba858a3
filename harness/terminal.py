"""What a person watching a run sees: one line per phase, growing while it lasts, then the verdict.

deploy   1 controller, 3 brokers, Apache Kafka 4.3.1                                  4.1 s
workload 41 200 acknowledged · 1 002/s · fault: partition-isolate b2                 60.0 s
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from reports.terminal import verdict_lines
from reports.verdict import Verdict
from reports.wording import one_line

_PLAIN = {"until", "kill", "pause", "cut", "heal", "wipe"}  # steps that are what they say


class PhaseDisplay:
    """One line per phase on a terminal; plain lines, printed when a phase ends, anywhere else. Quiet: nothing at all."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._live: Live | None = None
        self._name = ""
        self._text = ""
        self._started = 0.0

    def begin(self, name: str, text: str = "") -> None:
        self.end()
        self._name, self._text, self._started = name, text, time.monotonic()
        if self._console.is_terminal and not self._quiet:
            self._live = Live(self, console=self._console, refresh_per_second=4, transient=True)
            self._live.start()

    def say(self, text: str) -> None:
        """Replace what the running phase's line says."""
        self._text = text

    def note(self, text: str) -> None:
        """A line of its own that stays, above the running phase."""
        if not self._quiet:
            line = _labelled()
            line.add_row("", Text(text, style="dim"))
            self._console.print(line)

    def end(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._name and not self._quiet:
            self._console.print(self._row())
        self._name = ""

    def __rich__(self) -> Table:
        return self._row()

    def _row(self) -> Table:
        row = Table.grid(padding=(0, 1), expand=True)
        row.add_column(width=9)
        row.add_column(ratio=1)
        row.add_column(justify="right", width=9)
        row.add_row(
            Text(f" {self._name}", style="bold"), Text(self._text), Text(f"{time.monotonic() - self._started:.1f} s")
        )
        return row


def progress_line(counters: Mapping[str, Any], seconds: float, target: float | None) -> str:
    acknowledged = int(counters.get("acknowledged", 0))
    parts = [f"{acknowledged:,} records acknowledged"]
    if seconds > 1:
        rate = f"{acknowledged / seconds:,.0f}/s"
        parts.append(f"{rate} of {target:,.0f}/s wanted" if target and acknowledged / seconds < 0.9 * target else rate)
    for name, word in (("failed", "failed"), ("unknown", "unknown"), ("read", "read")):
        if counters.get(name):
            parts.append(f"{int(counters[name]):,} {word}")
    return " · ".join(parts)


def step_line(message: Mapping[str, Any]) -> str:
    """A step of a race that has ended: " 8.1 s  kill -9 b2". What was seen is told where it says more than that it is done."""
    done = message["status"] == "done"
    telling = not done or message["verb"] not in _PLAIN or message["frame"]
    seen = f" · {message['seen']}" if message.get("seen") and telling else ""
    mark = "" if done else f"{message['status'].upper()}: "
    return f"{message['at_s']:5.1f} s  {one_line(mark + message['text'] + seen, 300)}"


def print_verdict(console: Console, verdict: Verdict, *, report: str | None = None, again: str | None = None) -> None:
    """The verdict in words first, then what went wrong, then where to look and how to run it again."""
    rows = _labelled()
    for line in verdict_lines(verdict, report=report, again=again):
        rows.add_row(Text(f" {line.label}", style=line.style), Text(line.text))
    console.print(rows)


def print_line(console: Console, label: str, text: str) -> None:
    """One more line in the manner of `print_verdict`."""
    rows = _labelled()
    rows.add_row(f" {label}", Text(text))
    console.print(rows)


def _labelled() -> Table:
    rows = Table.grid(padding=(0, 1))
    rows.add_column(width=9, no_wrap=True)
    rows.add_column(overflow="fold")
    return rows
