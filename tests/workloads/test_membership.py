"""What a member does around a rebalance, step by step: with a group, or a client, that does what the test says."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Message, TopicPartition

from tests.workloads.recording import MemoryRecorder, context
from workloads import clients, groups
from workloads.membership import Membership
from workloads.op import OpKind, Outcome
from workloads.settings import GroupSettings
from workloads.worker import Counts

PLACE = ("log", 0)


def test_what_was_taken_from_a_member_before_it_could_commit_is_never_committed(monkeypatch) -> None:
    """Else it would commit further than it has read since, and then go back."""
    given = context("nowhere:1", MemoryRecorder(), topics={"log": 1})
    commits: list[dict[tuple[str, int], int]] = []

    class TakenAndGivenBack:
        """The third poll takes the partition and gives it back at an earlier offset; every commit is refused."""

        def __init__(self, *_: object, settle: Callable[[list[Message], bool], None], **__: object) -> None:
            self.reached = {PLACE: 0}
            self._settle, self._polls = settle, 0

        def poll(self, most: int, within_s: float) -> list[Message]:
            self._polls += 1
            if self._polls == 3:
                self._settle([], True)
                self.reached = {}
                self._settle([], True)
                self.reached = {PLACE: 3}
                given.stop.set()
            return [Message(topic="log", partition=0, offset=7)] if self._polls == 1 else []

        def commit(self, positions: dict[tuple[str, int], int], retry_backoff_s: float) -> Outcome:
            commits.append(dict(positions))
            return Outcome.FAIL

        def leave(self) -> bool:
            return True

    monkeypatch.setattr(groups, "Membership", TakenAndGivenBack)
    groups.Member(given, GroupSettings(stay_ms=None), 0).run()
    assert commits == [{PLACE: 8}] * 3, "after two polls and when it was taken, but not when it was given back"


def test_a_member_that_leaves_gives_its_partitions_back_before_it_closes(monkeypatch) -> None:
    """A librdkafka that closes may have forgotten the group already when it calls back."""

    class Client:
        def __init__(self, *_: object) -> None:
            self.steps: list[str] = []

        def subscribe(self, topics: list[str], **callbacks: Callable[[Any, list[TopicPartition]], None]) -> None:
            self._callbacks = callbacks

        def consumer_group_metadata(self) -> bytes:
            if "close" in self.steps:
                raise RuntimeError("Consumer group metadata not available")
            return b"CGMDv2:\x05\0\0\0krash\0one\0\0"

        def committed(self, given: list[TopicPartition], timeout: float) -> list[TopicPartition]:
            return given

        def poll(self, timeout: float) -> None:
            step = "on_revoke" if "unsubscribe" in self.steps else "on_assign"
            self._callbacks[step](self, [TopicPartition(*PLACE)])

        def assign(self, places: list[TopicPartition]) -> None:
            self.steps.append("assign")

        def unassign(self) -> None:
            self.steps.append("unassign")

        def unsubscribe(self) -> None:
            self.steps.append("unsubscribe")

        def close(self) -> None:
            self.steps.append("close")
            self._callbacks["on_revoke"](self, [TopicPartition(*PLACE)])

    client, recorder = Client(), MemoryRecorder()
    monkeypatch.setattr(clients, "new_consumer", lambda config: client)
    member = Membership(
        recorder,
        Counts(),
        client="w1.m0-1",
        group="krash",
        config={"partition.assignment.strategy": "range"},
        topics=["log"],
        value_bytes=10,
        settle=lambda records, may_commit: None,
    )
    member.poll(1, 0)
    assert member.leave()
    assert client.steps == ["assign", "unsubscribe", "unassign", "close"]
    assert [op.positions.generation for op in recorder.of(OpKind.REVOKE) if op.positions] == [5]


def test_what_an_ending_raises_in_time_comes_out_and_what_it_raises_later_bothers_nobody() -> None:
    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        clients.bounded(fails, 60)

    go_on, late = threading.Event(), threading.Event()

    def fails_later() -> None:
        go_on.wait(60)
        late.set()
        raise ValueError("no")

    assert not clients.bounded(fails_later, 0.01)
    go_on.set()
    assert late.wait(60)
