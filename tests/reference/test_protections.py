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


async def tried(wanted: Wanted, runs: Path) -> Sequence[RealTry]:
    runner = RunRunner(Console(quiet=True), runs)
    try:
        return await runner.run([wanted])
    finally:
        await runner.close()


def test_a_leader_without_a_lease_acknowledges_what_is_lost(tmp_path: Path) -> None:
    fencing = next(one for one in COUNTERPARTS if one.protection is Protection.BROKER_SELF_FENCING)
    wanted = Wanted(counterpart=fencing, off=True)
    (found,) = asyncio.run(tried(wanted, tmp_path))
    assert (found.status, found.verdict) == ("judged", "invalid"), found
    assert found.anomalies["lost-write"] > 0
    assert found.first_s is not None
    assert [path.name for path in tmp_path.iterdir()] == ["judge.log"]  # what came as stated is not kept
