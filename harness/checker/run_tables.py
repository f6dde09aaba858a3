"""The tables of few rows of any number of runs, by run, and what they say together: plain Python, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import pyarrow as pa

from harness.checker import controllers, replicas
from harness.checker.controllers import Claim
from harness.checker.facts import RunFacts
from harness.checker.replicas import Standing


class RunTables:
    """Each is made when somebody asks for it."""

    def __init__(
        self,
        runs: Mapping[str, RunFacts],
        *,
        small: Mapping[str, pa.Table],
        faults: list[dict[str, Any]],
        final_bounds: list[dict[str, Any]],
    ) -> None:
        """`small`: events, metadata and steps, where there are any; `final_bounds`: BOUNDS rows of the final phase."""
        self.runs, self.faults, self.final_bounds = runs, faults, final_bounds
        self.small = small

    @cached_property
    def events(self) -> dict[str, list[dict[str, Any]]]:
        """run -> EVENTS rows."""
        return self._rows("events")

    @cached_property
    def metadata(self) -> dict[str, list[dict[str, Any]]]:
        """run -> METADATA rows."""
        return self._rows("metadata")

    @cached_property
    def steps(self) -> dict[str, list[dict[str, Any]]]:
        """run -> STEPS rows."""
        return self._rows("steps")

    @cached_property
    def positions(self) -> dict[str, list[dict[str, Any]]]:
        """run -> POSITIONS rows (workloads/group.py)."""
        return self._rows("positions")

    @cached_property
    def faults_by_run(self) -> dict[str, list[dict[str, Any]]]:
        """run -> FAULTS rows."""
        return _by_run(self.faults)

    @cached_property
    def claims(self) -> dict[str, list[Claim]]:
        """run -> what controllers claimed."""
        found = {run: controllers.claims(events) for run, events in self.events.items()}
        return {run: made for run, made in found.items() if made}

    @cached_property
    def standing(self) -> dict[str, Standing]:
        """run -> how its cluster stood when the final read was over."""
        return {
            run: replicas.standing(
                events, self.faults_by_run.get(run, []), self.metadata.get(run, []), self.ends.get(run)
            )
            for run, events in self.events.items()
        }

    @cached_property
    def ends(self) -> dict[str, int]:
        """run -> when its final read was over."""
        found: dict[str, int] = {}
        for row in self.final_bounds:
            found[row["run"]] = max(row["completed_ns"] or row["invoked_ns"], found.get(row["run"], 0))
        return found | {run: facts.drained_ns for run, facts in self.runs.items() if facts.drained_ns is not None}

    def _rows(self, name: str) -> dict[str, list[dict[str, Any]]]:
        return _by_run(self.small[name].to_pylist()) if name in self.small else {}


def _by_run(rows: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["run"], []).append(row)
    return found
