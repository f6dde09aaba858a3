"""Races about lost disks and controllers: what they state beforehand, and conditions on what controllers say."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from nemesis.races.cells import cells, samples, stated
from nemesis.races.conditions import Condition, Sighting, active_controller, answers, behind, resigned
from nemesis.races.controller_disk import controller_disk
from nemesis.races.epoch_inflation import epoch_inflation
from nemesis.races.expectation import expected
from nemesis.races.last_replica_standing import last_replica_standing
from nemesis.races.race import Given, Race
from nemesis.races.stage import Stage
from nemesis.races.two_controllers import two_controllers
from nodes.topology import QuorumKind, Topology
from nodes.view import ClusterView
from tests.nemesis.races.fakes import perform

RACES = (last_replica_standing, two_controllers, controller_disk, epoch_inflation)


@pytest.mark.parametrize(
    ("race", "version", "metadata", "settings", "outcome"),
    [
        (last_replica_standing, "3.4.1", None, {}, "lost-write"),
        (last_replica_standing, "3.4.1", None, {"variant": "nothing-wiped"}, "valid"),
        (last_replica_standing, "3.9.2", None, {"variant": "peers-stopped"}, "lost-write"),
        (last_replica_standing, "4.3.1", None, {}, "valid"),
        (last_replica_standing, "4.3.1", None, {"variant": "peers-stopped"}, "valid"),
        (last_replica_standing, "4.3.1", None, {"variant": "peers-killed"}, "lost-write"),
        (last_replica_standing, "4.3.1", None, {"elr": "off"}, "lost-write"),
        (last_replica_standing, "4.3.1", "3.9", {}, "lost-write"),
        (two_controllers, "3.6.2", None, {}, "two-active-controllers"),
        (two_controllers, "3.9.2", None, {"variant": "only-controllers"}, "valid"),
        (controller_disk, "3.4.1", None, {}, "lost-write"),
        (controller_disk, "4.3.1", None, {}, "lost-write"),
        (controller_disk, "4.3.1", None, {"variant": "dynamic-same-id"}, "lost-write"),
        (controller_disk, "4.3.1", None, {"variant": "dynamic-new-id"}, "valid"),
        (controller_disk, "3.9.2", None, {"variant": "nothing-wiped"}, "valid"),
        (controller_disk, "3.9.2", None, {"variant": "leader-wiped"}, "lost-write"),
        (controller_disk, "4.3.1", None, {"variant": "leader-wiped"}, "valid"),
        (epoch_inflation, "3.9.2", None, {}, "epoch-inflation"),
        (epoch_inflation, "4.3.1", "3.9", {"variant": "cut-from-leader"}, "valid"),
    ],
)
def test_a_race_states_beforehand_what_it_will_show(
    race: Race, version: str, metadata: str | None, settings: dict[str, Any], outcome: str
) -> None:
    parameters = race.settle(settings).model_dump()
    line = expected(race.expects, version=version, metadata_version=metadata, parameters=parameters)
    assert line is not None
    assert line.outcome == outcome


def test_a_dynamic_quorum_is_shown_only_where_there_is_one() -> None:
    shown = {(cell.system, cell.settings.get("variant", "static")) for cell in cells(controller_disk)}
    assert {system for system, variant in shown if variant.startswith("dynamic")} == {"kafka:3.9.2", "kafka:4.3.1"}
    assert ("kafka:3.4.1", "static") in shown


def test_every_race_has_a_sample_where_it_comes_and_one_where_it_does_not() -> None:
    for race in RACES:
        outcomes = [line.outcome for cell in samples(race) if (line := stated(race, cell)) is not None]
        assert len(outcomes) == 2, race.name
        assert outcomes[0] != "valid"
        assert outcomes[1] == "valid"


def topology_of(race: Race, **settings: Any) -> Topology:
    parameters = race.settle(settings)
    return race.cluster(Given(system="kafka", version="4.3.1", metadata_version=None, parameters=parameters))


def test_eligible_leader_replicas_are_as_the_release_has_them_unless_asked_otherwise() -> None:
    features = [topology_of(last_replica_standing, elr=elr).features for elr in ("default", "on", "off")]
    assert features == [{}, {"eligible.leader.replicas.version": 1}, {"eligible.leader.replicas.version": 0}]


def test_only_the_dynamic_variants_have_a_dynamic_quorum() -> None:
    dynamic = [
        variant
        for variant in controller_disk.variants
        if topology_of(controller_disk, variant=variant).quorum is QuorumKind.DYNAMIC
    ]
    assert dynamic == ["dynamic-same-id", "dynamic-new-id"]


@pytest.mark.parametrize("race", RACES, ids=lambda race: race.name)
def test_none_of_these_needs_the_gate(race: Race) -> None:
    assert not any(race.gate(race.settle({"variant": variant})) for variant in race.variants)


def look(condition: Condition, **view: Any) -> Sighting:
    class Eyes:
        cluster: Any = None

        async def view(self) -> ClusterView:
            empty: dict[str, Any] = {"at_ns": 0, "answered": frozenset(), "brokers": frozenset(), "partitions": {}}
            return ClusterView(**(empty | {"controller": None} | view))

    return asyncio.run(condition.look(Eyes()))  # type: ignore[arg-type]  # the part that these conditions use


def test_a_controller_resigned_when_it_does_not_say_that_it_is_active() -> None:
    two = {"claims": {"c1": 3, "c2": 4}, "controller": "c2"}
    stale = look(resigned("c1"), **two)
    assert (stale.met, stale.seen) == (False, "active by their own word: c1 (epoch 3), c2 (epoch 4)")
    assert look(resigned("c3"), **two).met
    assert look(resigned("c1")).seen == "active by their own word: nobody"


def test_the_active_controller_is_one_of_some() -> None:
    assert look(active_controller().is_one_of("c2", "c3"), controller="c2").met
    seen = look(active_controller().is_one_of("c1", "c3"), controller="c2")
    assert (seen.met, seen.seen) == (False, "the active controller is c2")
    assert active_controller().is_one_of("c2", "c3").text == "the active controller is c2 or c3"


def test_nobody_is_none_of_the_controllers() -> None:
    assert not look(active_controller().is_one_of("c2", "c3")).met


def test_a_node_is_behind_by_what_the_active_controller_knows() -> None:
    places = {"controller": "c1", "places": {"c1": 40, "c3": 38}}
    assert look(behind("c3") >= 2, **places).met
    assert not look(behind("c3") >= 3, **places).met
    unknown = look(behind("c2") >= 0, **places)
    assert (unknown.met, unknown.seen) == (False, "what c2 misses of the metadata log is unknown")
    assert not look(behind("c3") >= 0, places=places["places"]).met, "without an active controller nobody can say"


def test_the_active_controller_comes_first() -> None:
    found: list[tuple[str, ...]] = []

    async def script(on: Stage) -> None:
        found.append(await on.controllers())
        await on.kill("c1")
        await on.controllers(within=2)

    told = perform(script)
    assert found == [("c1",)]
    assert str(told.raised).startswith("not reached: an active controller (within 2 s); instead: the active controller")
    assert [step.verb for step in told.steps.values()][:3] == ["look", "kill", "look"]


def test_a_node_answers_or_does_not() -> None:
    async def script(on: Stage) -> None:
        await on.until(answers("c1"))
        await on.kill("c1")
        await on.until(answers("c1"), within=2)

    assert str(perform(script).raised) == "not reached: c1 answers (within 2 s); instead: c1 does not answer"
