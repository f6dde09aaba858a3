"""Wipe, roll-back and power loss by what is left on the disk; safe mode refuses what Kafka does not promise to survive."""

from __future__ import annotations

import asyncio

import pytest

from nemesis.fault import Refused, Unproved
from nemesis.segments import batches
from nodes.node import Gone, Running
from tests.nemesis.fake import FakeCluster, topology
from tests.nemesis.order import make
from tests.nemesis.virtual_time import run

LOG = "data/log-0/00000000000000000000.log"
KINDS = ("wipe", "roll-back", "power-loss")


def written(**shape: int) -> FakeCluster:
    on = FakeCluster(topology(**shape))
    on.produce(10)
    on.produce(10)
    return on


async def injected(kind: str, target: str, on: FakeCluster, **settings: object) -> str:
    fault = make(kind, target, on, **settings)
    await fault.prepare(on)
    sentence = (await fault.inject(on)).sentence
    await fault.heal(on)
    return sentence


@pytest.mark.parametrize(("keep_meta", "keep_directory_id"), [(True, True), (False, True), (False, False)])
def test_a_wiped_disk_holds_nothing_of_before(keep_meta: bool, keep_directory_id: bool) -> None:
    async def scenario() -> None:
        on = written()
        on.nodes["b2"].files["data/log-0/leader-epoch-checkpoint"] = b"old"
        fault = make("wipe", "b2", on, keep_meta=keep_meta, keep_directory_id=keep_directory_id)
        await fault.prepare(on)
        proof = await fault.inject(on)
        assert on.nodes["b2"].files[LOG] == b""
        assert "data/log-0/leader-epoch-checkpoint" not in on.nodes["b2"].files
        assert on.reformatted == [("b2", keep_meta, keep_directory_id)]
        assert "of b2 are gone" in proof.sentence
        await fault.heal(on)
        assert all(2 in part.isr for part in (await on.view()).partitions.values())

    run(scenario())


def test_what_of_a_wipe_is_not_written_is_drawn() -> None:
    on = FakeCluster(topology())
    drawn = {
        (fault.order.settings.keep_meta, fault.order.settings.keep_directory_id)  # type: ignore[attr-defined]
        for fault in (make("wipe", "b1", on, draw=draw) for draw in range(40))
    }
    assert drawn == {(True, True), (False, True), (False, False)}


def test_a_wipe_that_left_the_disk_alone_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(path: str, *, keep: tuple[str, ...] = ()) -> None:
        return None

    async def scenario() -> None:
        on = written()
        monkeypatch.setattr(on.nodes["b2"], "wipe", nothing)
        with pytest.raises(Unproved, match="files are still there"):
            await injected("wipe", "b2", on)

    run(scenario())


def test_a_disk_is_rolled_back_to_an_earlier_copy() -> None:
    async def scenario() -> None:
        on = written()
        earlier = on.nodes["b1"].files[LOG]
        fault = make("roll-back", "b1", on)
        await fault.prepare(on)
        real = on.kill

        async def kill_after_more_was_written(name: str) -> None:
            on.produce(10)
            await real(name)

        on.kill = kill_after_more_was_written  # type: ignore[method-assign]
        proof = await fault.inject(on)
        assert on.nodes["b1"].files[LOG] == earlier
        assert proof.counts["b1"] > 0
        assert not await on.nodes["b1"].list("copies")
        on.kill = real  # type: ignore[method-assign]
        await fault.heal(on)

    run(scenario())


def test_a_roll_back_that_lost_nothing_is_not_proved() -> None:
    async def scenario() -> None:
        with pytest.raises(Unproved, match=r"b1: its logs held (\d+) bytes and hold \1 now"):
            await injected("roll-back", "b1", written())

    run(scenario())


