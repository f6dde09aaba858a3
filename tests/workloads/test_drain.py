"""The final read, against mock brokers and against a scripted consumer for what mock brokers cannot do."""

from __future__ import annotations

import queue
import time
from collections import Counter

import pytest
from confluent_kafka import KafkaError, Producer

from tests.workloads.mock_cluster import FETCH, MockCluster
from tests.workloads.recording import BoundsRow, MemoryRecorder, context
from workloads import drain
from workloads.drain import GONE, Drainer, _Span
from workloads.log import LogWorkload
from workloads.op import OpKind, Outcome, Phase
from workloads.settings import Settings


def fill(mock: MockCluster, topic: str, partition: int, values: range) -> None:
    producer = Producer({"bootstrap.servers": mock.bootstrap})
    for number in values:
        producer.produce(topic, f"{topic}/{partition}/0/{number}", partition=partition)
    assert producer.flush(30) == 0


def drained(mock: MockCluster, topics: dict[str, int], *, deadline_s: float = 30, **settings: object) -> MemoryRecorder:
    recorder = MemoryRecorder()
    LogWorkload().drain(context(mock.bootstrap, recorder, topics=topics, settings=settings), deadline_s)
    return recorder


def test_every_partition_is_read_from_start_to_end(mock):
    mock.create("log", 3)
    for partition in (0, 2):
        fill(mock, "log", partition, range(2500))
    recorder = drained(mock, {"log": 3}, poll_records=400)
    assert sorted((s.partition, s.log_start, s.log_end, s.read_to, s.error) for s in recorder.spans) == [
        (0, 0, 2500, 2500, None),
        (1, 0, 0, 0, None),
        (2, 0, 2500, 2500, None),
    ]
    assert recorder.read(Phase.FINAL) == {
        ("log", partition, offset): f"log/{partition}/0/{offset}" for partition in (0, 2) for offset in range(2500)
    }
    assert {op.phase for op in recorder.ops} == {Phase.FINAL}
    assert all(op.outcome is Outcome.OK for op in recorder.ops)
    assert all(recorder.ops[span.op].kind is OpKind.BOUNDS for span in recorder.spans)


def test_a_log_that_was_cut_at_its_start_is_read_from_there(mock):
    mock.create("log", 1)
    fill(mock, "log", 0, range(100))
    mock.delete_records("log", 0, 40)
    recorder = drained(mock, {"log": 1})
    (span,) = recorder.spans
    assert (span.log_start, span.read_to, span.error) == (40, 100, None)
    assert min(offset for _, _, offset in recorder.read(Phase.FINAL)) == 40


def test_what_lands_while_it_reads_is_read_too(mock):
    mock.create("log", 1)
    fill(mock, "log", 0, range(50))

    class LateSend(MemoryRecorder):
        late = True

        def complete(self, op, outcome, **rest):
            super().complete(op, outcome, **rest)
            if self.late and self.ops[op].kind is OpKind.BOUNDS:
                self.late = False
                fill(mock, "log", 0, range(50, 60))

    recorder = LateSend()
    LogWorkload().drain(context(mock.bootstrap, recorder, topics={"log": 1}), 30)
    (span,) = recorder.spans
    assert (span.log_end, span.read_to, span.error) == (60, 60, None)
    assert len(recorder.read(Phase.FINAL)) == 60


def test_clients_share_the_partitions(mock):
    mock.create("log", 5)
    for partition in range(5):
        fill(mock, "log", partition, range(10))
    recorders = [MemoryRecorder(), MemoryRecorder()]
    for index, recorder in enumerate(recorders):
        LogWorkload().drain(context(mock.bootstrap, recorder, topics={"log": 5}, index=index, clients=2), 30)
    assert [{span.partition for span in recorder.spans} for recorder in recorders] == [{0, 2, 4}, {1, 3}]


def test_a_partition_that_cannot_be_read_in_time_is_recorded_as_such(mock):
    mock.create("log", 1)
    fill(mock, "log", 0, range(20))
    mock.answer(FETCH, *[KafkaError.UNKNOWN] * 1000)
    recorder = drained(mock, {"log": 1}, deadline_s=1.5)
    (span,) = recorder.spans
    assert (span.log_start, span.log_end, span.read_to, span.error) == (0, 20, 0, "_TIMED_OUT")
    assert recorder.ops[span.op].outcome is Outcome.FAIL


