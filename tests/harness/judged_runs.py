"""`krash run` in this process, several times with one judge: starting Spark costs more than all else that a short run computes.

What the command line adds (flags, exit codes, signals) is tested by runs of their own (tests/kafka/test_run.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.exits import exit_code
from harness.judge_process import JudgeProcess
from harness.run import BUILTIN, Flags, execute, prepare
from harness.spec_file import load_spec

EXAMPLES = Path(__file__).parents[2] / "examples"


class JudgedRuns:
    """One after the other, in one event loop; on `system`, unless a run names another."""

    def __init__(self, folder: Path, *, system: str | None) -> None:
        self._system = system
        self._runner = asyncio.Runner()
        self._judge = JudgeProcess(folder / "judge.log")
        self._console = Console(quiet=True)

    def run(self, example: str | None, *settings: str, out: Path, **flags: Any) -> dict[str, Any]:
        """What `krash run EXAMPLE --json --set SETTING... --FLAG...` would print; without an example, what it runs without a spec."""
        overrides = Flags(settings=settings, **{"system": self._system, **flags}).overrides()
        found = EXAMPLES / f"{example}.yaml" if example else None
        spec = load_spec(found, settings={**({} if found else BUILTIN), **overrides})
        prepared = prepare(spec, self._console, out=out, quiet=True, replayed=None)
        verdict, ending = self._runner.run(execute(prepared, self._console, quiet=True, judge=self._judge))
        told: Mapping[str, Any] = verdict.as_json()
        return {"run_dir": str(prepared.directory), "exit": exit_code([(verdict, ending.status)]), **told}

    def close(self) -> None:
        self._runner.run(self._judge.close())
        self._runner.close()
