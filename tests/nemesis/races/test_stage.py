"""The vocabulary of races on a cluster in memory: steps, faults, waits that end."""

from __future__ import annotations

from nemesis.races.books import NotReached
from nemesis.races.conditions import all_of, answered, any_of, fenced, gone, held, isr, leader_of, unfenced
from nemesis.races.race import topic
from nemesis.races.stage import Stage
from nemesis.races.step import StepStatus
from nemesis.wire.gate import GateDied
from nemesis.wire.message import Direction
from nemesis.wire.rule import Hold as HoldAct
from nodes.cluster import NotReached as NotSeen
from nodes.topology import Topic
from tests.nemesis.fake import FakeCluster
from tests.nemesis.races.fakes import FakeGate, frame, perform


def test_a_script_leaves_a_row_per_verb_in_its_order() -> None:
    async def script(on: Stage) -> None:
        await on.kill("b2")
        await on.until(all_of(fenced("b2"), isr("log", 0) == {"b1"}))
        await on.wipe("b2", keep_directory_id=True)
        await on.start("b2")
        await on.until(unfenced("b2"))

    told = perform(script)
    assert told.raised is None
    assert [step.verb for step in told.steps.values()] == ["kill", "until", "wipe", "start", "until"]
    assert {step.status for step in told.steps.values()} == {StepStatus.DONE}
    kill, until, wipe, *_ = told.steps.values()
    assert (kill.nodes, kill.text, kill.seen) == (("b2",), "kill -9 b2", "b2 gone")
    assert until.nodes == ("b2", "b1")
    assert until.text == "until b2 is fenced and the ISR of log-0 is b1"
    assert wipe.seen == "4 files are gone"
    assert all(step.ended_ns is not None and step.ended_ns >= step.started_ns for step in told.steps.values())


def test_a_condition_that_is_not_met_ends_the_script_with_what_was_seen_instead() -> None:
    reached = []

    async def script(on: Stage) -> None:
        await on.until(leader_of("log", 0) == "b2", within=5)
        reached.append("too far")

    told = perform(script)
    assert isinstance(told.raised, NotReached)
    assert str(told.raised) == (
        "not reached: the leader of log-0 is b2 (within 5 s); instead: the leader of log-0 is b1"
    )
    (step,) = told.steps.values()
    assert (step.status, step.seen) == (StepStatus.NOT_REACHED, "the leader of log-0 is b1")
    assert not reached


def test_whether_takes_either_answer() -> None:
    answers = []

    async def script(on: Stage) -> None:
        answers.append(await on.whether(fenced("b2"), within=3))
        await on.kill("b2")
        answers.append(await on.whether(any_of(fenced("b2"), gone("b1")), within=10))

    told = perform(script)
    assert answers == [False, True]
    assert [step.seen for step in told.steps.values() if step.verb == "whether"] == [
        "no: unfenced: b1, b2",
        "yes: unfenced: b1; b1 is running",
    ]


def test_a_node_loses_power_and_what_it_had_not_synced() -> None:
    async def script(on: Stage) -> None:
        files = on.cluster.nodes["c1"].files
        files |= {"data/unsynced/README": b"", "data/unsynced/log": b'{"size": 2}', "data/log": b"1234"}
        await on.lose_power("c1")
        assert files["data/log"] == b"12"
        files |= {"data/unsynced/log": b'{"size": 2}', "data/log": b"1234"}
        await on.start("c1")
        await on.write_back("c1")
        await on.lose_power("c1")
        assert files["data/log"] == b"1234"

    told = perform(script)
    assert told.raised is None
    steps = [(step.verb, step.seen) for step in told.steps.values()]
    assert steps[0] == ("power-loss", "c1 lost log from byte 2 on")
    assert steps[2:4] == [
        ("write-back", "1 files were not synced"),
        ("power-loss", "c1 lost nothing, all was synced"),
    ]
    assert [(row.name, row.targets, row.status) for row in told.faults.values()] == [
        ("power-loss", ("c1",), "healed"),
        ("power-loss", ("c1",), "healed"),
    ]
    assert told.left == []