def test_brokers_that_do_not_answer_leave_no_offsets(mock):
    mock.create("log", 1)
    for broker in (1, 2, 3):
        mock.down(broker)
    recorder = drained(mock, {"log": 1}, deadline_s=1)
    (span,) = recorder.spans
    assert (span.log_start, span.log_end, span.read_to) == (None, None, None)
    assert span.error not in (None, GONE)


def test_a_topic_that_stays_unknown_is_gone(mock, monkeypatch):
    monkeypatch.setattr(drain, "GONE_AFTER_S", 0.5)
    mock.create("log", 1)
    mock.refuse("gone", KafkaError.UNKNOWN_TOPIC_OR_PART)
    recorder = drained(mock, {"log": 2, "gone": 1})
    assert {(s.topic, s.partition): s.error for s in recorder.spans} == {
        ("log", 0): None,
        ("log", 1): GONE,  # the topic has one partition only
        ("gone", 0): GONE,
    }


class Scripted:
    """A consumer of one partition whose ListOffsets answers are given; it has the records `log` and reads 10 a poll.

    At a batch that is torn (any offset of a range) it gives an error, and then what is behind it, as librdkafka does with a response that
    has more; `torn` says for each range how many times that happens.
    """

    def __init__(self, answers: list[tuple[int, int]], log: list[str], torn: dict[range, int] | None = None) -> None:
        self.answers, self.log, self.position, self.torn = answers, log, 0, torn or {}

    def get_watermark_offsets(self, *_, **__):
        return self.answers.pop(0)

    def assign(self, positions):
        self.position = positions[0].offset

    def unassign(self): ...

    def consume(self, *_):
        live = [offsets for offsets, left in self.torn.items() if left]
        until = min((one.start for one in live if one.start > self.position), default=len(self.log))
        for offsets in live:
            if self.position in offsets:
                self.torn[offsets] -= 1
                self.position = offsets.stop
                return [Torn(offsets.start, ""), *self.consume()]
        taken = [Stored(offset, value) for offset, value in enumerate(self.log)][self.position : self.position + 10]
        taken = [one for one in taken if one.offset() < until]
        self.position += len(taken)
        return taken


class Stored:
    def __init__(self, offset: int, value: str) -> None:
        self._offset, self._value = offset, value

    def topic(self):
        return "log"

    def partition(self):
        return 0

    def offset(self):
        return self._offset

    def value(self):
        return self._value.encode()

    def error(self): ...

    def leader_epoch(self):
        return 3

    def timestamp(self):
        return (1, 1234)


class Torn(Stored):
    def error(self):
        return KafkaError(KafkaError._BAD_MSG)


def drain_scripted(
    answers: list[tuple[int, int]], torn: dict[range, int] | None = None
) -> tuple[MemoryRecorder, BoundsRow]:
    recorder = MemoryRecorder()
    drainer = Drainer(
        context("nowhere", recorder, topics={"log": 1}), Settings(), 0, queue.SimpleQueue(), time.monotonic() + 30
    )
    drainer._drain(Scripted(answers, [f"log/0/0/{n}" for n in range(30)], torn), _Span("log", 0))
    (span,) = recorder.spans
    return recorder, span


def test_a_log_truncated_under_the_reader_is_read_again_by_a_new_process():
    recorder, span = drain_scripted([(0, 30), (0, 20), (0, 20)])
    assert (span.log_end, span.read_to, span.error) == (20, 20, None)
    polls = recorder.of(OpKind.POLL)
    first, again = polls[:3], polls[3:]
    assert [op.reads.offsets[0] for op in again] == [0, 10]
    assert {op.process for op in first}.isdisjoint(op.process for op in again)


def test_a_log_start_that_overtakes_the_reader_moves_it_on():
    recorder, span = drain_scripted([(0, 10), (25, 30), (25, 30)])
    assert (span.log_start, span.log_end, span.read_to) == (25, 30, 30)
    assert [op.reads.offsets[0] for op in recorder.of(OpKind.POLL)] == [0, 25]


def test_bounds_are_asked_again_after_the_read():
    recorder, span = drain_scripted([(0, 30), (0, 30)])
    asked = recorder.of(OpKind.BOUNDS)
    last_poll = recorder.of(OpKind.POLL)[-1]
    assert len(asked) == 2
    assert span.op == asked[1].op
    assert asked[1].invoked_ns > last_poll.completed_ns


