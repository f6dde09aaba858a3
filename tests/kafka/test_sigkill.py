"""SIGKILL of krash at random moments of a run: nothing is left behind, and what reached the disk is judged without inventing anything."""

from __future__ import annotations

import json
import random
import signal
import subprocess
from pathlib import Path

import pytest

from tests.harness.krash import krash, start_krash
from tests.nodes import traces

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1500)]

MOMENTS = 20
SEED = 20261121
LATEST = 9.0  # seconds after the start; deploying one combined node takes about a third of it
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
        after = chance.uniform(0.5, LATEST)
        known = set(out.iterdir())
        process = start_krash("run", spec, "--out", out, "--seed", str(moment))
        try:
            process.wait(timeout=after)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        for run in set(out.iterdir()) - known:
            assert traces.left(lambda run=run: traces.processes(run.name), within=20) == {}, f"moment {moment}: {after} s"  # type: ignore[misc]
    assert traces.links() == links
    assert traces.rules() == rules
    assert traces.mounts() == mounts
    return out


def test_what_a_killed_run_recorded_is_judged_without_a_false_anomaly(killed: Path) -> None:
    runs = sorted(killed.iterdir())
    assert len(runs) > MOMENTS // 2, "most moments should be after the run directory was made"
    recorded = 0
    for run in runs:
        recovered = krash("recover", run, "--json")
        assert recovered.code == 0
        assert krash("recover", run).code == 0, "recovering twice is fine"
        recorded += bool(recovered.answer["rows"]["records"])
    assert recorded > 3, "some of the runs should have been killed while clients were writing"
    checked = krash("check", *runs, "--json")
    assert checked.code == 2
    for answer in checked.answers:
        assert answer["verdict"] == "unknown"
        assert [anomaly for anomaly in answer["anomalies"] if anomaly["severity"] == "violation"] == []
        assert json.loads((Path(answer["run_dir"]) / "verdict.json").read_text())["verdict"] == "unknown"