def test_a_node_that_went_by_anothers_id_is_itself_again_at_the_end() -> None:
    async def script(on: Stage) -> None:
        await on.kill("b2")
        await on.take_id("b2", "b1")
        assert (await on.cluster.meta("b2"))["node.id"] == "1"
        await on.start("b2")
        cluster.append(on.cluster)

    cluster: list[FakeCluster] = []
    told = perform(script)
    assert told.raised is None
    assert [step.text for step in told.steps.values()][1:] == [
        "b2 gets the id of b1, and an empty disk",
        "start b2",
        "the script is over: b2 is itself again",
        "the script is over: start b2",
    ]
    assert cluster[0].nodes["b2"].files["data/meta.properties"] == b"node.id=2\n"
    assert {row.name: row.status for row in told.faults.values()} == {"kill": "healed", "take-id": "healed"}


def test_a_node_that_runs_keeps_its_id() -> None:
    async def script(on: Stage) -> None:
        await on.take_id("b2", "b1")

    told = perform(script)
    assert "b2 runs" in str(told.raised)
    assert told.left == []


def test_what_was_broken_is_a_fault_that_the_mending_verb_closes() -> None:
    async def script(on: Stage) -> None:
        await on.kill("b2")
        await on.wipe("b2")
        await on.start("b2")
        await on.pause("c1")
        await on.resume("c1")
        cut = await on.cut("b1", ["b2", "c1"], one_way=True)
        await on.heal(cut)

    told = perform(script)
    assert told.raised is None
    assert [(fault.name, fault.targets, fault.status) for fault in told.faults.values()] == [
        ("kill", ("b2",), "healed"),
        ("wipe", ("b2",), "healed"),
        ("pause", ("c1",), "healed"),
        ("cut", ("b1", "b2", "c1"), "healed"),
    ]
    for fault in told.faults.values():
        assert fault.injecting_ns is not None
        assert fault.proved_ns is not None
        assert fault.healed_ns is not None
        assert fault.injecting_ns <= fault.proved_ns <= fault.healed_ns
        assert fault.proof
    assert told.faults[3].proof == "a probe along each of 2 one-way paths got lost"


def test_everything_is_restored_after_a_script_that_stopped_in_the_middle() -> None:
    async def script(on: Stage) -> None:
        await on.kill("b2")
        await on.pause("b1")
        await on.cut("b1", "c1")
        raise ValueError("a mistake of the script")

    told = perform(script)
    assert isinstance(told.raised, ValueError)
    assert told.left == []
    assert {fault.status for fault in told.faults.values()} == {"healed"}
    assert told.lines[-3:] == [
        "heal b1 ↔ c1",
        "the script is over: resume b1",
        "the script is over: start b2",
    ]


def test_a_node_that_is_left_dead_stays_dead() -> None:
    async def script(on: Stage) -> None:
        await on.kill("b2")
        on.leave("b2")

    told = perform(script)
    assert told.lines == ["kill -9 b2"]
    assert told.faults[0].status == "active"


def test_only_the_disk_of_a_dead_node_can_be_replaced() -> None:
    async def script(on: Stage) -> None:
        await on.wipe("b2")

    told = perform(script)
    assert isinstance(told.raised, NotReached)
    assert "kill it before its disk is replaced" in str(told.raised)
    assert not told.faults


