"""SIGKILL of krash at random moments of a run: nothing is left behind, and what reached the disk is judged without inventing anything."""

from __future__ import annotations

import json
import random
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.harness.krash import krash, start_krash
from tests.nodes import traces

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1500)]

MOMENTS = 20
SEED = 20261121
EARLY = 6.0  # seconds after the start: somewhere in the deployment
LATE = 3.0  # seconds after the first acknowledgement
SPEC = """
name: doomed
combined: true
brokers: 1
topics: [{name: log, partitions: 2}]
workload: {name: log, clients: 1}
nemesis: {mix: {faults: [pause, kill], interval: 2s, duration: [500ms, 1s], quiet: 500ms, start_after: 500ms}}
rate: 2000
time_limit: 10m
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that were killed, each with what it left told at once."""
    out = tmp_path_factory.mktemp("runs")
    spec = out.parent / "doomed.yaml"
    spec.write_text(SPEC)
    chance = random.Random(SEED)
    mounts, links, rules = traces.mounts(), traces.links(), traces.rules()
    for moment in range(MOMENTS):
        known = set(out.iterdir())
        process = start_krash("run", spec, "--out", out, "--seed", str(moment))
        if moment % 2:
            assert traces.left(lambda known=known: _silent(out, known), within=180) == [], "no run recorded anything"  # type: ignore[misc]
        after = chance.uniform(0.0, LATE) if moment % 2 else chance.uniform(0.5, EARLY)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=after)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        for run in set(out.iterdir()) - known:
            assert traces.left(lambda run=run: traces.processes(run.name), within=20) == {}, (
                f"moment {moment}: {after} s"
            )  # type: ignore[misc]
    assert traces.links() == links
    assert traces.rules() == rules
    assert traces.mounts() == mounts
    return out


def _silent(out: Path, known: set[Path]) -> list[str]:
    """Why the new run has not recorded an acknowledgement yet; empty when it has."""
    journals = [path / "journal" / "0.completions" for path in set(out.iterdir()) - known]
    return (
        [] if any(path.exists() and path.stat().st_size > 1000 for path in journals) else ["nothing acknowledged yet"]
    )


def test_what_a_killed_run_recorded_is_judged_without_a_false_anomaly(killed: Path) -> None:
    runs = sorted(killed.iterdir())
    recorded = 0
    for run in runs:
        recovered = krash("recover", run, "--json")
        assert recovered.code == 0
        recorded += bool(recovered.answer["rows"]["records"])
    assert krash("recover", runs[0]).code == 0, "recovering twice is fine"
    assert recorded >= MOMENTS // 2, "every other run was killed while clients were writing"
    checked = krash("check", *runs, "--json")
    assert checked.code == 2
    for answer in checked.answers:
        assert answer["verdict"] == "unknown"
        assert [anomaly for anomaly in answer["anomalies"] if anomaly["severity"] == "violation"] == []
        assert json.loads((Path(answer["run_dir"]) / "verdict.json").read_text())["verdict"] == "unknown"
