"""Every race that has a name, where it must come and where it must not: a harness that cannot see old bugs is broken.

The cells are the race's own data (nemesis/races/cells.py, `samples`). Where the race must come, one of three tries has to
show it (at the track record's 95 % that fails once in eight thousand times); where it must not, any anomaly fails at once,
and one of three tries has to say something. All tries share one judge.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from harness.plugins import Group, registered
from harness.race_order import Order, settle
from harness.races import find_race
from harness.track_record import RaceRunner
from nemesis.races.cells import Cell, samples
from nemesis.races.expectation import VALID

pytestmark = [pytest.mark.races, pytest.mark.timeout(1800)]

TRIES = 3
CELLS = [(name, cell) for name in registered(Group.RACES) for cell in samples(find_race(name))]


class Tries:
    """Runs races one after the other, in one event loop with one judge."""

    def __init__(self, runs: Path) -> None:
        self._runner = asyncio.Runner()
        self._races = RaceRunner(Console(quiet=True), runs)

    def run(self, order: Order) -> Mapping[str, Any]:
        return self._runner.run(self._races.run(order))

    def close(self) -> None:
        self._runner.run(self._races.close())
        self._runner.close()


@pytest.fixture(scope="module")
def tries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tries]:
    tries = Tries(tmp_path_factory.mktemp("runs"))
    yield tries
    tries.close()


@pytest.mark.parametrize(("name", "cell"), CELLS, ids=lambda value: _id(value) if isinstance(value, Cell) else value)
def test_the_race_comes_where_it_must_and_only_there(name: str, cell: Cell, tries: Tries) -> None:
    order, _ = settle(name, system=cell.system, variant=None, settings=cell.settings)
    assert order.expected is not None
    seen = []
    for _ in range(TRIES):
        seen.append(tries.run(order))
        if seen[-1]["as_expected"] is True:
            return
        if order.expected.outcome == VALID and seen[-1]["verdict"] == "invalid":
            break
    pytest.fail(
        f"{name} on {_id(cell)}: expected {order.expected.outcome} ({order.expected.because}), but\n"
        + "\n".join(map(what_was_seen, seen)),
        pytrace=False,
    )


def what_was_seen(told: Mapping[str, Any]) -> str:
    """One try, for whoever reads a red build: how it ended, and the steps with what each of them saw."""
    head = f"- {told['verdict']} ({told['status']}), {', '.join(told['anomalies']) or 'no anomaly'}"
    counts = f"{told['lost']} of {told['acknowledged']} acknowledged records lost, {told['seconds']:.0f} s"
    table = Path(told["run_dir"]) / "history" / "steps"
    steps = pq.read_table(table).to_pylist() if table.is_dir() else []
    began = min((step["started_ns"] for step in steps), default=0)
    lines = [
        f"    {(step['started_ns'] - began) / 1e9:6.1f} s  {step['status']:<12}{step['text']}{_seen(step['seen'])}"
        for step in sorted(steps, key=lambda step: step["step"])
    ]
    return "\n".join([f"{head}; {counts}; {told['reason'] or ''}", f"  {told['run_dir']}", *lines])


def _seen(text: str | None) -> str:
    return f" · {text[:200]}" if text else ""


def _id(cell: Cell) -> str:
    return "-".join([cell.system, *(f"{name}={value}" for name, value in cell.settings.items())])