def test_a_held_request_is_seen_released_and_answered() -> None:
    gate = FakeGate()

    async def script(on: Stage) -> None:
        stale = await on.hold("AlterPartition", source="b1", where="newIsr contains 2")
        (armed,) = gate.rules
        assert isinstance(armed.rule.act, HoldAct)
        assert (armed.rule.match.source, armed.rule.match.where) == ("b1", "newIsr contains 2")
        assert not await on.whether(held(stale), within=1)
        armed.catch(frame(7))
        await on.until(held(stale))
        await on.release(stale)
        assert armed.released == [("all", "as held")]
        assert not await on.whether(answered(stale), within=1)
        armed.answer(frame(8, source="c1", destination="b1", error="INELIGIBLE_REPLICA"))
        await on.until(answered(stale))
        assert stale.answer is not None
        assert stale.answer.error == "INELIGIBLE_REPLICA"

    told = perform(script, gate=gate)
    assert told.raised is None
    release = next(step for step in told.steps.values() if step.verb == "release")
    assert release.message == 7
    assert release.seen == 'AlterPartition v2 b1 → c1 {"newIsr": [1, 2]}'
    assert list(told.steps.values())[-1].seen == "AlterPartition v2 c1 → b1: INELIGIBLE_REPLICA"
    (fault,) = told.faults.values()
    assert (fault.name, fault.status, fault.proved_ns) == ("hold", "healed", 7000)
    assert not gate.rules[0].armed


def test_a_hold_that_caught_nothing_never_was_a_fault() -> None:
    gate = FakeGate()

    async def script(on: Stage) -> None:
        stale = await on.hold("AlterPartition")
        await on.release(stale)

    told = perform(script, gate=gate)
    assert isinstance(told.raised, NotReached)
    (fault,) = told.faults.values()
    assert (fault.status, fault.injecting_ns, fault.detail) == ("planned", None, "no frame matched")


def test_requests_or_responses_vanish() -> None:
    gate = FakeGate()

    async def script(on: Stage) -> None:
        await on.drop("Fetch", source="b2", destination="c*")
        await on.drop("Fetch", source="b2", destination="c*", response=True)

    told = perform(script, gate=gate)
    assert told.raised is None
    assert [one.rule.match.direction for one in gate.rules] == [Direction.REQUEST, Direction.RESPONSE]
    assert told.lines == ["drop Fetch b2 → c*", "drop Fetch responses b2 → c*"]


def test_a_gate_that_dies_is_no_condition_that_was_not_met() -> None:
    gate = FakeGate()

    async def script(on: Stage) -> None:
        stale = await on.hold("AlterPartition")
        gate.rules[0].die()
        await on.until(answered(stale))

    assert isinstance(perform(script, gate=gate).raised, GateDied)


def test_a_race_without_a_gate_says_so() -> None:
    async def script(on: Stage) -> None:
        await on.hold("Fetch")

    assert "declare it with gate=True" in str(perform(script).raised)


def test_what_runs_meanwhile_is_a_step_of_its_own_and_ends_with_the_script() -> None:
    async def script(on: Stage) -> None:
        waiting = on.meanwhile(on.whether(fenced("b2"), within=8))
        await on.kill("b2")
        assert await waiting
        on.meanwhile(on.until(fenced("b1"), within=600))

    told = perform(script)
    assert told.raised is None
    assert [step.verb for step in told.steps.values()] == ["kill", "whether", "start"]


def test_a_topic_is_deleted_and_made_again_although_a_broker_is_away() -> None:
    asked: list[tuple[str, str, bool | None]] = []

    async def script(on: Stage) -> None:
        async def delete(name: str, *, deadline: float) -> None:
            asked.append(("delete", name, None))

        async def create(made: Topic, *, deadline: float, whole: bool) -> None:
            asked.append(("create", made.name, whole))
            if whole:
                raise NotSeen("b2 does not answer")

        on.cluster.delete_topic, on.cluster.create_topic = delete, create
        await on.delete_topic("t")
        await on.topic(topic("t", [1, 2]), whole=False)
        await on.topic(topic("t", [1, 2]))

    told = perform(script)
    assert asked == [("delete", "t", None), ("create", "t", False), ("create", "t", True)]
    assert [step.seen for step in told.steps.values()] == [
        "no broker that answers has t",
        "t is led",
        "b2 does not answer",
    ]
    assert isinstance(told.raised, NotReached)
