"""Wire faults by the rules that they arm; each proof fails when the thing it proves is left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest
from pydantic import ValidationError

from nemesis.fault import Refused, Unproved
from nemesis.kinds import find
from nemesis.wire.gate import Counts
from nemesis.wire.message import Direction, Message
from nemesis.wire.rule import BadRule, Close, Delay, Drop, Duplicate, Rule, Watch
from nemesis.wire.rulebook import Names, in_force
from nodes.backend import Capability
from nodes.node import Paused
from tests.nemesis.fake import FakeCluster, topology
from tests.nemesis.order import make
from tests.nemesis.virtual_time import run

KINDS = ("slow-link", "lossy-link", "delay-rpc", "duplicate-rpc", "cut-rpc")
COUNTED = {Delay: "delayed", Close: "closed", Duplicate: "duplicated", Drop: "dropped"}


class FakeArmed:
    """Every look at its counts finds one frame more, while there is traffic."""

    def __init__(self, gate: FakeGate, rule: Rule) -> None:
        self.gate, self.rule = gate, rule
        self._counts = Counts()

    @property
    def counts(self) -> Counts:
        if self.gate.traffic(self.rule) and self in self.gate.armed:
            self._counts = replace(self._counts, matched=self._counts.matched + 1)
            if (name := COUNTED.get(type(self.rule.act))) and self.gate.acts:
                self._counts = replace(self._counts, **{name: getattr(self._counts, name) + 1})
        return self._counts

    @property
    def messages(self) -> list[Message]:
        raise NotImplementedError

    async def seen(self, count: int = 1) -> list[Message]:
        raise NotImplementedError

    async def release(
        self, which: Literal["all", "one"] = "all", order: Literal["as held", "reversed"] = "as held"
    ) -> None:
        raise NotImplementedError

    async def answered(self, nth: int = 1) -> Message:
        raise NotImplementedError

    async def disarm(self) -> None:
        self.gate.armed.remove(self)


class FakeGate:
    def __init__(self, names: Names) -> None:
        self.names = names
        self.armed: list[FakeArmed] = []
        self.all: list[Rule] = []
        self.acts = True
        self.traffic: Any = lambda rule: True

    async def arm(self, rule: Rule) -> FakeArmed:
        in_force(rule, self.names)
        self.armed.append(FakeArmed(self, rule))
        self.all.append(rule)
        return self.armed[-1]

    async def close(self) -> None:
        self.armed.clear()


def wired(*, with_clients: bool = False) -> tuple[FakeCluster, FakeGate]:
    cluster = FakeCluster(topology())
    gate = FakeGate(
        Names(servers=frozenset(cluster.nodes), clients=frozenset(cluster.clients), with_clients=with_clients)
    )
    cluster.gate = gate
    return cluster, gate


def acting(gate: FakeGate) -> list[Rule]:
    return [rule for rule in gate.all if not isinstance(rule.act, Watch)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_is_proved_and_healed_and_leaves_no_rule(kind: str) -> None:
    cluster, gate = wired()

    async def live() -> None:
        fault = make(kind, "b1", cluster)
        assert type(fault).needs == {Capability.WIRE}
        await fault.prepare(cluster)
        assert fault.targets() == ["b1"]
        assert fault.undo() == []  # the gate dies with the run
        proof = await fault.inject(cluster)
        assert proof.counts["frames"] > 0
        assert gate.armed
        healed = await fault.heal(cluster)
        assert healed.counts["passed"] > 0
        assert gate.armed == []

    run(live())


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_that_strikes_nothing_is_unproved(kind: str) -> None:
    cluster, gate = wired()
    gate.acts = False

    async def live() -> None:
        fault = make(kind, "b1", cluster)
        await fault.prepare(cluster)
        with pytest.raises(Unproved, match="no frame of b1"):
            await fault.inject(cluster)
        await fault.heal(cluster)
        assert gate.armed == []

    run(live())


def test_a_link_on_which_nothing_passes_is_not_healed_unless_its_node_does_not_run() -> None:
    cluster, gate = wired()

    async def live() -> None:
        fault = make("slow-link", "b1", cluster)
        await fault.prepare(cluster)
        await fault.inject(cluster)
        gate.traffic = lambda rule: False
        with pytest.raises(Unproved, match="passes"):
            await fault.heal(cluster)
        cluster.nodes["b1"].process = Paused()
        fault.armed = []  # type: ignore[attr-defined]  # they are disarmed already
        await fault.heal(cluster)

    run(live())


def test_a_rare_request_need_not_come() -> None:
    cluster, gate = wired()
    gate.traffic = lambda rule: False

    async def live() -> None:
        fault = make("delay-rpc", "b1", cluster, apis=["AlterPartition"])
        await fault.prepare(cluster)
        assert "0 frames" in (await fault.inject(cluster)).sentence
        await fault.heal(cluster)

    run(live())


def rules_of(kind: str, target: str = "b1", *, with_clients: bool = False, **settings: Any) -> list[Rule]:
    cluster, gate = wired(with_clients=with_clients)

    async def inject() -> None:
        fault = make(kind, target, cluster, **settings)
        await fault.prepare(cluster)
        await fault.inject(cluster)

    run(inject())
    return acting(gate)


def test_a_slow_link_is_slow_both_ways_whoever_connected() -> None:
    rules = rules_of("slow-link", delay="20ms", peer="c1")
    assert [(rule.match.source, rule.match.destination, rule.match.direction) for rule in rules] == [
        ("b1", "c1", Direction.REQUEST),
        ("b1", "c1", Direction.RESPONSE),
        ("c1", "b1", Direction.REQUEST),
        ("c1", "b1", Direction.RESPONSE),
    ]
    assert {rule.act.mean_s for rule in rules if isinstance(rule.act, Delay)} == {0.02}


def test_clients_are_hit_when_asked_for() -> None:
    assert [rule.match.source for rule in rules_of("lossy-link")] == ["b1", None]
    assert [rule.match.source for rule in rules_of("lossy-link", with_clients=True, clients=True)] == ["b1", "*"]
    assert [rule.match.source for rule in rules_of("lossy-link", "w1", with_clients=True)] == ["w1"]


def test_a_one_way_api_cut_leaves_the_rest_alone() -> None:
    (rule,) = rules_of("cut-rpc")
    assert (rule.match.source, rule.match.api, rule.act) == ("b1", "BrokerHeartbeat", Drop())


def test_what_cannot_be_is_refused() -> None:
    cluster, _ = wired()

    async def refused(kind: str, target: str, why: str) -> None:
        fault = make(kind, target, cluster)

        async def attempt() -> None:
            await fault.prepare(cluster)
            await fault.inject(cluster)

        with pytest.raises(Refused, match=why):
            await attempt()

    run(refused("lossy-link", "w1", "wire_clients"))
    cluster.gate = None
    run(refused("slow-link", "b1", "no wire gate"))
    with pytest.raises(ValidationError, match="no api AlterIsr"):
        find("cut-rpc").Settings.model_validate({"apis": ["AlterIsr"]})
    with pytest.raises(BadRule):
        in_force(Rule(id="x", act=Drop(), match=replace(Rule(id="y", act=Drop()).match, source="q")), wired()[1].names)
