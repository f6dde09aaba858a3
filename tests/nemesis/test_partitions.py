"""Shapes as pure functions, and cuts by their effect; each proof fails when the thing it proves is left out."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemesis.fault import Refused, Unproved
from nemesis.partitions import Pairs, Shape, between, bridge, halves, isolate, one_way, split
from nodes.network import Action, Cut
from tests.nemesis.fake import FakeCluster, topology
from tests.nemesis.order import make
from tests.nemesis.virtual_time import run

names = st.lists(st.sampled_from([f"n{i}" for i in range(9)]), min_size=3, max_size=9, unique=True)


def components(nodes: list[str], stopped: Pairs) -> list[set[str]]:
    """Groups of nodes that hear each other both ways, directly or by way of others."""
    left, found = set(nodes), []
    while left:
        group, edge = set(), {min(left)}
        while edge:
            group |= edge
            edge = {b for a in edge for b in left - group if (a, b) not in stopped and (b, a) not in stopped}
        found.append(group)
        left -= group
    return found


@given(names, st.integers(0, 2**32))
def test_halves_are_two_groups_of_nearly_equal_size(nodes: list[str], seed: int) -> None:
    first, second = components(nodes, halves(nodes, random.Random(seed)))
    assert abs(len(first) - len(second)) <= 1


@given(names, st.data())
def test_majority_and_minority_are_exactly_two_groups(nodes: list[str], data: st.DataObject) -> None:
    size = (len(nodes) - 1) // 2
    minority = data.draw(st.permutations(nodes))[:size]
    groups = components(nodes, split(minority, nodes))
    assert sorted(groups, key=len) == sorted([set(minority), set(nodes) - set(minority)], key=len)


@given(names, st.integers(0, 2**32))
def test_both_halves_hear_the_bridge_and_only_that(nodes: list[str], seed: int) -> None:
    middle = nodes[0]
    stopped = bridge(middle, nodes, random.Random(seed))
    assert not any(middle in pair for pair in stopped)
    rest = nodes[1:]
    first, second = components(rest, stopped)
    assert stopped == between(first, second)
    assert len(components(nodes, stopped)) == 1


@given(names)
def test_an_isolated_node_is_alone_and_the_rest_is_whole(nodes: list[str]) -> None:
    groups = components(nodes, isolate(nodes[:1], nodes))
    assert sorted(map(len, groups)) == [1, len(nodes) - 1]


@given(names, st.sampled_from(["in", "out"]))
def test_one_way_stops_no_pair_both_ways(nodes: list[str], direction: str) -> None:
    stopped = one_way(nodes[:1], nodes, direction)
    assert len(stopped) == len(nodes) - 1
    assert not any((d, s) in stopped for s, d in stopped)
    assert all((s if direction == "out" else d) == nodes[0] for s, d in stopped)


@pytest.mark.parametrize("shape", list(Shape))
@pytest.mark.parametrize("action", list(Action))
def test_each_shape_is_cut_proved_healed_and_proved_healed(shape: Shape, action: Action) -> None:
    async def scenario() -> None:
        on = FakeCluster(topology())
        targets = {"halves": "all", "majority-minority": "minority", "controllers-from-brokers": "all brokers"}
        fault = make("partition", targets.get(shape, "b2"), on, shape=shape, action=action)
        await fault.prepare(on)
        assert fault.undo() == [{"do": "heal-cuts", "ids": ["fault-1"]}]
        proof = await fault.inject(on)
        assert on.network.cuts
        assert on.network.actions == {action}
        assert proof.counts
        assert min(proof.counts.values()) > 0
        await fault.heal(on)
        assert not on.network.cuts

    run(scenario())


def test_controllers_are_cut_from_brokers_and_not_among_themselves() -> None:
    async def scenario() -> None:
        on = FakeCluster(topology())
        fault = make("partition", "all brokers", on, shape="controllers-from-brokers")
        await fault.prepare(on)
        await fault.inject(on)
        assert not await on.network.reaches("c1", "b1")
        assert await on.network.reaches("c1", "c2")
        assert await on.network.reaches("b1", "b2")

    run(scenario())


def test_clients_are_cut_off_only_when_asked() -> None:
    async def scenario(**settings: object) -> bool:
        on = FakeCluster(topology())
        fault = make("partition", "b1", on, shape="isolate", **settings)
        await fault.prepare(on)
        await fault.inject(on)
        return await on.network.reaches("w1", "b1")

    assert run(scenario())
    assert not run(scenario(clients=True))


def test_a_client_can_be_isolated() -> None:
    async def scenario() -> None:
        on = FakeCluster(topology())
        fault = make("partition", "all clients", on, shape="isolate")
        await fault.prepare(on)
        await fault.inject(on)
        assert not await on.network.reaches("w1", "b1")
        assert await on.network.reaches("b1", "b2")

    run(scenario())


async def nothing(*args: object) -> None:
    return None


@pytest.mark.parametrize("shape", list(Shape))
def test_without_its_rules_a_partition_is_not_proved(shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        on = FakeCluster(topology())
        fault = make("partition", "all brokers" if shape == "controllers-from-brokers" else "b1", on, shape=shape)
        if shape == "halves":
            fault = make("partition", "all", on, shape=shape)
        await fault.prepare(on)
        monkeypatch.setattr(on.network, "cut", nothing)
        with pytest.raises(Unproved, match="a probe still gets from"):
            await fault.inject(on)

    run(scenario())


def test_a_rule_that_never_stopped_anything_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(source: str, destination: str) -> bool:
        return False  # as on a machine whose probe is broken

    async def scenario() -> None:
        on = FakeCluster(topology())
        fault = make("partition", "b1", on, shape="isolate")
        await fault.prepare(on)
        monkeypatch.setattr(on.network, "reaches", lost)
        with pytest.raises(Unproved, match="no rule stopped a packet"):
            await fault.inject(on)

    run(scenario())


def test_a_one_way_cut_that_stops_both_ways_is_not_proved() -> None:
    async def scenario() -> None:
        on = FakeCluster(topology())
        fault = make("partition", "b1", on, shape="one-way", direction="out")
        await fault.prepare(on)
        real = on.network.reaches

        async def deaf(source: str, destination: str) -> bool:
            return destination != "b1" and await real(source, destination)

        on.network.reaches = deaf  # type: ignore[method-assign]
        with pytest.raises(Unproved, match="should get from"):
            await fault.inject(on)

    run(scenario())


def test_a_partition_that_stays_is_not_proved_healed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        on = FakeCluster(topology())
        fault = make("partition", "b1", on, shape="isolate")
        await fault.prepare(on)
        await fault.inject(on)
        monkeypatch.setattr(on.network, "heal", nothing)
        with pytest.raises(Unproved, match="rules of fault-1 are still there"):
            await fault.heal(on)

    run(scenario())


def test_a_path_without_rules_that_lets_nothing_through_is_not_proved_healed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(source: str, destination: str) -> bool:
        return (source, destination) != ("b2", "b1")

    async def scenario() -> None:
        on = FakeCluster(topology())
        fault = make("partition", "b1", on, shape="isolate")
        await fault.prepare(on)
        await fault.inject(on)
        monkeypatch.setattr(on.network, "reaches", lost)
        with pytest.raises(Unproved, match="no probe gets from b2 to b1"):
            await fault.heal(on)

    run(scenario())


def test_a_path_that_another_fault_still_stops_does_not_keep_this_one_from_being_healed() -> None:
    async def scenario() -> None:
        on = FakeCluster(topology())
        fault = make("partition", "b1", on, shape="isolate")
        await fault.prepare(on)
        await fault.inject(on)
        await on.network.cut([Cut(id="other", at="b1", sources=("b2",))])
        await fault.heal(on)
        assert [cut.id for cut in on.network.cuts] == ["other"]

    run(scenario())


def test_what_cannot_be_cut_is_refused() -> None:
    async def scenario() -> None:
        combined = FakeCluster(topology(combined=True))
        with pytest.raises(Refused, match="controller and broker at once"):
            await make("partition", "all brokers", combined, shape="controllers-from-brokers").prepare(combined)
        on = FakeCluster(topology())
        with pytest.raises(Refused, match="takes one target"):
            await make("partition", "all", on, shape="bridge").prepare(on)
        on.capabilities = frozenset()
        with pytest.raises(Refused, match="cannot cut links"):
            await make("partition", "b1", on, shape="isolate").prepare(on)

    run(scenario())
