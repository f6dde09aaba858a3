"""Where a race is shown, from its own data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from nemesis.races.cells import Cell, cells, samples, stated
from nemesis.races.expectation import CLIENT_ERROR, VALID, Expectation
from nemesis.races.race import Race, cluster, race


@race(
    "toy",
    cluster=lambda given: cluster(given, brokers=1),
    affected="",
    fixed="",
    expects=(
        Expectation(outcome=VALID, where={"variant": "calm"}),
        Expectation(outcome=CLIENT_ERROR, versions="< 3.4", where={"speed": 1}),
        Expectation(outcome="lost-write", metadata="<= 3.5-IV0", where={"speed": 1}),
        Expectation(outcome=VALID, versions=">= 3.5"),
    ),
    systems=("kafka:3.3.2", "kafka:3.4.1", "kafka:4.3.1", "kafka:4.3.1@3.4"),
)
async def toy(on: Any, variant: Literal["calm", "rough"] = "rough", speed: int = 1) -> None:
    """A toy."""


def names(found: list[Cell]) -> list[str]:
    return [f"{cell.system} {dict(cell.settings)}" for cell in found]


def test_every_variant_on_every_system_a_control_on_one_and_what_is_added() -> None:
    fast = Cell(system="kafka:4.3.1", settings={"speed": 2})
    unknown = Cell(system="kafka:3.4.1", settings={"speed": 2})
    made: Race = replace(toy, also=(fast, unknown, Cell(system="other:1.0")))
    assert names(cells(made)) == [
        *(f"{system} {{}}" for system in toy.systems),
        "kafka:4.3.1@3.4 {'variant': 'calm'}",
        "kafka:4.3.1 {'speed': 2}",
    ]
    assert stated(made, unknown) is None
    assert stated(made, Cell(system="kafka:/opt/kafka")) is None


def test_the_samples_are_one_that_must_come_and_one_that_must_not() -> None:
    assert names(samples(toy)) == ["kafka:3.4.1 {}", "kafka:4.3.1 {}"]
    chosen = (Cell(system="kafka:4.3.1@3.4"), Cell(system="kafka:4.3.1"))
    assert samples(replace(toy, samples=chosen)) == list(chosen)


def test_the_control_is_the_sample_where_no_version_is_safe() -> None:
    only = replace(toy, systems=("kafka:3.4.1",))
    assert names(samples(only)) == ["kafka:3.4.1 {}", "kafka:3.4.1 {'variant': 'calm'}"]
