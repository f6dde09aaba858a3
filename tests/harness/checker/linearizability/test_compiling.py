"""Where compiled kernels are kept, and that they are the same as plain Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.checker.linearizability import compiling
from harness.checker.linearizability.compiling import cache_directory

_PLAIN = """
import warnings
warnings.simplefilter("error")
import numba
from harness.checker.linearizability import frontier, kernel
from harness.checker.linearizability.zones import zones
from tests.harness.checker.linearizability.agreement import assert_agreement
from tests.strategies import OBJECTS
assert not isinstance(kernel.advance, numba.core.dispatcher.Dispatcher)
for name in OBJECTS:
    assert_agreement(name, frontier.search, range(40))
assert_agreement("unique-cas-register", zones, range(100))
"""
_COMPILED = """
from harness.checker.linearizability import zones
import numpy as np
zones.chains(np.array([-1, 0]))
print(sum(zones.chains.stats.cache_hits.values()))
"""


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    cache_directory.cache_clear()
    yield
    cache_directory.cache_clear()


def test_without_the_compiler_the_kernels_are_plain_python_and_agree_with_the_definition() -> None:
    subprocess.run([sys.executable, "-c", _PLAIN], check=True, env=os.environ | {"NUMBA_DISABLE_JIT": "1"})


def test_a_second_process_does_not_compile(tmp_path: Path) -> None:
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    told = [
        subprocess.run([sys.executable, "-c", _COMPILED], check=True, env=environment, capture_output=True, text=True)
        for _ in range(2)
    ]
    assert [one.stdout.strip() for one in told] == ["0", "1"]
    assert list((tmp_path / "krash" / "kernels").rglob("*.nbc"))


_JUDGED = """
import random
from harness.checker.linearizability import configurations, kernel, states, zones
from harness.checker.linearizability.decide import decide
from tests.strategies import OBJECTS, encode, initial_code, random_history
models = {"unique-cas-register": "kv", "cas-register": "cas-register", "set": "set", "queue": "queue", "text": "text"}
for name, model in models.items():
    for seed in range(20):
        ops = encode(random_history(random.Random(seed), name))
        for column in ops.lists:
            column.flags.writeable = False  # as Arrow hands them out
        decide(model, ops, initial_code(name))
dispatchers = [one for module in (configurations, kernel, states, zones) for one in vars(module).values()
               if hasattr(one, "stats")]
print(sum(sum(one.stats.cache_misses.values()) for one in dispatchers if one.targetoptions.get("forceinline") is None))
"""


def test_ready_compiles_all_that_verdicts_need(tmp_path: Path) -> None:
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    ready = [sys.executable, "-m", "harness.checker.ready"]
    are_compiled = [sys.executable, "-c", "from harness.checker.ready import are_compiled; print(are_compiled())"]
    known = []
    subprocess.run(ready, check=True, env=environment | {"NUMBA_DISABLE_JIT": "1"})  # which compiles nothing
    for _ in range(2):
        known.append(subprocess.run(are_compiled, check=True, env=environment, capture_output=True, text=True).stdout)
        subprocess.run(ready, check=True, env=environment)
    assert known == ["False\n", "True\n"]
    judged = subprocess.run(
        [sys.executable, "-c", _JUDGED], check=True, env=environment, capture_output=True, text=True
    )
    assert judged.stdout.strip() == "0"


def test_a_directory_that_others_can_write_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    directory = cache_directory()
    assert directory is not None
    assert directory.parent == tmp_path / "krash" / "kernels"
    for one in (directory, directory.parent):
        assert one.stat().st_mode & 0o777 == 0o700
        one.chmod(0o777)
        cache_directory.cache_clear()
        assert cache_directory() is None
        one.chmod(0o700)


def test_a_relative_cache_home_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    directory = cache_directory()
    assert directory is not None
    assert directory.parent == tmp_path / ".cache" / "krash" / "kernels"


def test_kernels_of_other_sources_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba itself would not see that a constant in another file is a different one now."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    package = tmp_path / "package"
    shutil.copytree(Path(compiling.__file__).parent, package)
    monkeypatch.setattr(compiling, "__file__", str(package / "compiling.py"))
    before = cache_directory()
    with (package / "operations.py").open("a") as file:
        file.write("CHANGED = 1\n")
    cache_directory.cache_clear()
    assert cache_directory() != before
