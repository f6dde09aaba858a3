from __future__ import annotations

from pathlib import Path

import pytest

from nodes.reference.protections import ALL_ON, Protection, Protections

ROOT = Path(__file__).parents[3] / "nodes" / "reference"


@pytest.mark.parametrize("protection", Protection, ids=lambda protection: protection.value)
def test_the_code_asks_at_exactly_one_place(protection: Protection) -> None:
    asked = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sorted(ROOT.rglob("*.py"))
        if "simulation" not in path.parts and path.name != "protections.py"
        for line in path.read_text().splitlines()
        if f"on(Protection.{protection.name})" in line
    ]
    assert len(asked) == 1, asked


def test_all_are_on_unless_switched_off() -> None:
    off = Protections([Protection.VOTE_PERSISTED])
    assert all(ALL_ON.on(protection) for protection in Protection)
    assert [protection for protection in Protection if not off.on(protection)] == [Protection.VOTE_PERSISTED]


@pytest.mark.parametrize("protection", Protection, ids=lambda protection: protection.value)
def test_each_says_where_it_comes_from_and_what_it_is_for(protection: Protection) -> None:
    assert Protection(protection.value) is protection
    assert protection.source
    assert protection.without
    assert protection.value == protection.name.lower().replace("_", "-")
