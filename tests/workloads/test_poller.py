"""Consumers: who reads what, and what a rebalance in the middle of a poll leaves in the history."""

from __future__ import annotations

import threading
import time

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

from tests.workloads.recording import MemoryRecorder, context
from tests.workloads.test_drain import Stored
from workloads import clients
from workloads.op import OpKind, Outcome
from workloads.poller import REREAD, Poller, share
from workloads.settings import Settings
from workloads.workload import TopicFacts

TOPICS = (TopicFacts(name="log", partitions=3), TopicFacts(name="other", partitions=1))


@pytest.mark.parametrize("readers", [1, 2, 3, 4, 7])
def test_every_partition_has_a_reader_and_every_reader_a_partition(readers):
    shares = [share(TOPICS, index, readers) for index in range(readers)]
    assert all(shares)
    assert {p for s in shares for p in s} == {("log", 0), ("log", 1), ("log", 2), ("other", 0)}


class Failed:
    def __init__(self, code: int, partition: int | None) -> None:
        self._error, self._partition = KafkaError(code), partition

    def error(self):
        return self._error

    def topic(self):
        return None if self._partition is None else "log"

    def partition(self):
        return self._partition


class Scripted:
    """A consumer whose polls return, raise or call what the script says."""

    def __init__(self, *script) -> None:
        self.script = list(script)
        self.assigned: list[list[tuple[int, int]]] = []

    def consume(self, *_):
        step = self.script.pop(0)
        return step() if callable(step) else step

    def assign(self, positions):
        self.assigned.append([(position.partition, position.offset) for position in positions])

    def assignment(self):
        return [TopicPartition("log", 0), TopicPartition("log", 1)]

    def position(self, positions):
        return [TopicPartition(p.topic, p.partition, [5000, -1001][p.partition]) for p in positions]

    def committed(self, positions, timeout):
        return [TopicPartition(p.topic, p.partition, [700, -1001][p.partition]) for p in positions]

    def get_watermark_offsets(self, *_, **__):
        return (100, 3000)


def poller(recorder: MemoryRecorder) -> Poller:
    return Poller(context("nowhere", recorder, topics={"log": 2}), Settings(), 0)


def test_a_rebalance_in_the_middle_of_a_poll_starts_a_new_process():
    recorder = MemoryRecorder()
    reader = poller(recorder)

    def rebalance():
        reader._on_revoke(consumer, [TopicPartition("log", 0)])
        reader._on_assign(consumer, [TopicPartition("log", 0), TopicPartition("log", 1)])
        return [Stored(700, "log/0/0/0")]

    consumer = Scripted([Stored(699, "log/0/0/0")], rebalance)
    reader._poll_once(consumer)
    reader._poll_once(consumer)

    before, cut_short, between, after = recorder.of(OpKind.POLL)
    assert before.process == cut_short.process
    assert (cut_short.outcome, cut_short.reads) == (Outcome.OK, None)
    assert len({cut_short.process, between.process, after.process}) == 3
    assert after.reads.offsets == [700]
    given = recorder.of(OpKind.ASSIGN)
    assert {(op.process, op.topic, op.partition) for op in given} == {(after.process, "log", p) for p in (0, 1)}
    assert consumer.assigned == [[(0, 700), (1, OFFSET_BEGINNING)]]


def test_an_error_on_one_partition_moves_only_that_one_and_starts_a_new_process():
    recorder = MemoryRecorder()
    reader = poller(recorder)
    consumer = Scripted([Failed(KafkaError._AUTO_OFFSET_RESET, 0)], [])
    reader._poll_once(consumer)
    reader._poll_once(consumer)
    lost, after = recorder.of(OpKind.POLL)
    assert (lost.outcome, lost.error) == (Outcome.FAIL, "_AUTO_OFFSET_RESET")
    assert after.process != lost.process
    assert consumer.assigned == [[(0, 3000 - REREAD), (1, OFFSET_BEGINNING)]]


def test_an_error_of_the_whole_client_moves_nothing():
    recorder = MemoryRecorder()
    reader = poller(recorder)
    consumer = Scripted([Failed(KafkaError._ALL_BROKERS_DOWN, None), Stored(5, "log/0/0/5")], [])
    reader._poll_once(consumer)
    reader._poll_once(consumer)
    first, second = recorder.of(OpKind.POLL)
    assert (first.outcome, first.error, first.reads.offsets) == (Outcome.OK, "_ALL_BROKERS_DOWN", [5])
    assert first.process == second.process
    assert consumer.assigned == []


def test_a_poll_that_raises_may_have_lost_records_so_it_starts_a_new_process():
    recorder = MemoryRecorder()
    reader = poller(recorder)

    def fail():
        raise KafkaException(KafkaError(KafkaError._FAIL))

    consumer = Scripted(fail, [])
    reader._poll_once(consumer)
    reader._poll_once(consumer)
    failed, after = recorder.of(OpKind.POLL)
    assert (failed.outcome, failed.error) == (Outcome.FAIL, "_FAIL")
    assert failed.process != after.process


@pytest.mark.parametrize(
    ("mode", "ways"),
    [
        ("assign", {"w1.c0": OpKind.ASSIGN, "w1.c1": OpKind.ASSIGN}),
        ("subscribe", {"w1.c0": OpKind.SUBSCRIBE, "w1.c1": OpKind.SUBSCRIBE}),
        ("both", {"w1.c0": OpKind.ASSIGN, "w1.c1": OpKind.SUBSCRIBE}),
    ],
)
def test_consumers_take_up_partitions_the_way_the_settings_say(mode, ways):
    recorder = MemoryRecorder()

    class Taking(Scripted):
        def subscribe(self, topics, **callbacks): ...

    settings = Settings(consumers=2, consumer_mode=mode)
    for index in range(2):
        Poller(context("nowhere", recorder, topics={"log": 2}), settings, index)._take_up(Taking())
    assert {op.client: op.kind for op in recorder.ops} == ways


def test_nobody_waits_for_a_coordinator_that_is_gone(monkeypatch):
    """librdkafka tells it that the reader leaves, and waits for its answer; what a reader commits then counts for nothing."""
    gone, answers = threading.Event(), threading.Event()

    class Leaving(Scripted):
        def subscribe(self, topics, **callbacks): ...

        def close(self):
            gone.set()
            answers.wait(60)

    given = context("nowhere", MemoryRecorder(), topics={"log": 2})
    given.stop.set()
    monkeypatch.setattr(clients, "new_consumer", lambda config: Leaving())
    monkeypatch.setattr("workloads.poller.LEAVE_S", 0.01)
    began = time.monotonic()
    Poller(given, Settings(consumer_mode="subscribe"), 0).run()
    took = time.monotonic() - began
    answers.set()
    assert gone.is_set()
    assert took < clients.CLOSE_S
