"""How a race is declared: parameters out of a signature, refused when they do not fit; its cluster; what it expects."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from nemesis.races.expectation import Expectation, expected
from nemesis.races.race import BadParameters, BadRace, Given, Race, cluster, race, topic
from nemesis.races.stage import Stage
from nemesis.races.stale_alter_partition import stale_alter_partition


def made(script: Any, **more: Any) -> Race:
    declared = {
        "cluster": lambda given: cluster(given, brokers=2, topics=[topic("t", [1, 2])]),
        "expects": (),
        "affected": "",
        "fixed": "",
    }
    found: Race = race("toy", **(declared | more))(script)
    return found


async def toy(on: Stage, variant: Literal["kill", "elect"] = "elect", records: int = 200, roll_to: str = "") -> None:
    """A title.

    A story
    of two lines.
    """


def test_parameters_variants_title_and_story_come_from_the_script() -> None:
    one = made(toy)
    assert (one.title, one.story) == ("A title", "A story\nof two lines.")
    assert one.variants == ("elect", "kill")
    assert one.settle({"records": "50"}).model_dump() == {"variant": "elect", "records": 50, "roll_to": ""}
    assert one.gate(one.settle({}))
    assert not one.client_links(one.settle({}))


def test_the_need_for_a_gate_may_depend_on_the_parameters() -> None:
    one = made(toy, gate=lambda parameters: parameters.variant == "kill")
    assert one.gate(one.settle({"variant": "kill"}))
    assert not one.gate(one.settle({}))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"speed": 3}, "toy has no parameter 'speed'; it has: variant, records, roll_to"),
        ({"records": "many"}, r"records: Input should be a valid integer.* \(got 'many'\)"),
        ({"variant": "explode"}, r"variant: Input should be 'kill' or 'elect' \(got 'explode'\)"),
    ],
)
def test_parameters_that_do_not_fit_are_named(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadParameters, match=complaint):
        made(toy).settle(settings)


async def _untitled(on: Stage) -> None: ...


async def _without_default(on: Stage, records: int) -> None:
    """A title."""


async def _odd_variant(on: Stage, variant: str = "a") -> None:
    """A title."""


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        (_untitled, "its first docstring line is its title"),
        (_without_default, "parameter records needs a type and a default"),
        (_odd_variant, "variant must be a Literal of names"),
    ],
)
def test_a_race_that_cannot_be_says_why(script: Any, complaint: str) -> None:
    with pytest.raises(BadRace, match=complaint):
        made(script)


def test_a_cluster_has_the_configuration_of_races_then_its_own_then_the_command_lines() -> None:
    given = Given(
        system="kafka",
        version="3.4.1",
        metadata_version="3.3-IV3",
        parameters=None,
        config={"num.io.threads": "9", "background.threads": "3"},
    )
    one = cluster(
        given,
        brokers=2,
        controllers=3,
        clients=2,
        topics=[topic("t", [2, 1], min_isr=1), topic("u", [[1], [2]], **{"cleanup.policy": "compact"})],
        config={"broker.session.timeout.ms": "9000", "num.io.threads": "1"},
    )
    assert [plan.name for plan in one.nodes] == ["c1", "c2", "c3", "b1", "b2"]
    config = one.node("b1").config
    assert config["broker.session.timeout.ms"] == "9000"
    assert config["broker.heartbeat.interval.ms"] == "300"
    assert (config["num.io.threads"], config["background.threads"]) == ("9", "3")
    assert (one.metadata_version, one.clients) == ("3.3-IV3", 2)
    first, second = one.topics
    assert (first.assignment, first.replication, first.partitions) == ({0: (2, 1)}, 2, 1)
    assert (second.assignment, second.partitions) == ({0: (1,), 1: (2,)}, 2)
    assert second.config == {"min.insync.replicas": "1", "cleanup.policy": "compact"}


TABLE = (
    Expectation(outcome="valid", where={"variant": ("control", "other-control")}),
    Expectation(outcome="unavailable", versions=">= 3.9, < 4"),
    Expectation(outcome="lost-write", metadata="<= 3.5-IV0"),
    Expectation(outcome="client-error", versions="= 4.3"),
)


@pytest.mark.parametrize(
    ("version", "metadata", "variant", "outcome"),
    [
        ("3.4.1", None, "control", "valid"),
        ("3.4.1", None, "kill", "lost-write"),
        ("3.5.0", None, "kill", None),
        ("4.3.1", "3.5-IV0", "kill", "lost-write"),
        ("4.3.1", "3.5-IV1", "kill", "client-error"),
        ("4.3.1", None, "kill", "client-error"),
        ("4.4.0", None, "kill", None),  # its own level is newer than every level that is known here
        ("4.4.0", "3.4", "kill", "lost-write"),
        ("3.9.2", "3.4", "kill", "unavailable"),
        ("3.2.3", None, "kill", "lost-write"),
    ],
)
def test_the_first_line_that_fits_says_what_is_expected(
    version: str, metadata: str | None, variant: str, outcome: str | None
) -> None:
    line = expected(TABLE, version=version, metadata_version=metadata, parameters={"variant": variant})
    assert (line.outcome if line else None) == outcome


def test_a_comparison_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="'around 3' is no comparison"):
        expected(
            (Expectation(outcome="valid", versions="around 3"),), version="3.4.1", metadata_version=None, parameters={}
        )


@pytest.mark.parametrize(
    ("version", "metadata", "variant", "outcome"),
    [
        ("3.3.2", None, "kill-leader", "lost-write"),
        ("3.4.1", None, "no-gate", "lost-write"),
        ("3.4.1", None, "nothing-held", "valid"),
        ("3.9.2", "3.4", "min-isr-2", "lost-write"),
        ("4.3.1", "3.5-IV0", "kill-leader", "lost-write"),
        ("4.3.1", "3.5-IV1", "kill-leader", "valid"),
        ("3.9.2", None, "preferred-election", "valid"),
        ("4.4.0", None, "stale-fetch", "valid"),
    ],
)
def test_kafka_14139_states_beforehand_where_the_boundary_is(
    version: str, metadata: str | None, variant: str, outcome: str
) -> None:
    line = expected(
        stale_alter_partition.expects, version=version, metadata_version=metadata, parameters={"variant": variant}
    )
    assert line is not None
    assert line.outcome == outcome


def test_every_variant_of_kafka_14139_has_a_cluster_and_says_whether_it_needs_the_gate() -> None:
    gates = {}
    for variant in stale_alter_partition.variants:
        parameters = stale_alter_partition.settle({"variant": variant})
        one = stale_alter_partition.cluster(
            Given(system="kafka", version="3.4.1", metadata_version=None, parameters=parameters)
        )
        assert len(one.brokers) == (3 if variant == "min-isr-2" else 2)
        gates[variant] = stale_alter_partition.gate(parameters)
    assert [variant for variant, needed in gates.items() if not needed] == ["no-gate", "nothing-held"]