def test_power_loss_throws_away_what_was_not_synced() -> None:
    async def scenario() -> None:
        on = written()
        on.produce(10)
        on.nodes["b3"].files["data/recovery-point-offset-checkpoint"] = b"0\n2\nlog 0 10\nlog 1 30\n"
        before = on.nodes["b3"].files[LOG]
        fault = make("power-loss", "b3", on)
        await fault.prepare(on)
        proof = await fault.inject(on)
        after = on.nodes["b3"].files[LOG]
        assert before.startswith(after)
        assert [batch.next_offset for batch in batches(after)] == [10]
        assert "log-0 offsets 10..29" in proof.sentence
        assert "log-1" not in proof.sentence
        assert "data/log-0/00000000000000000000.index" not in on.nodes["b3"].files
        assert "data/log-1/00000000000000000000.index" in on.nodes["b3"].files
        await fault.heal(on)

    run(scenario())


@pytest.mark.parametrize(("every", "left"), [(1, 30), (10, 30), (11, 20), (25, 10), (None, 0)])
def test_power_loss_leaves_what_a_flush_policy_has_flushed(every: int | None, left: int) -> None:
    async def scenario() -> None:
        on = written()
        on.produce(10)
        on.flush_messages = every
        await injected("power-loss", "b3", on)
        kept = list(batches(on.nodes["b3"].files[LOG]))
        assert max((batch.next_offset for batch in kept), default=0) == left

    run(scenario())


def test_power_loss_may_keep_some_of_what_was_not_synced() -> None:
    async def scenario(draw: int) -> int:
        on = written()
        on.produce(10)
        await injected("power-loss", "b3", on, lost="some", draw=draw)
        return max((batch.next_offset for batch in batches(on.nodes["b3"].files[LOG])), default=0)

    assert {run(scenario(draw)) for draw in range(20)} == {0, 10, 20}


def test_power_loss_that_truncated_nothing_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(path: str, size: int) -> None:
        return None

    async def scenario() -> None:
        on = written()
        monkeypatch.setattr(on.nodes["b2"], "truncate", nothing)
        with pytest.raises(Unproved, match="should have 0 bytes"):
            await injected("power-loss", "b2", on)

    run(scenario())


def test_power_loss_of_something_that_is_not_kafka_says_so() -> None:
    async def scenario() -> None:
        on = written()
        del on.nodes["b2"].files["data/recovery-point-offset-checkpoint"]
        with pytest.raises(Unproved, match="nobody knows what it had synced"):
            await injected("power-loss", "b2", on)

    run(scenario())


METADATA = "data/__cluster_metadata-0"


def telling(on: FakeCluster, name: str, **files: str) -> dict[str, bytes]:
    """A node that says what it has not synced: by file, in JSON. Its files."""
    held = on.nodes[name].files
    held["data/unsynced/README"] = b"..."
    held[f"{METADATA}/0.log"], held[f"{METADATA}/quorum-state"] = b"0123456789", b"newer"
    held |= {
        f"data/unsynced/__cluster_metadata-0/{path.replace('_', '-').replace('-log', '.log')}": said.encode()
        for path, said in files.items()
    }
    return held


def test_power_loss_takes_back_what_a_node_says_it_had_not_synced_of_its_metadata_log() -> None:
    async def scenario() -> None:
        on = written()
        on.nodes["c1"].files.clear()
        files = telling(on, "c1", **{"0_log": '{"size": 4}', "quorum_state": '{"content": "b2xk"}'})
        fault = make("power-loss", "c1", on, safe=False)
        await fault.prepare(on)
        proof = await fault.inject(on)
        assert (files[f"{METADATA}/0.log"], files[f"{METADATA}/quorum-state"]) == (b"0123", b"old")
        assert [path for path in files if "unsynced" in path] == ["data/unsynced/README"]
        assert "0.log from byte 4 on" in proof.sentence
        assert "quorum-state as it was replaced" in proof.sentence
        await fault.heal(on)
        assert await on.nodes["c1"].state() == Running()

    run(scenario())


def test_power_loss_removes_a_file_that_no_disk_knew() -> None:
    async def scenario() -> None:
        on = written()
        files = telling(on, "b2", quorum_state='{"content": null}')
        await injected("power-loss", "b2", on)
        assert f"{METADATA}/quorum-state" not in files
        assert files[f"{METADATA}/0.log"] == b"0123456789"

    run(scenario())


