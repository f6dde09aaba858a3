"""What `krash run` shows of fetching a system: nothing, where there is nothing to fetch."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, cast

import pytest
from rich.console import Console

from harness.run import fetch
from harness.terminal import PhaseDisplay


class Half:
    """Has version 1 already."""

    def fetch(self, version: str, *, progress: Callable[[str], None]) -> None:
        if version != "1":
            progress(f"fetching {version}")


@pytest.mark.parametrize(("versions", "shown"), [(["1"], []), (["1", "2"], ["fetching 2"])])
def test_only_what_is_fetched_is_shown(versions: list[str], shown: list[str]) -> None:
    printed = io.StringIO()
    fetch(cast(Any, Half()), versions, PhaseDisplay(Console(file=printed)))
    lines = printed.getvalue().splitlines()
    assert len(lines) == len(shown)
    assert all(text in line for text, line in zip(shown, lines, strict=True))
