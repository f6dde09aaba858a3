"""Triggers on a cluster in memory, in virtual time: each holds when what it names happened, and not before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from pydantic import ValidationError

from harness.spec import Spec
from harness.wiring import refusal, wants_clients, wants_gate
from nemesis.schedule import ImpossiblePlan, make_plan
from nemesis.settings import NemesisSettings
from nemesis.triggers import Scene, wait_for
from nemesis.when import When
from nodes.backend import Capability
from nodes.metadata import BrokerState, MetadataView, PartitionState
from nodes.node import Mark, Tail
from tests.nemesis.fake import FakeCluster, FakeNode, topology
from tests.nemesis.races.fakes import FakeGate, frame
from tests.nemesis.virtual_time import run

Happening = Callable[[FakeCluster], Awaitable[None]]


def after(seconds: float, when: dict[str, Any], happens: Happening, **scene: Any) -> float:
    """Let something happen after so many (virtual) seconds; when the trigger held, in seconds from its beginning."""

    async def body() -> float:
        on = FakeCluster(topology(3, 1), gate=FakeGate())
        clock = asyncio.get_running_loop().time
        began = clock()

        async def later() -> None:
            await asyncio.sleep(seconds)
            await happens(on)

        happening = asyncio.create_task(later())
        async with asyncio.timeout(1000):
            await wait_for(When.model_validate(when).plain(), Scene(on=on, **scene))
        held = clock() - began
        happening.cancel()
        assert all(not armed.armed for armed in on.gate.rules)  # type: ignore[union-attr]
        return held

    return run(body())


async def nothing(on: FakeCluster) -> None:
    pass


async def tells(on: FakeCluster, view: MetadataView) -> None:
    async with on.news:
        on.log_tells = view
        on.news.notify_all()


def state(*, isr: tuple[int, ...], leader: int = 1, epoch: int = 0) -> MetadataView:
    one = PartitionState(
        topic="log",
        partition=0,
        leader=leader,
        leader_epoch=epoch,
        partition_epoch=9,
        isr=isr,
        replicas=(1, 2, 3),
        elr=(),
        last_known_elr=(),
        offset=5,
    )
    two = BrokerState(id=2, epoch=7, fenced=2 not in isr, incarnation=None, registered=3, offset=5)
    return MetadataView(offset=5, epoch=1, partitions={("log", 0): one}, brokers={2: two})


@pytest.mark.parametrize(
    "when",
    [
        {"isr_of": "log-0", "is": ["b1"]},
        {"isr_of": "log-0", "is": 1},
        {"fenced": "b2"},
        {"leader_changed": "log-0"},
    ],
)
def test_the_metadata_log_is_believed_at_once(when: dict[str, Any]) -> None:
    async def body() -> None:
        on = FakeCluster(topology(3, 1))
        await tells(on, state(isr=(1, 2, 3)))
        waiting = asyncio.create_task(wait_for(when, Scene(on=on)))
        await asyncio.sleep(5)
        assert not waiting.done()
        await tells(on, state(isr=(1,), epoch=1))
        await asyncio.wait_for(waiting, 0.01)

    run(body())


def test_an_isr_contains() -> None:
    async def body() -> None:
        on = FakeCluster(topology(3, 1))
        await on.kill("b2")
        while 2 in (await on.view()).partitions["log", 0].isr:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        waiting = asyncio.create_task(wait_for({"isr_of": "log-0", "contains": "b2"}, Scene(on=on)))
        await asyncio.sleep(30)
        assert not waiting.done()
        await on.start("b2")
        await asyncio.wait_for(waiting, 30)

    run(body())


def test_messages_are_counted_by_a_rule_that_only_watches_and_goes_with_the_trigger() -> None:
    async def catch(on: FakeCluster) -> None:
        gate = on.gate
        assert isinstance(gate, FakeGate)
        assert len(gate.rules) == 1
        match = gate.rules[0].rule.match
        assert (match.source, match.api, match.where) == ("b1", "AlterPartition", "newIsr contains 2")
        gate.rules[0].catch(frame(1))

    when = {"message": {"source": "b1", "api": "AlterPartition", "where": "newIsr contains 2"}}
    assert after(7, when, catch) == pytest.approx(7, abs=0.01)
    with pytest.raises(RuntimeError, match="no wire gate"):
        run(wait_for({"message": {"api": "Fetch"}}, Scene(on=FakeCluster(topology(3, 1)))))


class LoggingNode(FakeNode):
    """Its log has a line already, and gets another one when told."""

    def __init__(self) -> None:
        super().__init__("b1")
        self.told = asyncio.Event()

    async def tail(self, path: str, since: Mark = Mark(), *, limit: int = 1 << 20) -> Tail:  # noqa: B008
        there = b"ISR was expanded\nother\n"[since.position :]
        return Tail(mark=Mark(identity=1, position=since.position + len(there)), start=since.position, content=there)

    async def lines(self, path: str) -> AsyncIterator[str]:  # type: ignore[override]  # a generator
        assert path == "log/server.log"
        for line in ("ISR was expanded", "other"):
            yield line
        await self.told.wait()
        yield "the ISR was expanded again"


def test_only_a_new_line_of_a_log_counts() -> None:
    async def body() -> None:
        on = FakeCluster(topology(3, 1))
        on.nodes["b1"] = node = LoggingNode()
        waiting = asyncio.create_task(wait_for({"log": {"node": "b1", "matches": "ISR .* exp"}}, Scene(on=on)))
        await asyncio.sleep(10)
        assert not waiting.done()
        node.told.set()
        await asyncio.wait_for(waiting, 1)

    run(body())


def test_a_high_watermark_and_counts_and_time() -> None:
    async def produce(on: FakeCluster) -> None:
        on.end_offset = 501

    assert after(3, {"high_watermark": {"of": "log-0", "passes": 500}}, produce) == pytest.approx(3, abs=0.3)
    counts = {"attempted": 90}

    async def attempt(on: FakeCluster) -> None:
        counts["attempted"] = 100

    held = after(4, {"attempted": 10}, attempt, counted=lambda name: counts.get(name, 0))
    assert held == pytest.approx(4, abs=0.3)
    assert after(0, {"elapsed": "1m"}, nothing) == pytest.approx(60, abs=0.01)


def test_triggers_combine() -> None:
    short, long = {"elapsed": "2s"}, {"elapsed": "5s"}
    for when, seconds in (
        ({"all": [short, long]}, 5),
        ({"any": [short, long]}, 2),
        ({"then": [short, long]}, 7),
        ({"then": [{"any": [long, {"all": [short, short]}]}, long], "elapsed": "1s"}, 8),
    ):
        assert after(0, when, nothing) == pytest.approx(seconds, abs=0.01)


def test_what_did_not_come_first_is_not_waited_for_any_longer() -> None:
    """`after` shows that the rule of the message that never came is disarmed."""
    when = {"any": [{"message": {"api": "Fetch"}}, {"fenced": "b1"}, {"elapsed": "2s"}]}
    assert after(0, when, nothing) == pytest.approx(2, abs=0.01)


def test_what_brokers_have_not_learned_yet_does_not_count() -> None:
    """Here they never learn: what the log told must not seem to happen again, or to be undone."""

    async def body() -> None:
        on = FakeCluster(topology(3, 1))
        await tells(on, state(isr=(1, 2, 3)))
        for first, again in (
            ({"leader_changed": "log-0"}, {"leader_changed": "log-0"}),
            ({"isr_of": "log-0", "is": 1}, {"isr_of": "log-0", "is": 3}),
            ({"fenced": "b2"}, {"unfenced": "b2"}),
        ):
            on.log_tells = state(isr=(1, 2, 3), epoch=4)
            waiting = asyncio.create_task(wait_for({"then": [first, again]}, Scene(on=on)))
            await asyncio.sleep(1)
            await tells(on, state(isr=(1,), epoch=5))
            await asyncio.sleep(30)
            assert not waiting.done()
            await tells(on, state(isr=(1, 2, 3), epoch=6))
            await asyncio.wait_for(waiting, 1)

    run(body())


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ({"message": {"api": "AlterPart"}}, "no api 'AlterPart'; did you mean AlterPartition"),
        ({"message": {"where": "newIsr has"}}, "newIsr"),
        ({"message": {"nth": 0}}, "greater than or equal to 1"),
        ({"log": {"node": "b1", "matches": "("}}, "no regular expression"),
        ({"isr_of": "log-0", "is": 1, "contains": "b1"}, "belong together"),
        ({"contains": "b1"}, "belong together"),
        ({"any": []}, "at least 1"),
        ({"any": [{"then": [{"fenced": "b1"}, {}]}]}, "names nothing to wait for"),
        ({"high_watermark": {"of": "log", "passes": 1}}, "TOPIC-NUMBER"),
    ],
)
def test_what_is_wrong_is_told(when: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        When.model_validate(when)


def plan(when: dict[str, Any]) -> Any:
    steps = [{"fault": "kill", "at": 1, "as": "first"}, {"fault": "kill", "when": when}]
    settings = NemesisSettings.model_validate({"script": steps})
    import random

    return make_plan(settings, topology(3, 1), lambda actor, index: random.Random(index), 60)[1]


def test_names_inside_combinations_are_checked_and_steps_are_numbers_in_a_plan() -> None:
    planned = plan({"any": [{"then": [{"after": "first"}, {"fenced": "b2"}]}, {"elapsed": "2s"}]})
    assert planned.when == {"any": [{"then": [{"after": 0}, {"fenced": "b2"}]}, {"elapsed": "2s"}]}
    for when, said in (
        ({"any": [{"fenced": "b9"}]}, "'b9' is no broker here"),
        ({"any": [{"log": {"node": "w1", "matches": "x"}}]}, "'w1' is no server here"),
        ({"then": [{"message": {"source": "x*"}}]}, r"source 'x\*' is nobody here"),
        ({"then": [{"message": {"destination": "w1"}}]}, "destination 'w1' is nobody here"),
        ({"high_watermark": {"of": "log-7", "passes": 1}}, "partitions 0 to 1"),
        ({"isr_of": "log-0", "contains": "c1"}, "'c1' is no broker here"),
    ):
        with pytest.raises(ImpossiblePlan, match=said):
            plan(when)
    with pytest.raises(ValidationError, match="step 1 waits for step 'second'"):
        plan({"all": [{"after": "second"}]})


def test_a_trigger_on_messages_brings_the_gate_with_it() -> None:
    def spec(**message: str) -> Spec:
        step = {"fault": "kill", "at": 1, "until": {"any": [{"message": message}, {"elapsed": "5s"}]}}
        return Spec.model_validate({"nemesis": {"once": step}})

    assert wants_gate(spec(api="Fetch"))
    assert not wants_gate(Spec())
    assert wants_clients(spec(source="w1"))
    assert not wants_clients(spec(source="b1"))
    off = spec(api="Fetch").model_copy(update={"wire": "off"})
    assert (refusal(off, frozenset(Capability)) or "").startswith("wire: off, but a trigger needs the wire gate")
    assert "cannot lead connections" in (refusal(spec(api="Fetch"), frozenset()) or "")
