"""What ./run-tests asks of tox, and what it says at the end."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests import run
from tests.run import left_out, phases, read_results, side_by_side, summary, tox_command

JUNIT = """<testsuites><testsuite name="pytest">
<testcase classname="tests.a" name="test_good"/>
<testcase classname="tests.a" name="test_bad"><failure message="assert 1 == 2">...</failure></testcase>
<testcase classname="tests.a" name="test_later"><skipped type="pytest.skip" message="needs root"/></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """lint passed, unit failed, kafka never began."""
    ran = [{"retcode": 0}]
    environments = {
        "lint": {"result": {"success": True, "duration": 1.5}, "test": ran},
        "unit": {"result": {"success": False, "duration": 20.0}, "test": ran},
        "kafka": {"result": {"success": True, "skipped": True, "duration": 0.0}},
    }
    for name, told in environments.items():
        whole: dict[str, object] = {other: {} for other in environments} | {
            name: told
        }  # as tox writes it: with all that it did not run
        (tmp_path / f"tox-{name}.json").write_text(json.dumps({"testenvs": whole}))
    (tmp_path / "unit.xml").write_text(JUNIT)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["unit"], ["-e", "lint,unit"]),
        (["lint", "unit", "--", "-k", "a b"], ["-e", "lint,unit", "--", "-k", "a b"]),
        (["unit", "-v"], ["-e", "lint,unit", "-v"]),
    ],
)
def test_arguments_become_toxs(arguments: list[str], expected: list[str]) -> None:
    command = tox_command(["lint", "unit"], arguments)
    shown = command.index("--result-json")
    assert command[command.index("run") + 1 : shown] + command[shown + 2 :] == expected


def test_what_disturbs_nobody_runs_side_by_side_and_everything_runs_once() -> None:
    wanted = ["lint", "typing", "unit", "checker", "setup", "kafka", "reference", "races", "docker", "report"]
    assert phases(wanted) == [
        [["lint", "typing", "unit", "setup"], ["checker"]],
        [["kafka", "reference"]],
        [["races"]],
        [["docker"], ["report"]],
    ]
    assert phases(["races", "unit"]) == [[["unit"]], [["races"]]]
    assert phases(["slow-benchmarks"]) == [[["slow-benchmarks"]]]


def test_the_worst_lane_decides_and_each_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Stand-ins for tox: the first waits for the second, so they do run at the same time."""
    monkeypatch.setattr(run, "RESULTS", tmp_path)
    here = tmp_path / "here"
    os.mkfifo(here)
    stand_ins = {
        "unit": f"open({str(here)!r}).read(); print('one', flush=True)",
        "checker": f"open({str(here)!r}, 'w').close(); print('two', flush=True); exit(3)",
    }
    monkeypatch.setattr(run, "tox_command", lambda lane, arguments: [sys.executable, "-c", stand_ins[lane[0]]])
    assert side_by_side([["unit"], ["checker"]], []) == 3
    assert capfd.readouterr().out.split() == ["one", "two"]


def test_the_summary_counts_everything_and_gives_reasons(results: Path) -> None:
    lines = summary(read_results(results, ["lint", "unit"]), seconds=21.5)
    assert [line.split()[:2] for line in lines[:2]] == [["lint", "ok"], ["unit", "FAILED"]]
    assert "  skipped in unit: tests.a::test_later: needs root" in lines
    assert "  failed in unit: tests.a::test_bad" in lines
    assert lines[-1] == "=== 1 failed, 1 passed, 1 skipped in 21.50s ==="


def test_an_environment_that_did_not_run_is_no_success(results: Path) -> None:
    skipped, absent = read_results(results, ["kafka", "docker"])
    assert (skipped.ok, absent.ok) == (False, False)
    assert all("DID NOT RUN" in line for line in summary([skipped, absent], seconds=0)[:2])


def test_without_results_nothing_is_well(tmp_path: Path) -> None:
    (environment,) = read_results(tmp_path, ["unit"])
    assert not environment.ok
    assert summary([environment], seconds=0)[-1] == "=== no tests ran in 0.00s ==="


def test_what_needs_root_is_left_out_for_others_and_counted(results: Path) -> None:
    assert left_out(["lint", "docker"], root=True) == {}
    assert left_out(["lint"], root=False) == {}
    without = left_out(["lint", "docker"], root=False)
    lines = summary(read_results(results, ["lint"]), without, seconds=1.5)
    assert lines[1].startswith("docker           LEFT OUT")
    assert "sudo ./run-tests docker" in lines[1]
    assert lines[-1] == "=== no tests ran, 1 environment left out in 1.50s ==="
