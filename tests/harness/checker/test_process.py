"""The judge as a process: its protocol, what it leaves behind (nothing), and that it ends with its parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.harness.checker.stories import clean

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-m", "harness.checker.process", "--nice", "1", "--cores", "1", "--heap", "512m"]
WAIT_S = 200  # the machine may be busy


@pytest.fixture
def place(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A working directory and a temporary directory that must both be empty in the end."""
    working, temporary = tmp_path / "cwd", tmp_path / "tmp [x]"
    working.mkdir()
    temporary.mkdir()
    yield {"cwd": working, "env": {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}}
    assert list(working.iterdir()) == []
    assert list(temporary.iterdir()) == []


def ask(judge: subprocess.Popen[str], request: Any, answers: int) -> list[dict[str, Any]]:
    assert judge.stdin is not None
    assert judge.stdout is not None
    judge.stdin.write(json.dumps(request) + "\n")
    judge.stdin.flush()
    told: list[dict[str, Any]] = []
    while len(told) < answers:
        line = json.loads(judge.stdout.readline())
        told += [] if "doing" in line else [line]
    return told


@pytest.mark.spark
@pytest.mark.timeout(WAIT_S + 60)
def test_it_judges_what_it_is_told_and_leaves_nothing(place: dict[str, Any], tmp_path: Path) -> None:
    good = clean("good").save(tmp_path / "good {a,b}*")
    bad = clean("bad").save(tmp_path / "bad")
    table = bad / "history" / "records" / "0.parquet"
    content = bytearray(table.read_bytes())
    content[200] ^= 0xFF
    table.write_bytes(content)
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **place) as judge:
        assert judge.stdout is not None
        assert json.loads(judge.stdout.readline())["ready"] is True
        assert list(place["cwd"].iterdir()) == []
        assert _listening(judge.pid) <= {"127.0.0.1", "::ffff:127.0.0.1"}

        damaged, fine = ask(judge, {"runs": [str(bad), str(good)]}, 2)
        assert damaged["error"].startswith(f"{table}, row group 0: cannot be read")
        assert not (bad / "verdict.json").exists()
        assert not (bad / "anomalies").exists()
        assert {name: fine[name] for name in ("path", "run", "verdict", "status", "reason")} == {
            "path": str(good), "run": "good", "verdict": "valid", "status": "judged", "reason": None,
        }  # fmt: skip
        assert json.loads((good / "verdict.json").read_bytes())["verdict"] == "valid"

        (nonsense,) = ask(judge, "what?", 1)
        assert nonsense["error"].startswith("not a request")
        assert judge.stdin is not None
        judge.stdin.close()
        assert judge.wait(WAIT_S) == 0
        assert judge.stdout.read() == ""


@pytest.mark.spark
@pytest.mark.timeout(WAIT_S + 60)
def test_who_asks_before_it_is_warm_is_answered(place: dict[str, Any], tmp_path: Path) -> None:
    runs = [clean(name).save(tmp_path / name) for name in ("first", "second")]
    soon = [*COMMAND, "--expect-in", "0"]
    with subprocess.Popen(soon, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **place) as judge:
        ready, first = ask(judge, {"runs": [str(runs[0])]}, 2)
        assert (ready["ready"], first["verdict"]) == (True, "valid")
        (second,) = ask(judge, {"runs": [str(runs[1])]}, 1)
        assert second["verdict"] == "valid"
        assert judge.stdin is not None
        judge.stdin.close()
        assert judge.wait(WAIT_S) == 0


_PARENT = "import subprocess, sys; judge = subprocess.Popen(sys.argv[1:]); print(judge.pid, flush=True); judge.wait()"


@pytest.mark.spark
@pytest.mark.timeout(WAIT_S + 60)
def test_it_ends_with_its_parent_although_its_input_stays_open(place: dict[str, Any]) -> None:
    command = [sys.executable, "-c", _PARENT, *COMMAND]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **place) as parent:
        assert parent.stdout is not None
        judge = psutil.Process(int(parent.stdout.readline()))
        assert json.loads(parent.stdout.readline())["ready"] is True
        family = [judge, *judge.children(recursive=True)]
        assert any("java" in process.name() for process in family)
        parent.send_signal(signal.SIGKILL)
        _, alive = psutil.wait_procs(family, timeout=WAIT_S)
        assert alive == []


@pytest.mark.spark
def test_what_a_killed_session_left_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.checker import session

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / "krash-spark-left"
    left.mkdir()
    (left / "blockmgr").write_text("")
    other = tmp_path / "krash-spark-live"
    other.mkdir()
    holder = os.open(other, os.O_RDONLY)
    import fcntl

    fcntl.flock(holder, fcntl.LOCK_SH)
    try:
        session._remove_leftovers()
        assert [path.name for path in tmp_path.iterdir()] == ["krash-spark-live"]
    finally:
        os.close(holder)


def _listening(pid: int) -> set[str]:
    top = psutil.Process(pid)
    found: set[str] = set()
    for process in (top, *top.children(recursive=True)):
        try:
            connections = process.net_connections(kind="inet")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE  # which has none
            continue
        found |= {one.laddr.ip for one in connections if one.status == psutil.CONN_LISTEN}
    return found
