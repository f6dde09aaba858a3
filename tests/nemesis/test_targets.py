"""Rules in words: what they resolve to, and what is said when they mean nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemesis.fault import Refused
from nemesis.targets import UnknownRule, parse, resolve, validate
from nodes.view import ClusterView, PartitionView
from tests.nemesis.fake import topology

TOPOLOGY = topology(brokers=5, controllers=3, clients=2)
PART = PartitionView(topic="log", partition=0, leader=2, leader_epoch=4, replicas=(1, 2, 3), isr=(1, 2))
VIEW = ClusterView(
    at_ns=0,
    answered=frozenset({"b1"}),
    brokers=frozenset({1, 2, 3}),
    partitions={
        ("log", 0): PART,
        ("log", 1): replace(PART, partition=1, leader=-1),
        ("__consumer_offsets", 0): replace(PART, topic="__consumer_offsets", leader=5),
    },
    controller="c2",
)


def hit(text: str, draw: int = 0, view: ClusterView = VIEW) -> tuple[str, ...]:
    rule = parse(text)
    validate(rule, TOPOLOGY)
    return resolve(rule, TOPOLOGY, view, draw)


@pytest.mark.parametrize(
    ("text", "possible"),
    [
        ("b3", {("b3",)}),
        ("w2", {("w2",)}),
        ("random broker", {(f"b{n}",) for n in range(1, 6)}),
        ("a random controller", {("c1",), ("c2",), ("c3",)}),
        ("random client", {("w1",), ("w2",)}),
        ("active controller", {("c2",)}),
        ("the leader of log-0", {("b2",)}),
        ("leader of a random partition", {("b2",)}),
        ("a follower of log-0", {("b1",), ("b3",)}),
        ("a follower in the isr of log-0", {("b1",)}),
        ("a follower out of the isr of log-0", {("b3",)}),
        ("followers of log-0", {("b1", "b3")}),
        ("leader of __consumer_offsets-0", {("b5",)}),
        ("all brokers", {("b1", "b2", "b3", "b4", "b5")}),
        ("all controllers", {("c1", "c2", "c3")}),
        ("all", {("b1", "b2", "b3", "b4", "b5", "c1", "c2", "c3")}),
    ],
)
def test_a_rule_means_these_nodes_and_no_others(text: str, possible: set[tuple[str, ...]]) -> None:
    assert {hit(text, draw) for draw in range(60)} == possible


@given(st.integers(0, 2**32))
def test_a_minority_is_less_than_half(draw: int) -> None:
    assert len(hit("minority of brokers", draw)) == 2
    assert len(hit("minority of controllers", draw)) == 1
    assert len(hit("minority", draw)) == 3


@given(
    st.sampled_from(["random broker", "minority of brokers", "a follower of a random partition"]), st.integers(0, 2**32)
)
def test_the_same_draw_hits_the_same_nodes(text: str, draw: int) -> None:
    assert hit(text, draw) == hit(text, draw)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("leader of log-1", "log-1 has no leader now"),
        ("a follower out of the isr of __consumer_offsets-0", None),
        ("leader of __transaction_state-0", "has no leader now"),
    ],
)
def test_a_rule_that_means_nobody_is_refused_with_the_reason(text: str, reason: str | None) -> None:
    if reason is None:
        assert hit(text) == ("b3",)
        return
    with pytest.raises(Refused, match=reason):
        hit(text)


def test_without_an_active_controller_nobody_is_it() -> None:
    with pytest.raises(Refused, match="no controller says"):
        hit("active controller", view=replace(VIEW, controller=None))


def test_two_nodes_have_no_minority() -> None:
    two = topology(brokers=2, controllers=1)
    with pytest.raises(Refused, match="at least three"):
        resolve(parse("minority of brokers"), two, VIEW, 0)


@pytest.mark.parametrize(
    "text", ["leader of log", "somebody", "all leaders", "random brokers", "", "the b1", "leader  of"]
)
def test_a_foreign_rule_is_answered_with_the_known_ones(text: str) -> None:
    with pytest.raises(UnknownRule, match=r"leader of TOPIC-PARTITION|there are b1|is no node here"):
        validate(parse(text), TOPOLOGY)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("b9", "'b9' is no node here; there are c1, c2, c3, b1"),
        ("leader of lag-0", "no topic 'lag'; there are log"),
        ("leader of log-7", "topic 'log' has partitions 0 to 1"),
    ],
)
def test_names_are_checked_against_the_topology(text: str, said: str) -> None:
    with pytest.raises(UnknownRule, match=said):
        validate(parse(text), TOPOLOGY)
