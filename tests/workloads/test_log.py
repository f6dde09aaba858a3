"""The workload against librdkafka's mock brokers: a real protocol, and errors on demand."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from itertools import pairwise

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from tests.workloads.mock_cluster import FETCH, OFFSET_COMMIT, PRODUCE, MockCluster
from tests.workloads.recording import MemoryRecorder, context
from tests.workloads.running import ONE_BY_ONE, UNSAFE, assert_positions_grow, readers, running, sent
from workloads.log import LogWorkload
from workloads.op import OpKind, Outcome, Phase
from workloads.values import padded


def test_what_is_acknowledged_is_read_at_its_offset(mock):
    mock.create("log", 3)
    mock.create("other", 1)
    topics, recorder = {"log": 3, "other": 1}, MemoryRecorder()
    settings = {"producers": 2, "in_flight": 100, "consumer_mode": "assign", "value_bytes": 60}
    with running(context(mock.bootstrap, recorder, topics=topics, settings=settings, rate=3000)):
        recorder.wait_for(sent(1500))
    LogWorkload().drain(context(mock.bootstrap, recorder, topics=topics, settings=settings), deadline_s=30)

    sends = recorder.sends()
    assert all(send.outcome is Outcome.OK for send in sends)
    stored = {(send.topic, send.partition, send.offset): send.value for send in sends}
    assert len(stored) == len(sends)
    assert recorder.read(Phase.FINAL) == stored
    assert recorder.read(Phase.MAIN).items() <= stored.items()
    assert {(span.topic, span.partition) for span in recorder.spans} == {
        ("log", 0),
        ("log", 1),
        ("log", 2),
        ("other", 0),
    }
    assert all(span.error is None and span.log_start == 0 and span.read_to == span.log_end for span in recorder.spans)
    assert sum(span.log_end for span in recorder.spans) == len(sends)


def test_values_say_who_sent_them_and_sequences_follow_the_order_of_invocation(mock):
    mock.create("log", 2)
    recorder = MemoryRecorder()
    settings = {"producers": 2, "consumers": 0, "in_flight": 50}
    with running(context(mock.bootstrap, recorder, topics={"log": 2}, settings=settings)):
        recorder.wait_for(sent(500))

    sequences = defaultdict(list)
    for send in recorder.sends():
        assert send.value == f"{send.topic}/{send.partition}/{send.process}/{send.sequence}"
        sequences[send.client, send.topic, send.partition].append(send.sequence)
    assert sequences.keys() == {(client, "log", partition) for client in ("w1.p0", "w1.p1") for partition in (0, 1)}
    assert all(numbers == list(range(len(numbers))) for numbers in sequences.values())
    values = [send.value for send in recorder.sends()]
    assert len(set(values)) == len(values)
    for (client, _, partition), _ in sequences.items():
        mine = [s for s in recorder.sends(Outcome.OK) if (s.client, s.partition) == (client, partition)]
        by_sequence = sorted(mine, key=lambda send: send.sequence)
        assert [send.offset for send in by_sequence] == sorted(send.offset for send in mine)


def test_a_process_does_one_op_at_a_time(mock):
    mock.create("log", 1)
    mock.round_trip(5)
    recorder = MemoryRecorder()
    settings = {"producers": 2, "consumers": 2, "in_flight": 20, "consumer_mode": "assign"}
    with running(context(mock.bootstrap, recorder, topics={"log": 1}, settings=settings)):
        recorder.wait_for(sent(300))

    ops = defaultdict(list)
    for op in recorder.ops:
        ops[op.process].append(op)
    for process, mine in ops.items():
        for earlier, later in pairwise(mine):
            assert earlier.completed_ns is not None, process
            assert earlier.completed_ns <= later.invoked_ns, process


def test_one_in_flight_waits_for_every_answer(mock):
    mock.create("log", 2)
    recorder = MemoryRecorder()
    with running(context(mock.bootstrap, recorder, topics={"log": 2}, settings=ONE_BY_ONE)):
        recorder.wait_for(sent(50))
    sends = recorder.sends()
    assert len({send.process for send in sends}) == 1
    assert all(a.completed_ns <= b.invoked_ns for a, b in pairwise(sends))


def test_the_rate_is_shared_and_honoured(mock):
    mock.create("log", 1)
    recorder, reports = MemoryRecorder(), []
    settings = {"producers": 2, "consumers": 0, "in_flight": 50}
    given = context(
        mock.bootstrap, recorder, topics={"log": 1}, settings=settings, rate=400, clients=2, progress=reports.append
    )
    with running(given):
        recorder.wait_for(sent(300))
    first, last = recorder.sends()[0], recorder.sends()[-1]
    rate = len(recorder.sends()) / ((last.invoked_ns - first.invoked_ns) / 1e9)
    assert 100 < rate < 250  # half of 400: there are two clients
    by_client = Counter(send.client for send in recorder.sends())
    assert abs(by_client["w1.p0"] - by_client["w1.p1"]) <= 30
    assert reports[-1]["attempted"] == len(recorder.sends())
    assert reports[-1]["acknowledged"] == len(recorder.sends(Outcome.OK))


def test_the_same_seed_sends_the_same_plan(mock):
    mock.create("log", 4)

    def plan(seed: int) -> list[int]:
        recorder = MemoryRecorder()
        with running(context(mock.bootstrap, recorder, topics={"log": 4}, settings=ONE_BY_ONE, seed=seed)):
            recorder.wait_for(sent(200, None))
        return [send.partition for send in recorder.sends()][:200]

    assert plan(7) == plan(7) != plan(8)


def test_a_partition_that_does_not_answer_leaves_the_others_their_slots(mock):
    mock.create("log", 2)
    mock.lead("log", 0, 1)
    mock.lead("log", 1, 2)
    recorder = MemoryRecorder()
    settings = {"producers": 1, "consumers": 0, "in_flight": 20, "finish_ms": 300}

    def acknowledged(partition: int) -> int:
        return len([send for send in recorder.sends(Outcome.OK) if send.partition == partition])

    with running(context(mock.bootstrap, recorder, topics={"log": 2}, settings=settings, rate=2000)):
        recorder.wait_for(lambda r: acknowledged(0) and acknowledged(1))
        mock.down(1)
        recorder.wait_for(
            lambda r: len([send for send in r.sends() if send.partition == 0 and send.outcome is None]) == 10
        )
        silent, other = acknowledged(0), acknowledged(1)
        recorder.wait_for(lambda r: acknowledged(1) > other + 200)
        assert acknowledged(0) == silent


def test_an_invocation_is_recorded_before_its_record_is_sent(mock):
    mock.create("log", 1)
    mock.count_requests()
    seen = []

    class Watching(MemoryRecorder):
        def invoke_sends(self, **columns):
            before = mock.requests()[PRODUCE]
            ops = super().invoke_sends(**columns)
            seen.append((before, len(self.sends())))
            return ops

    recorder = Watching()
    with running(context(mock.bootstrap, recorder, topics={"log": 1}, settings=ONE_BY_ONE)):
        recorder.wait_for(sent(20))
    assert all(requests < invoked for requests, invoked in seen)


def test_a_refused_first_attempt_is_a_failure_and_the_process_goes_on(mock):
    mock.create("log", 1)
    recorder = MemoryRecorder()
    settings = ONE_BY_ONE | UNSAFE | {"retry_backoff_ms": 2000}
    with running(context(mock.bootstrap, recorder, topics={"log": 1}, settings=settings)):
        recorder.wait_for(sent(5))
        mock.answer(PRODUCE, KafkaError.NOT_ENOUGH_REPLICAS)
        recorder.wait_for(sent(1, Outcome.FAIL))
        after = len(recorder.sends(Outcome.OK))
        recorder.wait_for(sent(after + 5))
    (failed,) = recorder.sends(Outcome.FAIL)
    assert (failed.error, failed.offset) == ("NOT_ENOUGH_REPLICAS", None)
    assert len({send.process for send in recorder.sends()}) == 1


def test_a_refusal_after_an_uncounted_retry_is_unknown(mock):
    """Even with `retries: 0` librdkafka sends again after NOT_LEADER_OR_FOLLOWER, and the first attempt may have been
    appended."""
    mock.create("log", 1)
    mock.round_trip(1)
    recorder = MemoryRecorder()
    settings = ONE_BY_ONE | UNSAFE | {"retry_backoff_ms": 100}
    with running(context(mock.bootstrap, recorder, topics={"log": 1}, settings=settings)):
        recorder.wait_for(sent(5))
        mock.answer(PRODUCE, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.NOT_ENOUGH_REPLICAS)
        recorder.wait_for(lambda r: any(send.error for send in r.sends()))
    (refused,) = [send for send in recorder.sends() if send.error]
    assert (refused.error, refused.outcome) == ("NOT_ENOUGH_REPLICAS", Outcome.INFO)
    assert (
        refused.completed_ns - refused.invoked_ns > 80e6
    )  # librdkafka waited for the backoff: what the rule stands on


@pytest.mark.parametrize(
    "harmless",
    [
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError._TRANSPORT,
    ],
)
@pytest.mark.parametrize("safe", [{"idempotence": True}, {"idempotence": False, "retries": 5}])
def test_no_second_attempt_comes_before_half_of_the_backoff(mock, harmless, safe):
    """The claim that `fail` stands on, for every way into a retry."""
    mock.create("log", 1)
    recorder = MemoryRecorder()
    settings = ONE_BY_ONE | safe | {"retry_backoff_ms": 300}
    with running(context(mock.bootstrap, recorder, topics={"log": 1}, settings=settings)):
        recorder.wait_for(sent(3))
        mock.answer(PRODUCE, harmless, KafkaError.MSG_SIZE_TOO_LARGE)
        recorder.wait_for(lambda r: any(send.error for send in r.sends()))
    refused = next(send for send in recorder.sends() if send.error)
    assert (refused.error, refused.outcome) == ("MESSAGE_TOO_LARGE", Outcome.INFO)
    assert refused.completed_ns - refused.invoked_ns > 150e6


def test_after_an_unknown_outcome_the_slot_gets_a_new_process(mock):
    mock.create("log", 1)
    recorder = MemoryRecorder()
    settings = ONE_BY_ONE | UNSAFE
    with running(context(mock.bootstrap, recorder, topics={"log": 1}, settings=settings)):
        recorder.wait_for(sent(3))
        mock.answer(PRODUCE, KafkaError.REQUEST_TIMED_OUT)
        recorder.wait_for(sent(1, Outcome.INFO))
        after = len(recorder.sends(Outcome.OK))
        recorder.wait_for(sent(after + 3))
    (unknown,) = recorder.sends(Outcome.INFO)
    assert unknown.error == "REQUEST_TIMED_OUT"
    before = {send.process for send in recorder.sends() if send.op <= unknown.op}
    later = {send.process for send in recorder.sends() if send.op > unknown.op}
    assert len(before) == len(later) == 1
    assert before.isdisjoint(later)


def test_what_the_client_turns_down_itself_surely_did_not_happen(mock):
    mock.create("log", 1)
    recorder = MemoryRecorder()
    settings = ONE_BY_ONE | {"value_bytes": 5000, "producer_config": {"message.max.bytes": 2000}}
    with running(context(mock.bootstrap, recorder, topics={"log": 1}, settings=settings, rate=100)):
        recorder.wait_for(sent(3, Outcome.FAIL))
    assert {send.error for send in recorder.sends()} == {"MESSAGE_TOO_LARGE"}
    assert len({send.process for send in recorder.sends()}) == 1


def test_with_acks_0_nothing_is_known_to_have_happened(mock):
    mock.create("log", 1)
    recorder = MemoryRecorder()
    settings = ONE_BY_ONE | {"acks": 0, "idempotence": False}
    with running(context(mock.bootstrap, recorder, topics={"log": 1}, settings=settings, rate=200)):
        recorder.wait_for(sent(10, Outcome.INFO))
    assert {(send.outcome, send.error) for send in recorder.sends()} == {(Outcome.INFO, None)}
    assert len({send.process for send in recorder.sends()}) == len(recorder.sends())


def test_a_producer_with_a_fatal_error_is_replaced(mock):
    mock.create("log", 1)
    recorder = MemoryRecorder()
    with running(context(mock.bootstrap, recorder, topics={"log": 1}, settings=ONE_BY_ONE)):
        recorder.wait_for(sent(5))
        mock.answer(PRODUCE, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
        recorder.wait_for(lambda r: any(send.error for send in r.sends()))
        after = len(recorder.sends(Outcome.OK))
        recorder.wait_for(sent(after + 5))
    broken = next(send for send in recorder.sends() if send.error)
    assert (broken.error, broken.outcome) == ("OUT_OF_ORDER_SEQUENCE_NUMBER", Outcome.INFO)
    assert recorder.sends()[-1].process != broken.process
    sequences = [send.sequence for send in recorder.sends()]
    assert sequences == list(range(len(sequences)))


def test_stopping_is_bounded_and_what_was_not_answered_stays_open(mock):
    mock.create("log", 1)
    recorder = MemoryRecorder()
    settings = {"producers": 1, "consumers": 0, "in_flight": 20, "finish_ms": 300, "idempotence": False}  # or some wait
    given = context(mock.bootstrap, recorder, topics={"log": 1}, settings=settings)
    with running(given):
        recorder.wait_for(sent(20))
        for broker in (1, 2, 3):
            mock.down(broker)
        recorder.wait_for(lambda r: len([s for s in r.sends() if s.outcome is None]) == 20)
    still_open = [send for send in recorder.sends() if send.outcome is None]
    assert len(still_open) == 20
    assert all(send.completed_ns is None and send.error is None for send in still_open)


def test_of_what_a_silent_partition_is_to_get_the_client_has_five_and_the_rest_surely_did_not_happen(mock):
    mock.create("log", 1)
    recorder = MemoryRecorder()
    rate = 200
    slots = rate + 100  # more than a stalled sender catches up on at once
    settings = {"producers": 1, "consumers": 0, "in_flight": slots, "finish_ms": 300}
    with running(context(mock.bootstrap, recorder, topics={"log": 1}, settings=settings, rate=rate)):
        recorder.wait_for(sent(20))
        mock.round_trip(120_000)
        recorder.wait_for(lambda r: len([send for send in r.sends() if send.outcome is None]) == slots)
    unanswered = [send for send in recorder.sends() if send.outcome is not Outcome.OK]
    still_open = [send for send in unanswered if send.outcome is None]
    assert len(unanswered) == slots
    assert still_open == unanswered[: len(still_open)]  # the oldest
    assert {(send.outcome, send.error) for send in unanswered[len(still_open) :]} == {(Outcome.FAIL, "_PURGE_QUEUE")}


def test_what_waited_for_a_silent_partition_follows_in_its_order(mock):
    mock.create("log", 1)
    recorder = MemoryRecorder()
    settings = {"producers": 1, "consumers": 0, "in_flight": 50}
    with running(context(mock.bootstrap, recorder, topics={"log": 1}, settings=settings, rate=500)):
        recorder.wait_for(sent(20))
        for broker in (1, 2, 3):
            mock.down(broker)
        recorder.wait_for(lambda r: len([send for send in r.sends() if send.outcome is None]) == 50)
        before = len(recorder.sends())
        for broker in (1, 2, 3):
            mock.up(broker)
        recorder.wait_for(sent(before + 20))
    sends = sorted(recorder.sends(), key=lambda send: send.sequence)
    assert all(send.outcome is Outcome.OK for send in sends)
    assert [send.offset for send in sends] == list(range(len(sends)))


def test_stopping_is_bounded_when_no_broker_answers(mock):
    mock.create("log", 1)
    recorder = MemoryRecorder()
    settings = {"producers": 1, "consumers": 2, "in_flight": 5, "finish_ms": 200}
    given = context(mock.bootstrap, recorder, topics={"log": 1}, settings=settings, rate=100)
    with running(given):
        recorder.wait_for(lambda r: any(client == "w1.c1" for client, _ in readers(r)))
        mock.round_trip(120_000)
        recorder.wait_for(lambda r: len([s for s in r.sends() if s.outcome is None]) == 5)
        given.stop.set()
        began = time.monotonic()
    assert time.monotonic() - began < 60  # librdkafka alone takes minutes


def test_an_exception_in_a_worker_stops_the_client_and_comes_out(mock):
    mock.create("log", 1)

    class Full(MemoryRecorder):
        def complete_sends(self, **columns):
            raise OSError("no space left on device")

    given = context(mock.bootstrap, Full(), topics={"log": 1}, settings={"in_flight": 10})
    with pytest.raises(OSError, match="no space left"), running(given):
        assert given.stop.wait(30)


def test_consumers_in_a_group_split_the_partitions_and_renew_their_process_at_a_rebalance(mock):
    mock.create("log", 2)
    recorder = MemoryRecorder()
    settings = {"producers": 1, "consumers": 2, "in_flight": 10, "consumer_mode": "subscribe"}
    with running(context(mock.bootstrap, recorder, topics={"log": 2}, settings=settings, rate=200)):
        recorder.wait_for(
            lambda r: readers(r) in ({("w1.c0", 0), ("w1.c1", 1)}, {("w1.c0", 1), ("w1.c1", 0)}),
        )
    given = recorder.of(OpKind.ASSIGN)
    assert {op.partition for op in given} == {0, 1}
    assert all(op.outcome is Outcome.OK for op in given)
    for op in recorder.of(OpKind.POLL):
        if op.reads:
            mine = [a.partition for a in given if a.process == op.process]
            assert set(op.reads.partitions) <= set(mine)
    assert_positions_grow(recorder)


@pytest.mark.parametrize(("mode", "commits"), [("subscribe", True), ("assign", False)])
def test_only_members_of_the_group_commit_for_it(mock, mode, commits):
    mock.create("log", 1)
    mock.quick_groups()
    mock.count_requests()
    recorder = MemoryRecorder()
    settings = {"producers": 1, "consumers": 1, "in_flight": 10, "consumer_mode": mode}
    with running(context(mock.bootstrap, recorder, topics={"log": 1}, settings=settings, rate=200)):
        recorder.wait_for(lambda r: readers(r) == {("w1.c0", 0)})
    assert (mock.requests()[OFFSET_COMMIT] > 0) is commits


def test_a_lost_position_is_told_and_read_on_by_a_new_process(mock):
    mock.create("log", 1)
    fill(mock, "log", 50)
    recorder = MemoryRecorder()
    settings = {"producers": 0, "consumers": 1, "consumer_mode": "assign"}
    with running(context(mock.bootstrap, recorder, topics={"log": 1}, settings=settings)):
        recorder.wait_for(lambda r: len(r.read()) == 50)
        mock.answer(FETCH, *[KafkaError.OFFSET_OUT_OF_RANGE] * 3)
        recorder.wait_for(lambda r: any(op.error for op in r.of(OpKind.POLL)))
        fill(mock, "log", 1)
        recorder.wait_for(lambda r: len(r.read()) == 51)
    lost = next(op for op in recorder.of(OpKind.POLL) if op.error)
    assert (lost.error, lost.outcome) == ("_AUTO_OFFSET_RESET", Outcome.FAIL)
    again = recorder.ops[-1]
    assert again.process != lost.process
    assert any(op.process == again.process for op in recorder.of(OpKind.ASSIGN))
    assert_positions_grow(recorder)


def fill(mock: MockCluster, topic: str, records: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": mock.bootstrap})
    for number in range(records):
        producer.produce(topic, padded(f"{topic}/{partition}/0/{number}", 0), partition=partition)
    assert producer.flush(30) == 0


def test_what_the_brokers_never_heard_of_raises_no_exception(mock):
    recorder = MemoryRecorder()
    settings = ONE_BY_ONE | {"delivery_timeout_ms": 500}
    mock.refuse("gone", KafkaError.UNKNOWN_TOPIC_OR_PART)
    with running(context(mock.bootstrap, recorder, topics={"gone": 1}, settings=settings, rate=50)):
        recorder.wait_for(lambda r: any(send.error for send in r.sends()))
    assert all(send.outcome is not Outcome.OK for send in recorder.sends())


def test_bad_settings_are_refused_before_anything_is_sent(mock):
    recorder = MemoryRecorder()
    given = context(mock.bootstrap, recorder, topics={"log": 1}, settings={"acks": "1"})
    with pytest.raises(ValueError, match="idempotence needs acks: all"):
        LogWorkload().run(given)
    bad = context(mock.bootstrap, recorder, topics={"log": 1}, settings={"producer_config": {"no.such.property": 1}})
    with pytest.raises(KafkaException, match=r"no\.such\.property"):
        LogWorkload().run(bad)
    assert not recorder.sends()
