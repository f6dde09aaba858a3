"""Scripts show what a protection is for: off and on, told from the rows that only controllers leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.checker.controllers import claims, overlaps, rivals
from harness.checker.replicas import joined_while_fenced
from harness.simulated.defects import DEFECTS
from harness.simulated.run import simulate

BY_NAME = {one.protection.value: one for one in DEFECTS}


def rows(run_dir: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(run_dir / "history" / table).to_pylist()
    return found


def found(name: str, out: Path, *, off: bool) -> dict[str, int]:
    run_dir = simulate(BY_NAME[name].planned(off=off), seed=0, out=out).run_dir
    made = claims(rows(run_dir, "events"))
    assert made
    return {
        "fenced-replica": len(list(joined_while_fenced(rows(run_dir, "metadata")))),
        "two-active-controllers": len(list(rivals(made)))
        + sum(overlap > 5_000_000_000 for *_, overlap in overlaps(made)),
    }


@pytest.mark.parametrize("name", ["isr-eligibility-at-controller", "vote-persisted"])
def test_what_only_controllers_know_is_found_without_the_protection_and_not_with_it(name: str, tmp_path: Path) -> None:
    stated = BY_NAME[name].anomaly
    assert found(name, tmp_path / "off", off=True)[stated]
    assert not any(found(name, tmp_path / "on", off=False).values())


def test_faults_of_scripts_are_in_the_history(tmp_path: Path) -> None:
    run_dir = simulate(BY_NAME["isr-committed-first"].planned(off=False), seed=0, out=tmp_path / "run").run_dir
    (fault,) = rows(run_dir, "faults")
    assert (fault["name"], fault["status"]) == ("kill", "healed")
    assert fault["proved_ns"] < fault["healed_ns"]
