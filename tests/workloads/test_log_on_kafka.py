"""The workload on real Apache Kafka: one broker on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.workloads.loopback_kafka import LoopbackKafka, loopback_kafka
from tests.workloads.recording import MemoryRecorder, context
from tests.workloads.running import ONE_BY_ONE, UNSAFE, assert_positions_grow, readers, running, sent
from workloads import drain
from workloads.log import LogWorkload
from workloads.op import OpKind, Outcome, Phase

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackKafka]:
    with loopback_kafka(tmp_path_factory.mktemp("kafka") / "cluster") as cluster:
        yield cluster


def test_what_is_acknowledged_is_read_back_with_epochs_and_timestamps(kafka):
    kafka.create("back", 3, 1)
    topics, recorder = {"back": 3}, MemoryRecorder()
    settings = {"producers": 2, "in_flight": 100, "consumer_mode": "assign", "value_bytes": 200}
    with running(context(kafka.bootstrap, recorder, topics=topics, settings=settings, rate=2000)):
        recorder.wait_for(lambda r: len(r.sends(Outcome.OK)) > 1000 and len(r.read()) > 500, within_s=60)
    LogWorkload().drain(context(kafka.bootstrap, recorder, topics=topics, settings=settings), deadline_s=30)

    sends = recorder.sends()
    assert {send.outcome for send in sends} == {Outcome.OK}
    assert recorder.read(Phase.FINAL) == {(send.topic, send.partition, send.offset): send.value for send in sends}
    assert all(span.error is None and span.read_to == span.log_end for span in recorder.spans)
    times = {(send.topic, send.partition, send.offset): send.timestamp_ms for send in sends}
    for op in recorder.of(OpKind.POLL):
        if op.reads:
            assert set(op.reads.leader_epochs) == {0}
            places = zip(*op.reads[:3], strict=True)
            assert all(times[at] == told for at, told in zip(places, op.reads.timestamps_ms, strict=True))
    assert_positions_grow(recorder)


def test_a_group_rebalances_when_a_client_joins_and_positions_stay_sound(kafka):
    kafka.create("group", 4, 1)
    recorder, topics = MemoryRecorder(), {"group": 4}
    settings = {"producers": 1, "consumers": 1, "consumer_mode": "subscribe", "in_flight": 50, "group": "rebalancing"}
    first = context(kafka.bootstrap, recorder, topics=topics, settings=settings, rate=400, clients=2)
    second = context(kafka.bootstrap, recorder, topics=topics, settings=settings, rate=400, clients=2, index=1)
    with running(first):
        recorder.wait_for(lambda r: readers(r) >= {("w1.c0", p) for p in range(4)}, within_s=60)
        with running(second):
            recorder.wait_for(lambda r: len({p for c, p in readers(r) if c == "w2.c0"}) == 2, within_s=60)
        seen = len(recorder.ops)
        recorder.wait_for(
            lambda r: {op.partition for op in r.ops[seen:] if op.kind == OpKind.ASSIGN} == set(range(4)), within_s=60
        )
    assert len({op.process for op in recorder.of(OpKind.ASSIGN) if op.client == "w1.c0"}) >= 3
    assert_positions_grow(recorder)
    assert all(op.completed_ns is not None for op in recorder.of(OpKind.POLL))


def test_a_broker_that_refuses_at_once_makes_a_failure(kafka):
    kafka.create("small", 1, 1, **{"max.message.bytes": "500"})
    recorder = MemoryRecorder()
    settings = ONE_BY_ONE | UNSAFE | {"value_bytes": 2000, "retry_backoff_ms": 2000}
    with running(context(kafka.bootstrap, recorder, topics={"small": 1}, settings=settings, rate=50)):
        recorder.wait_for(sent(3, Outcome.FAIL), within_s=60)
    assert {send.error for send in recorder.sends()} == {"MESSAGE_TOO_LARGE"}
    assert not recorder.sends(Outcome.OK)
    LogWorkload().drain(context(kafka.bootstrap, recorder, topics={"small": 1}), 30)
    assert [(span.log_end, span.error) for span in recorder.spans] == [(0, None)]


def test_a_deleted_topic_is_gone(kafka, monkeypatch):
    monkeypatch.setattr(drain, "GONE_AFTER_S", 1.0)
    kafka.create("kept", 1, 1)
    kafka.create("deleted", 1, 1)
    kafka.delete("deleted")
    recorder = MemoryRecorder()
    LogWorkload().drain(context(kafka.bootstrap, recorder, topics={"kept": 1, "deleted": 1}), 60)
    assert {span.topic: span.error for span in recorder.spans} == {
        "kept": None,
        "deleted": "UNKNOWN_TOPIC_OR_PARTITION",
    }
