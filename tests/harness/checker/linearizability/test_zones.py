"""Zones and chains of zones against brute force."""

from __future__ import annotations

import pytest

from harness.checker.linearizability.zones import zones
from tests.harness.checker.linearizability.agreement import assert_agreement


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("name", ["unique-register", "unique-cas-register"])
def test_they_agree_with_the_definition(name: str, part: int) -> None:
    assert_agreement(name, zones, range(2500 * part, 2500 * (part + 1)))
