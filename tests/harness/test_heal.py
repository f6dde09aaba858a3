"""`krash heal`: what it refuses. What it removes is told by tests/docker, where something can be left."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import CommandError
from harness.heal import heal_runs
from harness.history.rows import RowRecorder
from harness.history.rundir import JOURNAL, RunInfo, create_run
from harness.history.tables import EVENTS_TABLE


def test_a_run_that_lives_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    info = RunInfo(run="r", clock="host", seed=7, system="kafka:4.3.1", spec={"backend": "local"})
    create_run(tmp_path / "run", info)
    with (
        RowRecorder(tmp_path / "run" / JOURNAL, EVENTS_TABLE, run=info.run, clock="host", writer=0),
        pytest.raises(CommandError, match="still running"),
    ):
        heal_runs(tmp_path / "run")
    assert heal_runs(tmp_path / "run") == 0
    assert "nothing was left" in capsys.readouterr().out