@pytest.mark.parametrize("error", [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE])
def test_only_a_missing_topic_counts_as_missing(mock, error):
    mock.create("log", 1)
    mock.refuse("log", error)
    recorder = drained(mock, {"log": 1}, deadline_s=0.5)
    (span,) = recorder.spans
    assert span.error != GONE  # not long enough, or not missing at all


def drain_committed(stable: list[int], log_end: int, *, wait_ms: int = 300) -> tuple[MemoryRecorder, BoundsRow]:
    """`stable`: the last stable offset, answer by answer; the last one stays."""
    recorder = MemoryRecorder()
    settings = Settings(isolation="read_committed", stable_wait_ms=wait_ms)
    drainer = Drainer(
        context("nowhere", recorder, topics={"log": 1}), settings, 0, queue.SimpleQueue(), time.monotonic() + 30
    )
    values = [f"log/0/0/{n}" for n in range(log_end)]
    reader, watcher = Scripted([], values), Scripted([], values)
    reader.get_watermark_offsets = lambda *_, **__: (0, stable.pop(0) if len(stable) > 1 else stable[0])
    watcher.get_watermark_offsets = lambda *_, **__: (0, log_end)
    drainer._watcher = watcher
    drainer._drain(reader, _Span("log", 0))
    (span,) = recorder.spans
    return recorder, span


def test_a_committed_read_waits_for_open_transactions():
    recorder, span = drain_committed([10, 10, 10, 30], 30, wait_ms=20_000)
    assert (span.log_end, span.stable_end, span.read_to, span.error) == (30, 30, 30, None)
    assert len(recorder.read(Phase.FINAL)) == 30


def test_a_committed_read_says_where_a_transaction_that_never_ends_stopped_it():
    recorder, span = drain_committed([10], 30)
    assert (span.log_end, span.stable_end, span.read_to, span.error) == (30, 10, 10, None)
    assert recorder.ops[span.op].outcome is Outcome.OK
    assert len(recorder.read(Phase.FINAL)) == 10


def test_the_last_stable_offset_is_asked_for_when_it_matters(mock):
    mock.create("log", 1)
    fill(mock, "log", 0, range(20))
    (plain,), (committed,) = (
        drained(mock, {"log": 1}, isolation=level).spans for level in ("read_uncommitted", "read_committed")
    )
    assert (plain.stable_end, plain.read_to) == (None, 20)
    assert (committed.stable_end, committed.log_end, committed.read_to) == (20, 20, 20)


ALWAYS = 1_000
ASKED = 100  # more often than anybody needs


@pytest.mark.parametrize("torn", [range(13, 17), range(0, 4), range(25, 30)])
def test_what_no_client_can_read_is_stepped_over_and_nothing_else(torn, monkeypatch):
    monkeypatch.setattr(drain, "AGAIN_S", 0.001)
    recorder, span = drain_scripted([(0, 30)] * ASKED, {torn: ALWAYS})
    assert (span.log_end, span.read_to, span.error) == (30, 30, None)
    assert {offset for _, _, offset in recorder.read(Phase.FINAL)} == set(range(30)) - set(torn)
    failed = [op for op in recorder.of(OpKind.POLL) if op.outcome is Outcome.FAIL]
    assert {op.error for op in failed} == {"_BAD_MSG"}
    tries = Counter(op.process for op in failed)
    assert len(tries) == len(torn), "whoever seeks is another process: it has not skipped anything by itself"
    assert min(tries.values()) >= drain.STUCK_TRIES


def test_what_is_unreadable_for_a_moment_is_read(monkeypatch):
    monkeypatch.setattr(drain, "AGAIN_S", 0.001)
    recorder, span = drain_scripted([(0, 30)] * ASKED, {range(5, 9): drain.STUCK_TRIES - 1, range(12, 20): 1})
    assert (span.read_to, span.error) == (30, None)
    assert {offset for _, _, offset in recorder.read(Phase.FINAL)} == set(range(30))


def test_what_was_unreadable_elsewhere_does_not_count_against_the_place_that_is_read_next(monkeypatch):
    monkeypatch.setattr(drain, "AGAIN_S", 0.001)
    asked = [(0, 30)] * drain.STUCK_TRIES + [(25, 30)] * ASKED
    recorder, span = drain_scripted(asked, {range(20, 22): ALWAYS, range(25, 26): 1})
    assert (span.log_start, span.read_to, span.error) == (25, 30, None)
    assert {offset for _, _, offset in recorder.read(Phase.FINAL)} == {*range(20), *range(25, 30)}
