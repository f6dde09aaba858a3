"""Kill, restart and pause by their effect; each proof fails when the thing it proves is left out."""

from __future__ import annotations

import pytest

from nemesis.fault import Refused, Unproved
from nodes.backend import Capability
from nodes.node import Gone, Paused, Running
from tests.nemesis.fake import FakeCluster, topology
from tests.nemesis.order import make
from tests.nemesis.virtual_time import run

EFFECT = {"kill": Gone(-9), "restart": Gone(143), "pause": Paused()}


@pytest.mark.parametrize("kind", list(EFFECT))
@pytest.mark.parametrize("target", ["b1", "c1", "all brokers", "minority of controllers"])
def test_a_process_is_broken_and_comes_back(kind: str, target: str) -> None:
    async def scenario() -> None:
        on = FakeCluster(topology())
        fault = make(kind, target, on)
        await fault.prepare(on)
        proof = await fault.inject(on)
        assert fault.targets()
        for name in fault.targets():
            assert await on.nodes[name].state() == EFFECT[kind]
            assert name in proof.sentence
        await fault.heal(on)
        assert all([await on.nodes[name].state() == Running() for name in on.nodes])
        assert (await on.view()).brokers == {1, 2, 3}

    run(scenario())


@pytest.mark.parametrize("kind", ["kill", "pause"])
def test_a_client_is_broken_and_comes_back_although_it_has_no_protocol(kind: str) -> None:
    async def scenario() -> None:
        on = FakeCluster(topology(clients=2))
        for client in on.clients.values():
            client.process = Running()
        fault = make(kind, "all clients", on)
        await fault.prepare(on)
        proof = await fault.inject(on)
        assert [await client.state() for client in on.clients.values()] == [EFFECT[kind]] * 2
        assert proof.sentence == f"w1, w2 are {'gone by SIGKILL' if kind == 'kill' else 'stopped by SIGSTOP'}"
        assert fault.undo() == ([] if kind == "kill" else [{"do": "resume", "node": name} for name in ("w1", "w2")])
        await fault.heal(on)
        assert [await client.state() for client in on.clients.values()] == [Running()] * 2

    run(scenario())


@pytest.mark.parametrize(("kind", "broken", "mended"), [("kill", "kill", "start"), ("pause", "pause", "resume")])
def test_nothing_is_proved_of_a_client_that_was_not_touched(
    kind: str, broken: str, mended: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(name: str) -> None:
        return None

    async def scenario() -> None:
        on = FakeCluster(topology())
        on.clients["w1"].process = Running()
        fault = make(kind, "w1", on)
        await fault.prepare(on)
        with monkeypatch.context() as without:
            without.setattr(on, broken, nothing)
            with pytest.raises(Unproved, match="w1 is running"):
                await fault.inject(on)
        await fault.inject(on)
        monkeypatch.setattr(on, mended, nothing)
        with pytest.raises(Unproved, match="w1"):
            await fault.heal(on)

    run(scenario())


@pytest.mark.parametrize(
    ("kind", "verb", "seen"),
    [("kill", "kill", "is running, not killed"), ("restart", "stop", "is running"), ("pause", "pause", "is running")],
)
def test_without_its_effect_a_process_fault_is_not_proved(
    kind: str, verb: str, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(name: str, **rest: object) -> None:
        return None

    async def scenario() -> None:
        on = FakeCluster(topology())
        fault = make(kind, "b1", on)
        await fault.prepare(on)
        monkeypatch.setattr(on, verb, nothing)
        with pytest.raises(Unproved, match=seen):
            await fault.inject(on)

    run(scenario())


@pytest.mark.parametrize("kind", list(EFFECT))
def test_a_node_that_still_answers_proves_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def always(name: str) -> bool:
        return True  # such as a TCP connection, which a paused process still gets

    async def scenario() -> None:
        on = FakeCluster(topology())
        fault = make(kind, "b1", on)
        await fault.prepare(on)
        monkeypatch.setattr(on, "answers", always)
        with pytest.raises(Unproved, match="still answers its protocol"):
            await fault.inject(on)

    run(scenario())


def test_a_process_that_died_by_itself_is_no_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        on = FakeCluster(topology())
        fault = make("kill", "b1", on)
        await fault.prepare(on)
        on.nodes["b1"].process = Gone(1)
        with pytest.raises(Unproved, match=r"b1 is gone \(exit code 1\), not killed"):
            await fault.inject(on)

    run(scenario())


@pytest.mark.parametrize(("kind", "verb"), [("kill", "start"), ("restart", "start"), ("pause", "resume")])
def test_without_its_healing_a_process_fault_is_not_proved_healed(
    kind: str, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(name: str) -> None:
        return None

    async def scenario() -> None:
        on = FakeCluster(topology())
        fault = make(kind, "b1", on)
        await fault.prepare(on)
        await fault.inject(on)
        monkeypatch.setattr(on, verb, nothing)
        with pytest.raises(Unproved, match="b1"):
            await fault.heal(on)

    run(scenario())


def test_a_broker_that_stays_fenced_is_not_healed() -> None:
    async def scenario() -> None:
        on = FakeCluster(topology())
        fault = make("kill", "b1", on)
        await fault.prepare(on)
        await fault.inject(on)
        for controller in ("c1", "c2", "c3"):
            await on.kill(controller)
        on.unfenced.discard(1)
        with pytest.raises(Unproved, match="still fenced: b1"):
            await fault.heal(on)

    run(scenario())


def test_what_cannot_be_killed_or_paused_is_refused() -> None:
    async def scenario() -> None:
        on = FakeCluster(topology())
        with pytest.raises(Refused, match="w1 is a client"):
            await make("restart", "w1", on).prepare(on)
        with pytest.raises(Refused, match="w1 is not running"):
            await make("kill", "w1", on).prepare(on)
        await on.kill("b1")
        with pytest.raises(Refused, match=r"b1 is gone \(signal 9\)"):
            await make("pause", "b1", on).prepare(on)
        on.capabilities = frozenset({Capability.CUT})
        with pytest.raises(Refused, match="cannot pause"):
            await make("pause", "b2", on).prepare(on)

    run(scenario())


def test_a_shutdown_that_hangs_is_ended_when_it_is_healed() -> None:
    async def scenario() -> None:
        on = FakeCluster(topology())
        fault = make("restart", "b1", on, timeout_s=1)
        await fault.prepare(on)
        await on.pause("b1")  # its shutdown hook never runs
        with pytest.raises(Exception, match="still there after"):
            await fault.inject(on)
        await fault.heal(on)
        assert on.nodes["b1"].started == 1
        assert await on.nodes["b1"].state() == Running()

    run(scenario())
