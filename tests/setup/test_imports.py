"""Import directions: the contract in pyproject.toml notices an import upwards (that it holds is `tox -e lint`). The command stays light."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.setup.checkout import ROOT, copy_checkout

LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")
HEAVY = (
    "pyspark",
    "pandas",
    "numpy",
    "pyarrow",
    "matplotlib",
    "numba",
    "docker",
    "fabric",
    "paramiko",
    "confluent_kafka",
)


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("nodes/node.py", "import workloads.op", "Four floors"),
        ("workloads/op.py", "import nemesis.fault", "Four floors"),
        ("nemesis/fault.py", "import reports.verdict", "Four floors"),
        ("reports/verdict.py", "import harness.spec", "Four floors"),
        ("reports/verdict.py", "import nodes.topology", "Of the floors below"),
    ],
)
def test_an_import_upwards_breaks_the_contract(tmp_path: Path, module: str, line: str, contract: str) -> None:
    copy = copy_checkout(tmp_path)
    path = copy / module
    path.write_text(path.read_text() + f"\n{line}\n")
    command = [LINT_IMPORTS, "--no-cache", "--config", copy / "pyproject.toml"]
    done = subprocess.run(command, cwd=copy, env={"PYTHONPATH": str(copy)}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stdout
    broken = [row for row in done.stdout.splitlines() if " BROKEN" in row]
    assert any(row.startswith(contract) for row in broken), done.stdout


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys, harness.cli\n"
        "sys.argv = ['krash', '--help']\n"
        "try: harness.cli.main()\n"
        "except SystemExit as end: assert end.code == 0, end.code\n"
        f"print('imported:', *[name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "krash" in done.stdout
    assert done.stdout.splitlines()[-1] == "imported:"
