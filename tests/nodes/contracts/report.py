"""Run the contracts of a backend in its enclosure, once per session, and hand out each result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import cast

from nodes.backend import Backend

SUITE_SECONDS = 600.0
REPOSITORY = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, kw_only=True)
class Result:
    name: str
    problem: str
    seconds: float


def results_of(
    factory: str, folder: Path, names: Sequence[str] = (), *, through: Sequence[str] = ()
) -> dict[str, Result]:
    """Results by contract name (all contracts unless named). AssertionError when the suite itself broke down.

    `through` is put before the command, to bring about what the backend needs.
    """
    module, _, made = factory.partition(":")
    backend = cast(type[Backend], getattr(import_module(module), made))
    argv = [sys.executable, "-m", "tests.nodes.contracts.run", factory, str(folder), *names]
    done = subprocess.run(
        [*through, *backend.enclose(argv)],
        cwd=REPOSITORY,
        env={**os.environ, "KRASH_SECRET": "not for nodes"},
        capture_output=True,
        text=True,
        timeout=SUITE_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), f"code {done.returncode}\n{done.stdout}\n{done.stderr}"
    rows = (folder / "results.jsonl").read_text().splitlines()
    return {result.name: result for result in (Result(**json.loads(row)) for row in rows)}
