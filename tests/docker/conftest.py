"""Tests here need a Docker engine. Where none answers, each test runs again in a pytest of its own with a private one (engine.py)."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from tests.docker.engine import WITH_ENGINE, answers

ROOT = Path(__file__).parents[2]
DEADLINE_S = 840


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.docker)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not answers():
        _run_with_engine(pyfuncitem.nodeid)
        return True
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        names = inspect.signature(pyfuncitem.obj).parameters
        test: Callable[..., Coroutine[None, None, None]] = pyfuncitem.obj
        asyncio.run(test(**{name: pyfuncitem.funcargs[name] for name in names}))
        return True
    return None


def _run_with_engine(test: str) -> None:
    inner = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", f"--rootdir={ROOT}", test]
    process = subprocess.Popen([*WITH_ENGINE, *inner], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        said, _ = process.communicate(timeout=DEADLINE_S)
    finally:
        process.terminate()
        process.wait()
    if process.returncode != 0:
        pytest.fail(said.decode(errors="replace"), pytrace=False)
