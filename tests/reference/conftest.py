"""Runs on the default system. Its parts are tested in tests/nodes/reference, how it runs in containers in tests/docker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.judged_runs import JudgedRuns


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgedRuns]:
    """Runs that share a judge, on whatever is the default."""
    made = JudgedRuns(tmp_path_factory.mktemp("judge"), system=None)
    yield made
    made.close()