def test_a_node_that_has_synced_everything_loses_nothing() -> None:
    async def scenario() -> None:
        on = written()
        on.nodes["c1"].files.clear()
        files = telling(on, "c1")
        before = dict(files)
        fault = make("power-loss", "c1", on, safe=False)
        await fault.prepare(on)
        assert (await fault.inject(on)).sentence.endswith("c1 lost nothing, all was synced")
        assert files == before

    run(scenario())


@pytest.mark.parametrize("said", ["", "{}", '{"size": "many"}', '{"content": "?"}', "[]"])
def test_what_cannot_be_read_of_what_a_node_says_is_not_proved(said: str) -> None:
    async def scenario() -> None:
        on = written()
        telling(on, "b2", quorum_state=said)
        with pytest.raises(Unproved, match="quorum-state does not say what was synced"):
            await injected("power-loss", "b2", on)

    run(scenario())


def test_a_power_loss_of_metadata_that_changed_nothing_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(path: str, content: bytes) -> None:
        return None

    async def scenario() -> None:
        on = written()
        telling(on, "b2", **{"0_log": '{"size": 4}'})
        monkeypatch.setattr(on.nodes["b2"], "write", nothing)
        with pytest.raises(Unproved, match=r"0.log is not what it was when it was last synced"):
            await injected("power-loss", "b2", on)

    run(scenario())


@pytest.mark.parametrize("kind", KINDS)
class TestSafeMode:
    def test_the_isr_without_the_target_must_be_large_enough(self, kind: str) -> None:
        async def scenario() -> None:
            on = written(min_isr=3)
            with pytest.raises(Refused, match=r"without b1 it has 2 member\(s\), and min.insync.replicas is 3"):
                await make(kind, "b1", on).prepare(on)
            assert await on.nodes["b1"].state() == Running()

        run(scenario())

    def test_it_must_be_alone(self, kind: str) -> None:
        async def scenario() -> None:
            on = written()
            with pytest.raises(Refused, match="not alone: fault 4"):
                await make(kind, "b1", on, others=(4,)).prepare(on)

        run(scenario())

    def test_a_controller_keeps_its_disk(self, kind: str) -> None:
        async def scenario() -> None:
            on = written()
            with pytest.raises(Refused, match="c1 is a controller"):
                await make(kind, "c1", on).prepare(on)

        run(scenario())

    def test_a_disk_is_left_alone_when_the_rule_stops_holding_on_the_way(self, kind: str) -> None:
        async def scenario() -> None:
            on = written()
            fault = make(kind, "b1", on)
            await fault.prepare(on)
            await on.kill("b2")  # the isr is [1, 3] soon, and then [3]
            before = dict(on.nodes["b1"].files)
            with pytest.raises(Refused, match="its disk was left alone: the isr of log-0 is"):
                await fault.inject(on)
            assert {k: v for k, v in on.nodes["b1"].files.items() if k.startswith("data")} == before

        run(scenario())

    def test_without_safe_mode_the_last_disk_goes_too(self, kind: str) -> None:
        async def scenario() -> None:
            on = FakeCluster(topology(min_isr=3))
            fault = make(kind, "b1", on, others=(4,), safe=False)
            await fault.prepare(on)
            asyncio.get_running_loop().call_later(1, on.produce, 5)
            if kind != "roll-back":
                await asyncio.sleep(2)
            await fault.inject(on)
            assert await on.nodes["b1"].state() == Gone(-9)
            assert on.nodes["b1"].files[LOG] == b""

        run(scenario())

    def test_a_broker_that_does_not_come_back_into_its_isr_is_not_healed(self, kind: str) -> None:
        async def scenario() -> None:
            on = written()
            fault = make(kind, "b3", on, safe=False)
            await fault.prepare(on)
            await on.kill("b3")
            on.settle()
            on._grown = lambda part, now: part  # type: ignore[method-assign]
            fault.hit = ("b3",)  # type: ignore[attr-defined]
            await asyncio.sleep(3)
            on.settle()
            with pytest.raises(Unproved, match="b3 is not in the isr of log-0"):
                await fault.heal(on)

        run(scenario())
