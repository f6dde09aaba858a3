"""SIGKILL of krash at random moments of a run: nothing is left behind, and what reached the disk is judged without inventing anything."""

from __future__ import annotations

import json
import random
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from harness.again import recover_run
from tests.harness.krash import krash, start_krash
from tests.nodes import traces

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1500)]

MOMENTS = 20
AT_ONCE = 2
SEED = 20261121
EARLY = 6.0  # seconds after the start: somewhere in the deployment
LATE = 3.0  # seconds after the first acknowledgement
SPEC = """
name: doomed
system: kafka
combined: true
brokers: 1
topics: [{name: log, partitions: 2}]
workload: {name: log, clients: 1}
nemesis: {mix: {faults: [pause, kill], interval: 2s, duration: [500ms, 1s], quiet: 500ms, start_after: 500ms}}
rate: 2000
time_limit: 10m
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Runs that were killed, each with what it left told at once."""
    folder = tmp_path_factory.mktemp("runs")
    spec = folder / "doomed.yaml"
    spec.write_text(SPEC)
    chance = random.Random(SEED)
    moments = range(MOMENTS)
    after = [chance.uniform(0.0, LATE) if moment % 2 else chance.uniform(0.5, EARLY) for moment in moments]
    mounts, links, rules = traces.mounts(), traces.links(), traces.rules()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda moment: kill_one(spec, folder / str(moment), moment, after[moment]), moments)
        runs = [run for runs in found for run in runs]
    assert traces.links() == links
    assert traces.rules() == rules
    assert traces.mounts() == mounts
    return runs


def kill_one(spec: Path, out: Path, moment: int, after: float) -> list[Path]:
    """The run that was made until then, if any: every other one dies in its deployment, the others while clients write."""
    out.mkdir()
    process = start_krash("run", spec, "--out", out, "--seed", str(moment))
    if moment % 2:
        assert traces.left(lambda: _silent(out), within=180) == [], "no run recorded anything"
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=after)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    runs = list(out.iterdir())
    for run in runs:
        assert traces.left(lambda run=run: traces.processes(run.name), within=60) == {}, f"moment {moment}: {after} s"  # type: ignore[misc]
    return runs


def _silent(out: Path) -> list[str]:
    """Why the run has not recorded an acknowledgement yet; empty when it has."""
    journals = [path / "journal" / "0.completions" for path in out.iterdir()]
    return (
        [] if any(path.exists() and path.stat().st_size > 1000 for path in journals) else ["nothing acknowledged yet"]
    )


def test_what_a_killed_run_recorded_is_judged_without_a_false_anomaly(
    killed: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = 0
    for run in killed:
        assert recover_run(run, as_json=True) == 0
        recorded += bool(json.loads(capsys.readouterr().out)["rows"]["records"])
    assert krash("recover", killed[0]).code == 0, "recovering twice is fine"
    assert recorded >= MOMENTS // 2, "every other run was killed while clients were writing"
    checked = krash("check", *killed, "--json")
    assert checked.code == 2
    for answer in checked.answers:
        assert answer["verdict"] == "unknown"
        assert [anomaly for anomaly in answer["anomalies"] if anomaly["severity"] == "violation"] == []
        assert json.loads((Path(answer["run_dir"]) / "verdict.json").read_text())["verdict"] == "unknown"
