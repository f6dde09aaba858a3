"""From a fresh clone, with real installers: slow where nothing is cached, so in an environment of its own (tox -e setup)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.setup.checkout import copy_checkout

pytestmark = [pytest.mark.setup, pytest.mark.timeout(900)]


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("KRASH_", "PYTHON"))}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=800)


def leave_out_spark(lock: Path) -> None:
    """It is most of the bytes, and commands that do not judge must not need it. That the lock has it is tests/setup/locks.py's business."""
    entries = re.split(r"\n(?=\S)", lock.read_text())
    kept = [entry for entry in entries if not entry.startswith("pyspark==")]
    assert len(kept) == len(entries) - 1
    lock.write_text("\n".join(kept))


def test_the_launcher_installs_krash_and_starts_it(tmp_path: Path) -> None:
    clone = copy_checkout(tmp_path / "clone")
    leave_out_spark(clone / "requirements.lock")
    first = run(clone / "krash", "--help", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "ready after" in first.stderr
    assert "Usage: krash" in first.stdout
    again = run(clone / "krash", "spec", "schema", cwd=tmp_path)
    assert (again.returncode, again.stderr) == (0, "")
    doctor = run(clone / "krash", "doctor", "--json", cwd=tmp_path)
    (spark,) = [
        row for section in json.loads(doctor.stdout)["sections"] for row in section["rows"] if "Spark" in row["name"]
    ]
    assert (spark["present"], doctor.returncode) == (False, 3)


def test_pip_installs_the_same_krash_without_a_checkout(tmp_path: Path) -> None:
    """Dependencies come from this environment by a .pth file; that the lock installs them is the launcher's test."""
    clone = copy_checkout(tmp_path / "clone")
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    (site,) = home.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    build = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "."]
    done = run(*build, cwd=clone)
    assert done.returncode == 0, done.stderr
    helped = run(home / "bin" / "krash", "--help", cwd=tmp_path)
    ours = run(Path(sys.executable).with_name("krash"), "--help", cwd=tmp_path)
    assert (helped.returncode, helped.stdout) == (0, ours.stdout)
    where = run(python, "-c", "import harness; print(harness.__file__)", cwd=tmp_path).stdout
    assert where.startswith(str(site))
