"""A protection that is switched off is noticed on real processes: the way of `krash protections catch --real`, once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from harness.real.catch import RunRunner, Wanted
from harness.real.counterparts import COUNTERPARTS
from nodes.reference.protections import Protection
from reports.protections import RealTry

pytestmark = [pytest.mark.reference, pytest.mark.timeout(600)]


# one that needs nothing but the network, one a controller that loses power, one a second process of a broker's id
TRIED = {
    Protection.BROKER_SELF_FENCING: "lost-write",
    Protection.FSYNC_ON_APPEND: "lost-write",
    Protection.ID_CONFLICT_RESOLVED: "unavailable",
}


async def tried(wanted: Sequence[Wanted], runs: Path) -> Sequence[RealTry]:
    runner = RunRunner(Console(quiet=True), runs)
    try:
        return await runner.run(wanted)
    finally:
        await runner.close()


def test_what_a_protection_prevents_comes_without_it(tmp_path: Path) -> None:
    wanted = [Wanted(counterpart=one, off=True) for one in COUNTERPARTS if one.protection in TRIED]
    found = asyncio.run(tried(wanted, tmp_path))
    for one, told in zip(wanted, found, strict=True):
        assert (told.status, told.verdict) == ("judged", "invalid"), told
        assert told.anomalies[TRIED[one.counterpart.protection]] > 0
    assert found[0].first_s is not None
    assert [path.name for path in tmp_path.iterdir()] == ["judge.log"]  # what came as stated is not kept
