"""The nemesis at work on a cluster in memory and in virtual time: turns, refusals, failures, crashes, and an end with nothing broken."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from nemesis.fault import FaultRow, FaultStatus
from nemesis.journal import HealJournal, pending
from nemesis.runner import Nemesis, Outcome, Reports
from nemesis.schedule import make_plan
from nemesis.settings import NemesisSettings
from nodes.node import Gone, NodeError, Running
from tests.nemesis.fake import FakeCluster, topology
from tests.nemesis.virtual_time import now_ns, run


@dataclass
class Run:
    """What a nemesis told while it ran."""

    on: FakeCluster
    directory: Path
    settings: NemesisSettings
    limit: float = 60
    seed: int = 7
    history: list[FaultRow] = field(default_factory=list)
    resolved: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    acknowledged: Callable[[], int] = lambda: 0
    outcome: Outcome = field(default_factory=Outcome)
    began_ns: int = 0

    def nemesis(self) -> Nemesis:
        plan = make_plan(
            self.settings, self.on.topology, lambda a, i: random.Random(f"{self.seed}/{a}/{i}"), self.limit
        )
        self.began_ns = now_ns()
        return Nemesis(
            on=self.on,
            plan=plan,
            settings=self.settings,
            journal=HealJournal(self.directory / "heal.jsonl"),
            reports=Reports(
                record=self.history.append, resolved=lambda *what: self.resolved.append(what), now_ns=now_ns
            ),
            counted=lambda name: self.acknowledged() if name == "acknowledged" else 0,
        )

    async def go(self) -> None:
        self.outcome = await self.nemesis().run(self.limit)

    @property
    def rows(self) -> dict[int, FaultRow]:
        return {row.fault: row for row in self.history}

    def seconds(self, ns: int | None) -> float:
        assert ns is not None
        return (ns - self.began_ns) / 1e9

    def whole(self) -> bool:
        """Nothing is broken and nothing is left to undo."""
        return (
            not self.on.network.cuts
            and all(node.process == Running() for node in self.on.nodes.values())
            and pending(self.directory / "heal.jsonl") == []
        )


def script(*steps: dict[str, Any], **rest: Any) -> NemesisSettings:
    return NemesisSettings.model_validate({"script": list(steps), "prove_within": 5, "recover_within": 20, **rest})


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("overlap", [False, True])
def test_a_mix_of_everything_heals_everything(tmp_path: Path, seed: int, overlap: bool) -> None:
    mix = {"faults": ["partition", "kill", "restart", "pause", "wipe", "power-loss"], "overlap": overlap}
    told = Run(FakeCluster(topology()), tmp_path, NemesisSettings.model_validate({"mix": mix}), limit=120, seed=seed)
    run(told.go())
    assert told.outcome == Outcome()
    assert told.whole()
    statuses = [row.status for row in told.rows.values()]
    assert statuses.count(FaultStatus.HEALED) >= 6
    assert set(statuses) <= {FaultStatus.HEALED, FaultStatus.REFUSED, FaultStatus.PLANNED}
    for row in told.rows.values():
        if row.status == FaultStatus.HEALED:
            assert row.targets
            assert row.proof
            assert row.heal_proof
            times = [row.planned_ns, row.injecting_ns, row.proved_ns, row.healing_ns, row.healed_ns]
            assert None not in times
            assert sorted(times, key=lambda at: at or 0) == times
    if not overlap:
        spans = sorted(
            (row.injecting_ns, row.healed_ns) for row in told.rows.values() if row.healed_ns and row.injecting_ns
        )
        gaps = [start - end for (_, end), (start, _) in itertools.pairwise(spans)]
        assert min(gaps) >= 5e9 - 1000


def test_rows_follow_a_faults_life(tmp_path: Path) -> None:
    told = Run(
        FakeCluster(topology()),
        tmp_path,
        script({"at": "5s", "fault": "kill", "target": "leader of log-0", "for": "4s"}),
    )
    run(told.go())
    assert [row.status for row in told.history if row.fault == 0] == [
        FaultStatus.PLANNED,  # the plan
        FaultStatus.PLANNED,  # its moment came
        FaultStatus.PLANNED,  # injecting
        FaultStatus.ACTIVE,
        FaultStatus.ACTIVE,  # healing
        FaultStatus.HEALED,
    ]
    row = told.rows[0]
    assert (row.name, row.rule, row.targets) == ("kill", "leader of log-0", ("b1",))
    assert told.seconds(row.planned_ns) == pytest.approx(5)
    assert told.seconds(row.healing_ns) - told.seconds(row.proved_ns) == pytest.approx(4)
    assert json.loads(row.settings)["duration_s"] == 4
    assert told.resolved == [
        (0, {"rule": "leader of log-0", "draw": json.loads(row.settings)["draw"], "targets": ["b1"]})
    ]


def test_the_undo_is_on_disk_before_anything_is_broken(tmp_path: Path) -> None:
    on = FakeCluster(topology())
    seen: list[list[dict[str, Any]]] = []
    real = on.kill

    async def kill(name: str) -> None:
        seen.append(pending(tmp_path / "heal.jsonl"))
        await real(name)

    on.kill = kill  # type: ignore[method-assign]
    told = Run(on, tmp_path, script({"at": 1, "fault": "kill", "target": "b1", "for": 1}))
    run(told.go())
    assert seen == [[{"do": "start", "node": "b1"}]]
    assert told.whole()


def test_a_refused_fault_is_tried_again_within_its_slot(tmp_path: Path) -> None:
    steps = (
        {"at": 1, "fault": "kill", "target": "b1", "for": 4},
        {"at": 2, "fault": "wipe", "target": "b2", "for": 1},
    )
    told = Run(FakeCluster(topology()), tmp_path, script(*steps))
    run(told.go())
    assert [row.status for row in told.rows.values()] == [FaultStatus.HEALED, FaultStatus.HEALED]
    first, second = told.rows[0], told.rows[1]
    assert second.injecting_ns is not None
    assert first.healed_ns is not None
    assert second.injecting_ns > first.healed_ns


def test_a_fault_that_is_refused_to_the_end_is_no_error(tmp_path: Path) -> None:
    told = Run(FakeCluster(topology(min_isr=3)), tmp_path, script({"at": 1, "fault": "wipe", "target": "b1"}))
    run(told.go())
    assert told.rows[0].status == FaultStatus.REFUSED
    assert "min.insync.replicas is 3" in (told.rows[0].detail or "")
    assert told.outcome == Outcome()


def test_two_faults_never_have_one_process_in_hand(tmp_path: Path) -> None:
    steps = (
        {"at": 1, "fault": "pause", "target": "b1", "for": 5},
        {"at": 1.5, "fault": "kill", "target": "all brokers", "for": 1},
        {"at": 2, "fault": "partition-isolate", "target": "b1", "for": 2},
    )
    told = Run(FakeCluster(topology()), tmp_path, script(*steps))
    run(told.go())
    assert [row.status for row in told.rows.values()] == [FaultStatus.HEALED] * 3
    assert told.rows[1].injecting_ns > told.rows[0].healed_ns  # type: ignore[operator]
    assert told.rows[2].proved_ns < told.rows[0].healing_ns  # type: ignore[operator]


def test_nothing_is_broken_beside_a_lost_disk_in_safe_mode(tmp_path: Path) -> None:
    steps = (
        {"at": 1, "fault": "wipe", "target": "b1", "for": 5},
        {"at": 2, "fault": "kill", "target": "b2", "for": 1},
    )
    told = Run(FakeCluster(topology()), tmp_path, script(*steps))
    run(told.go())
    first, second = told.rows[0], told.rows[1]
    assert first.healed_ns is not None
    assert second.injecting_ns is not None
    assert second.injecting_ns >= first.healed_ns
    unsafe = Run(FakeCluster(topology()), tmp_path / "unsafe", script(*steps, safe=False))
    run(unsafe.go())
    assert unsafe.rows[1].healed_ns < unsafe.rows[0].healed_ns  # type: ignore[operator]


def test_an_effect_that_cannot_be_proved_is_healed_and_a_harness_error(tmp_path: Path) -> None:
    on = FakeCluster(topology())

    async def nothing(name: str) -> None:
        return None

    on.pause = nothing  # type: ignore[method-assign]
    steps = (
        {"at": 1, "fault": "pause", "target": "b1", "for": 1},
        {"at": 20, "fault": "kill", "target": "b1", "for": 1},
    )
    told = Run(on, tmp_path, script(*steps))
    run(told.go())
    assert told.rows[0].status == FaultStatus.FAILED
    assert told.rows[0].healed_ns is not None
    assert told.rows[1].status == FaultStatus.HEALED
    assert told.outcome.problems == ["fault 0 (pause on b1) Unproved: after 5 s: b1 is running"]
    assert told.outcome.unhealed == []
    assert told.whole()


def test_what_cannot_be_healed_is_tried_again_and_named(tmp_path: Path) -> None:
    on = FakeCluster(topology())
    tries = 0

    async def start(name: str) -> None:
        nonlocal tries
        tries += 1
        raise NodeError(f"{name}: no space left")

    on.start = start  # type: ignore[method-assign]
    told = Run(on, tmp_path, script({"at": 1, "fault": "kill", "target": "b1", "for": 1}))
    run(told.go())
    assert tries == 6  # three when its time is over, three at the end
    assert told.rows[0].status == FaultStatus.FAILED
    assert told.outcome.unhealed == [
        "fault 0 (kill on b1): healing: NodeError: b1: no space left",
    ]
    assert told.outcome.problems
    assert pending(tmp_path / "heal.jsonl") == [{"do": "start", "node": "b1"}]


def test_a_healing_that_works_the_second_time_is_one(tmp_path: Path) -> None:
    on = FakeCluster(topology())
    real, tries = on.start, 0

    async def start(name: str) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise NodeError("the port is still taken")
        await real(name)

    on.start = start  # type: ignore[method-assign]
    told = Run(on, tmp_path, script({"at": 1, "fault": "kill", "target": "b1", "for": 1}))
    run(told.go())
    assert told.rows[0].status == FaultStatus.HEALED
    assert "attempt 1 of 3" in (told.rows[0].detail or "")
    assert told.outcome == Outcome()


def test_any_exception_of_a_fault_leaves_the_others_and_the_run_alone(tmp_path: Path) -> None:
    on = FakeCluster(topology())

    async def boom(cuts: object) -> None:
        raise ZeroDivisionError("a bug")

    on.network.cut = boom  # type: ignore[method-assign]
    steps = (
        {"at": 1, "fault": "partition-isolate", "target": "b1"},
        {"at": 2, "fault": "kill", "target": "b1", "for": 1},
    )
    told = Run(on, tmp_path, script(*steps))
    run(told.go())
    assert [row.status for row in told.rows.values()] == [FaultStatus.FAILED, FaultStatus.HEALED]
    assert told.outcome.problems == ["fault 0 (partition-isolate on b1) ZeroDivisionError: a bug"]


def test_a_fault_without_an_end_stays_until_the_faults_end(tmp_path: Path) -> None:
    told = Run(FakeCluster(topology()), tmp_path, script({"at": 1, "fault": "kill", "target": "b1"}), limit=30)
    run(told.go())
    assert told.seconds(told.rows[0].healing_ns) == pytest.approx(30)
    assert told.rows[0].status == FaultStatus.HEALED
    assert told.whole()


def test_faults_that_need_each_other_to_heal_do(tmp_path: Path) -> None:
    """The broker cannot be unfenced before the controllers, which were killed earlier, are back."""
    steps = (
        {"at": 1, "fault": "kill", "target": "all controllers"},
        {"at": 2, "fault": "kill", "target": "all brokers"},
    )
    told = Run(FakeCluster(topology()), tmp_path, script(*steps), limit=20)
    run(told.go())
    assert told.outcome == Outcome()
    assert told.whole()


def test_stopping_early_heals_and_leaves_the_rest_planned(tmp_path: Path) -> None:
    steps = ({"at": 1, "fault": "pause", "target": "b1"}, {"at": 50, "fault": "kill", "target": "b2"})
    told = Run(FakeCluster(topology()), tmp_path, script(*steps))

    async def scenario() -> None:
        nemesis = told.nemesis()
        asyncio.get_running_loop().call_later(10, nemesis.stop)
        told.outcome = await nemesis.run(60)
        assert told.seconds(now_ns()) < 15

    run(scenario())
    assert [row.status for row in told.rows.values()] == [FaultStatus.HEALED, FaultStatus.PLANNED]
    assert told.rows[1].detail == "the faults ended before its moment came"
    assert told.whole()


@pytest.mark.parametrize("moment", [0.5, 1.005, 1.5, 3.0, 4.2])
def test_cancelling_heals_first(tmp_path: Path, moment: float) -> None:
    steps = (
        {"at": 1, "fault": "partition-isolate", "target": "b1", "for": 3},
        {"at": 1, "fault": "kill", "target": "b2", "for": 3},
    )
    told = Run(FakeCluster(topology()), tmp_path, script(*steps))

    async def scenario() -> None:
        task = asyncio.create_task(told.go())
        await asyncio.sleep(moment)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(scenario())
    assert told.whole()


def test_a_server_that_dies_by_itself_is_reported_and_back_at_the_end(tmp_path: Path) -> None:
    on = FakeCluster(topology())
    told = Run(
        on,
        tmp_path,
        script({"at": 8, "fault": "pause", "target": "b2", "for": 1}, {"at": 12, "fault": "kill", "target": "b2"}),
    )

    async def scenario() -> None:
        asyncio.get_running_loop().call_later(5, lambda: setattr(on.nodes["b2"], "process", Gone(134)))
        await told.go()

    run(scenario())
    assert [(crash.node, crash.sentence) for crash in told.outcome.crashes] == [
        ("b2", "b2 died by itself, exit code 134")
    ]
    assert told.seconds(told.outcome.crashes[0].at_ns) == pytest.approx(5, abs=0.3)
    assert told.rows[1].status == FaultStatus.REFUSED
    assert "b2 is gone (exit code 134)" in (told.rows[1].detail or "")
    assert told.whole()


def test_a_crashed_server_that_does_not_come_back_is_unhealed(tmp_path: Path) -> None:
    on = FakeCluster(topology())
    told = Run(on, tmp_path, script())

    async def start(name: str) -> None:
        return None

    async def scenario() -> None:
        on.start = start  # type: ignore[method-assign]
        on.nodes["b2"].process = Gone(1)
        await told.go()

    run(scenario())
    assert told.outcome.unhealed == [
        "b2 died by itself and does not come back: Unproved: b2 was started but is gone (exit code 1)"
    ]


class TestTriggers:
    def go(self, tmp_path: Path, *steps: dict[str, Any], **run_settings: Any) -> Run:
        told = Run(FakeCluster(topology(min_isr=1)), tmp_path, script(*steps, safe=False), **run_settings)
        run(told.go())
        return told

    def test_after_and_healed(self, tmp_path: Path) -> None:
        told = self.go(
            tmp_path,
            {"at": 2, "fault": "pause", "target": "b1", "for": 3, "as": "first"},
            {"when": {"after": "first"}, "delay": 1, "fault": "pause", "target": "b2", "for": 1},
            {"when": {"healed": 0}, "fault": "pause", "target": "b3", "for": 1},
        )
        first, second, third = (told.rows[number] for number in range(3))
        assert told.seconds(second.planned_ns) == pytest.approx(told.seconds(first.proved_ns) + 1, abs=0.1)
        assert told.seconds(third.planned_ns) == pytest.approx(told.seconds(first.healed_ns), abs=0.1)

    def test_leader_changed(self, tmp_path: Path) -> None:
        told = self.go(
            tmp_path,
            {"at": 5, "fault": "kill", "target": "leader of log-0", "for": 10},
            {"when": {"leader_changed": "log-0"}, "fault": "pause", "target": "leader of log-0", "for": 1},
        )
        assert told.rows[0].targets == ("b1",)
        assert told.rows[1].targets == ("b2",)
        assert 7 <= told.seconds(told.rows[1].planned_ns) <= 8  # the session lasts two seconds

    def test_a_leader_that_changed_while_nobody_answered_is_noticed(self, tmp_path: Path) -> None:
        on = FakeCluster(topology(min_isr=1), unclean=True)
        steps = (
            {"at": 2, "fault": "kill", "target": "followers of log-0", "until": {"after": 1}},
            {
                "when": {"after": 0, "isr_of": "log-0", "is": 1},
                "fault": "kill",
                "target": "leader of log-0",
                "until": {"leader_changed": "log-0"},
            },
        )
        told = Run(on, tmp_path, script(*steps, safe=False))
        run(told.go())
        assert told.seconds(told.rows[1].healing_ns) < 15

    def test_isr_by_size_and_by_members(self, tmp_path: Path) -> None:
        told = self.go(
            tmp_path,
            {"at": 5, "fault": "kill", "target": "followers of log-0", "for": 10},
            {"when": {"isr_of": "log-0", "is": 1}, "fault": "pause", "target": "c1", "for": 1},
            {"when": {"isr_of": "log-0", "is": ["b1"]}, "fault": "pause", "target": "c2", "for": 1},
            {"when": {"isr_of": "log-0", "is": ["b2"]}, "fault": "pause", "target": "c3", "for": 1},
        )
        assert 7 <= told.seconds(told.rows[1].planned_ns) <= 8
        assert 7 <= told.seconds(told.rows[2].planned_ns) <= 8
        assert told.rows[3].planned_ns is None
        assert told.rows[3].status == FaultStatus.PLANNED

    def test_fenced_and_unfenced(self, tmp_path: Path) -> None:
        told = self.go(
            tmp_path,
            {"at": 5, "fault": "kill", "target": "b3", "for": 10},
            {"when": {"fenced": "b3"}, "fault": "pause", "target": "c1", "for": 1},
            {"when": {"healed": 0, "unfenced": "b3"}, "fault": "pause", "target": "c2", "for": 1},
        )
        assert 7 <= told.seconds(told.rows[1].planned_ns) <= 8
        assert told.seconds(told.rows[2].planned_ns) > 15

    def test_acknowledged_counts_from_the_moment_the_rest_held(self, tmp_path: Path) -> None:
        told = self.go(
            tmp_path,
            {"at": 10, "fault": "pause", "target": "b1", "for": 1},
            {"when": {"after": 0, "acknowledged": 500}, "fault": "pause", "target": "b2", "for": 1},
            acknowledged=lambda: now_ns() // 10_000_000,  # a hundred records per second
        )
        assert told.seconds(told.rows[1].planned_ns) == pytest.approx(told.seconds(told.rows[0].proved_ns) + 5, abs=0.3)

    def test_until_ends_a_fault(self, tmp_path: Path) -> None:
        told = self.go(
            tmp_path,
            {"at": 5, "fault": "kill", "target": "b1", "until": {"leader_changed": "log-0"}},
            {"at": 20, "fault": "pause", "target": "b2", "for": 3, "until": {"fenced": "b2"}},
            {"at": 30, "fault": "pause", "target": "b2", "for": 1, "until": {"fenced": "b2"}},
        )
        assert 7 <= told.seconds(told.rows[0].healing_ns) <= 8
        assert 22 <= told.seconds(told.rows[1].healing_ns) <= 22.5
        assert told.seconds(told.rows[2].healing_ns) == pytest.approx(
            told.seconds(told.rows[2].proved_ns) + 1, abs=0.05
        )

    def test_a_trigger_that_fails_fails_its_fault_and_heals_it(self, tmp_path: Path) -> None:
        on = FakeCluster(topology())
        told = Run(on, tmp_path, script({"at": 1, "fault": "pause", "target": "b1", "until": {"acknowledged": 5}}))

        def broken() -> int:
            raise KeyError("no client")

        told.acknowledged = broken
        run(told.go())
        assert told.rows[0].status == FaultStatus.FAILED
        assert told.outcome.problems == ["fault 0 (pause on b1) waiting for its end: KeyError: 'no client'"]
        assert told.whole()


def test_the_last_leader_can_be_lost(tmp_path: Path) -> None:
    """The script of examples/unclean.yaml: the leader alone in the ISR, killed, and a stale follower elected."""
    on = FakeCluster(topology(min_isr=1), unclean=True)
    steps = (
        {"at": 2, "fault": "kill", "target": "followers of log-0", "as": "followers", "until": {"after": "last"}},
        {
            "when": {"after": "followers", "isr_of": "log-0", "is": 1, "acknowledged": 100},
            "fault": "kill",
            "target": "leader of log-0",
            "as": "last",
            "until": {"leader_changed": "log-0"},
        },
    )
    told = Run(on, tmp_path, script(*steps, safe=False), acknowledged=lambda: now_ns() // 10_000_000)
    run(told.go())
    assert told.outcome == Outcome()
    assert [row.targets for row in told.rows.values()] == [("b2", "b3"), ("b1",)]
    assert on.parts["log", 0].leader in (2, 3)
    assert told.whole()
