"""`krash` as a user starts it, for tests: a process of its own, its answers parsed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KRASH = (sys.executable, "-m", "harness")
DEADLINE = 420.0  # seconds for one run on a loaded machine


@dataclass(frozen=True, kw_only=True)
class Ran:
    code: int
    stdout: str
    stderr: str

    @property
    def answers(self) -> list[dict[str, Any]]:
        """What `--json` printed, one object per line."""
        return [json.loads(line) for line in self.stdout.splitlines() if line.startswith("{")]

    @property
    def answer(self) -> dict[str, Any]:
        (answer,) = self.answers
        return answer


def krash(*arguments: str | Path, cwd: Path | None = None, deadline: float = DEADLINE) -> Ran:
    """Run one command to its end; its output is shown when it fails a test."""
    done = subprocess.run(
        [*KRASH, *map(str, arguments)], capture_output=True, text=True, timeout=deadline, check=False, cwd=cwd
    )
    print(done.stdout, done.stderr, sep="\n")
    return Ran(code=done.returncode, stdout=done.stdout, stderr=done.stderr)


def start_krash(*arguments: str | Path) -> subprocess.Popen[str]:
    """Start one command, in a session of its own as a shell would."""
    argv: Sequence[str] = [*KRASH, *map(str, arguments)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
