"""Each protection is one switch at one place, and says what it is for."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from nodes.reference.protections import ALL_ON, Protection, Protections

ROOT = Path(__file__).parents[3] / "nodes" / "reference"


def asked() -> Counter[str]:
    """How often the code asks for each, by the name of the member."""
    found: Counter[str] = Counter()
    for path in ROOT.rglob("*.py"):
        if path.name != "protections.py":
            found.update(re.findall(r"\.on\(Protection\.([A-Z_]+)\)", path.read_text()))
    return found


def test_each_is_asked_for_at_exactly_one_place() -> None:
    assert asked() == {protection.name: 1 for protection in Protection}


@pytest.mark.parametrize("protection", Protection, ids=lambda protection: protection.value)
def test_each_has_a_name_a_source_and_what_goes_wrong(protection: Protection) -> None:
    assert protection.value == protection.name.lower().replace("_", "-")
    assert re.search(r"KIP-\d+|KAFKA-\d+|Kafka", protection.source)
    assert len(protection.without) > 30


def test_all_are_on_but_those_named() -> None:
    off = Protections(off=[Protection.MAXIMAL_ISR])
    assert [protection for protection in Protection if not off.on(protection)] == [Protection.MAXIMAL_ISR]
    assert all(ALL_ON.on(protection) for protection in Protection)
