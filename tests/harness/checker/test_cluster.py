"""`krash check` on a real standalone cluster: the same as on this machine alone, byte for byte, and nothing is left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.checker.cluster import Cluster, explained, settings_from
from tests.harness.checker.standalone import WAIT_S, Standalone, standalone_cluster, until
from tests.harness.checker.stories import clean
from tests.harness.checker.test_seeded_defects import DEFECTS

ROOT = Path(__file__).parents[3]
CHECK_S = 1200.0  # likewise
_SMALL = (
    "spark.executor.memory=512m",
    "spark.executor.extraJavaOptions=-Xss4m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData",
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone_cluster(tmp_path_factory.mktemp("standalone")) as started:
        yield started
        until(lambda: not started.executors(), "executors outlived their application")


def command(*arguments: str, settings: tuple[str, ...] = _SMALL) -> list[str]:
    given = [word for setting in settings for word in ("--spark-conf", setting)]
    return [sys.executable, "-m", "harness", "check", "--json", *arguments, *given]


def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "tmp").mkdir(exist_ok=True)
    return {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "tmp")}


def check(tmp_path: Path, *arguments: str, settings: tuple[str, ...] = _SMALL) -> tuple[int, list[dict[str, Any]], str]:
    """Exit code, one answer per path, standard error."""
    done = subprocess.run(
        command(*arguments, settings=settings),
        cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=CHECK_S,
    )  # fmt: skip
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def told(run: Path) -> tuple[bytes, Any]:
    """The bytes of its anomalies, and its verdict without how long anything took."""
    verdict = json.loads((run / "verdict.json").read_bytes())
    for one in verdict["checks"]:
        del one["seconds"]
    return (run / "anomalies" / "anomalies.parquet").read_bytes(), verdict


@pytest.mark.spark
@pytest.mark.timeout(3 * CHECK_S)
def test_the_same_as_on_this_machine(cluster: Standalone, tmp_path: Path) -> None:
    """A third of the seeded defects in one job; one of them through another file system of Hadoop's, by URI."""
    defects = list(DEFECTS)[::3]
    here, there, out = (tmp_path / name for name in ("here", "there", "out"))
    for name in defects:
        DEFECTS[name][0](name).save(here / name)
    far, *names = sorted(defects)
    shutil.copytree(here, there)
    mounted = f"spark.hadoop.fs.viewfs.mounttable.krash.link./runs=file://{there}"
    uri = f"viewfs://krash/runs/{far}"
    code, answers, errors = check(
        tmp_path, "--master", cluster.url, uri, *(str(there / name) for name in names), settings=(*_SMALL, mounted)
    )
    assert (code, len(answers)) == (1, len(defects)), errors
    assert answers[0]["path"] == uri
    assert answers[0]["verdict"] == "invalid"
    code, answers, errors = check(
        tmp_path, *(str(here / name) for name in [far, *names]), "--out", str(out), settings=()
    )
    assert (code, len(answers)) == (1, len(defects)), errors
    for name in defects:
        assert told(there / name) == told(out / name), name
    assert sorted(path.name for path in (here / far).iterdir()) == ["history", "run.json"]
    assert (there / names[0] / "report.html").exists()
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.spark
@pytest.mark.timeout(3 * CHECK_S)
def test_a_killed_judge_leaves_no_process(cluster: Standalone, tmp_path: Path) -> None:
    run = clean("killed").save(tmp_path / "killed")
    with subprocess.Popen(
        command("--master", cluster.url, str(run)), cwd=tmp_path, env=environment(tmp_path),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as krash:  # fmt: skip
        until(lambda: len(cluster.executors()) >= 2, "no executors")
        family = [*psutil.Process(krash.pid).children(recursive=True), *cluster.executors()]
        assert any("java" in process.name() for process in family)
        krash.send_signal(signal.SIGKILL)
    assert psutil.wait_procs(family, timeout=WAIT_S)[1] == []
    assert not (run / "verdict.json").exists()


@pytest.mark.spark
@pytest.mark.timeout(3 * CHECK_S)
def test_what_is_wrong_is_said(cluster: Standalone, tmp_path: Path) -> None:
    run = str(clean("fine").save(tmp_path / "fine"))
    code, _, errors = check(
        tmp_path, "--master", cluster.url, run, settings=(*_SMALL, "spark.pyspark.python=/nowhere/python3")
    )
    assert code == 3
    assert "executors have no /nowhere/python3: name their Python with --spark-conf spark.pyspark.python=PATH" in errors
    bad = clean("bad").save(tmp_path / "bad")
    table = bad / "history" / "records" / "0.parquet"
    content = bytearray(table.read_bytes())
    content[200] ^= 0xFF
    table.write_bytes(content)
    uris = [
        "viewfs://krash/runs/bad",
        "viewfs://krash/runs/fine",
        "viewfs://nobody/runs/fine",
        "viewfs://krash/runs/gone",
    ]
    mounted = f"spark.hadoop.fs.viewfs.mounttable.krash.link./runs=file://{tmp_path}"
    code, answers, _ = check(tmp_path, *uris, settings=(mounted,))
    assert code == 3
    assert [answer["verdict"] for answer in answers] == ["error", "valid", "error", "error"]
    assert answers[0]["error"].startswith("viewfs://krash/runs/bad/history/records/0.parquet: cannot be read: ")
    assert "\n" not in answers[0]["error"]
    assert answers[2]["error"].startswith("viewfs://nobody/runs/fine/run.json: cannot be read: ")
    assert answers[3]["error"] == "viewfs://krash/runs/gone/run.json: missing: this is not a run directory"
    assert json.loads((tmp_path / "fine" / "verdict.json").read_bytes())["verdict"] == "valid"


_ON_EXECUTORS = """
import sys
import harness.checker.cluster, harness.checker.cycle_parts, harness.checker.cycle_rows, harness.checker.log_pieces
import harness.checker.linearizability.pieces, harness.checker.serializability.cycles
print(sorted({"pydantic", "pyspark", "pandas", "typer", "kio", "confluent_kafka"} & set(sys.modules)))
"""


def test_what_executors_run_needs_only_what_they_are_asked_for() -> None:
    done = subprocess.run([sys.executable, "-c", _ON_EXECUTORS], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_driver_plans_without_what_only_workers_need() -> None:
    """It is started beside the workload of a run, and each of them takes a second to import there."""
    script = "import sys, harness.checker.judge; print(sorted({'numba', 'pandas', 'matplotlib'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_what_is_handed_to_workers_comes_from_those_modules() -> None:
    """Every kernel that executors run is imported by name from a module of the test above."""
    handed: dict[str, str] = {}
    for source in (ROOT / "harness" / "checker").glob("*.py"):
        handed |= dict.fromkeys(re.findall(r"(?:applyInArrow|mapInArrow)\((\w+)", source.read_text()), source.name)
    segments = dict.fromkeys(("merge", "sharing", "sweep_part"), "cycle_segments.py")
    assert handed.pop("awake") == "workers.py"  # of the daemon that only this machine has
    assert handed == {"sweep_logs": "linearizable.py", "sweep": "cycles.py", **segments}


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (["spark.executor.memory"], "expected key=value, found 'spark.executor.memory'"),
        (["executor.memory=1g"], "'executor.memory' is no setting of Spark"),
        (["spark.master=local"], "spark.master cannot be set: --master says it"),
        (["spark.sql.ansi.enabled=false"], "spark.sql.ansi.enabled cannot be set: verdicts depend on it"),
    ],
)
def test_settings_that_make_no_sense(settings: list[str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Cluster(master="yarn", settings=settings_from(settings))


def test_a_driver_is_where_its_executors_reach_it() -> None:
    assert Cluster(master="local[2]").address == "127.0.0.1"
    assert Cluster(master="spark://127.0.0.1:7077").address == "127.0.0.1"
    assert Cluster(master="k8s://https://127.0.0.1:6443").address == "127.0.0.1"
    assert Cluster(master="yarn").address is None
    assert [Cluster(master=name).is_local for name in ("local", "local[*]", "yarn", "local-cluster[2,1,512]")] == [
        True, True, False, False,
    ]  # fmt: skip


def test_other_versions_of_python_are_explained() -> None:
    said = "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, ..."
    assert explained(RuntimeError(said)) == (
        "executors run another version of Python (theirs 3.9, ours 3.11): name one of ours with --spark-conf spark.pyspark.python=PATH"
    )
    assert explained(RuntimeError("something else")) is None
