"""What recording costs: the same clients with and without it, in one run on real Kafka (3 brokers, RF 3, acks=all).

Other load on the machine would drown a difference of a few per cent between two runs, so there is one run and the
recorder is switched on and off every few seconds: each recorded slice is compared with the unrecorded one beside it,
and the median of the ratios counts. CPU time per record is printed too: it hardly depends on what else runs.

    python -m pytest -s tests/benchmarks/benchmark_recording.py
"""

from __future__ import annotations

import itertools
import shutil
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.history.arrow import spare_pandas
from harness.history.recorder import JournalRecorder
from tests.workloads.loopback_kafka import LoopbackKafka, loopback_kafka
from tests.workloads.recording import context
from workloads.log import LogWorkload
from workloads.workload import Reads

pytestmark = [pytest.mark.benchmark, pytest.mark.kafka, pytest.mark.timeout(900)]

SLICE_S = 2.0
PAIRS = 15


class Switched:
    """A recorder that can be switched off in flight. What was invoked while it was off has a negative number."""

    def __init__(self, journal: JournalRecorder) -> None:
        self._journal = journal
        self._unrecorded = itertools.count(-1, -1)
        self.on = True
        self.acknowledged = 0
        self.read = 0
        self.now_ns, self.new_process = journal.now_ns, journal.new_process
        self.flush, self.bounds = journal.flush, journal.bounds

    def invoke_sends(self, *, values: Sequence[str], **columns: Any) -> Sequence[int]:
        if self.on:
            return self._journal.invoke_sends(values=values, **columns)
        return [next(self._unrecorded) for _ in values]

    def complete_sends(self, *, ops: Sequence[int], **columns: Any) -> None:
        self.acknowledged += len(ops)
        if min(ops) < 0 <= max(ops):
            places = [place for place, op in enumerate(ops) if op >= 0]
            columns = {name: [column[place] for place in places] for name, column in columns.items()}
            ops = [ops[place] for place in places]
        if ops[0] >= 0:
            self._journal.complete_sends(ops=ops, **columns)

    def invoke(self, **op: Any) -> int:
        return self._journal.invoke(**op) if self.on else next(self._unrecorded)

    def complete(self, op: int, outcome: Any, *, reads: Reads | None = None, **rest: Any) -> None:
        self.read += len(reads.offsets) if reads else 0
        if op >= 0:
            self._journal.complete(op, outcome, reads=reads, **rest)


@dataclass(frozen=True)
class Slice:
    acknowledged: float  # per second
    read: float  # per second
    cpu_us: float  # of this process per record acknowledged


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackKafka]:
    spare_pandas()
    with loopback_kafka(tmp_path_factory.mktemp("kafka") / "cluster", brokers=3) as cluster:
        yield cluster


def compare(kafka: LoopbackKafka, topic: str, journal: Path, settings: dict[str, Any]) -> tuple[float, float]:
    """(recorded rate, recorded / unrecorded): medians over pairs of neighbouring slices. Prints what it saw."""
    kafka.create(
        topic, 4, 3, **{"min.insync.replicas": "2", "retention.bytes": "50000000", "segment.bytes": "10000000"}
    )
    journal.mkdir()
    with JournalRecorder(journal, run="benchmark", clock="here", writer=1, client="w1") as recorder:
        switched = Switched(recorder)
        given = context(kafka.bootstrap, switched, topics={topic: 4}, settings=settings)  # type: ignore[arg-type]
        worker = threading.Thread(target=LogWorkload().run, args=(given,))
        worker.start()
        given.stop.wait(4)  # connections, producer ids, JIT
        slices = [measure(switched, on=number % 2 == 1) for number in range(2 * PAIRS)]
        given.stop.set()
        worker.join()
    shutil.rmtree(journal)
    off, on = slices[::2], slices[1::2]
    ratio = statistics.median(b.acknowledged / a.acknowledged for a, b in zip(off, on, strict=True))
    for name, side in (("unrecorded", off), ("recorded", on)):
        print(
            f"{topic:12} {name:10} {statistics.median(s.acknowledged for s in side):8.0f} acknowledged/s "
            f"{statistics.median(s.read for s in side):8.0f} read/s "
            f"{statistics.median(s.cpu_us for s in side):6.1f} us CPU per record"
        )
    print(f"{topic:12} recorded / unrecorded = {ratio:.3f}")
    return statistics.median(s.acknowledged for s in on), ratio


def measure(switched: Switched, *, on: bool) -> Slice:
    switched.on = on
    began, acknowledged, read, cpu = time.monotonic(), switched.acknowledged, switched.read, time.process_time()
    threading.Event().wait(SLICE_S)
    seconds = time.monotonic() - began
    done = switched.acknowledged - acknowledged
    return Slice(done / seconds, (switched.read - read) / seconds, (time.process_time() - cpu) / max(done, 1) * 1e6)


def test_a_recorded_pipeline(kafka, tmp_path):
    rate, ratio = compare(kafka, "pipelined", tmp_path / "journal", {"producers": 1, "consumers": 0})
    assert ratio >= 0.75
    assert rate >= 20_000


def test_a_recorded_pipeline_that_is_read_at_the_same_time(kafka, tmp_path):
    settings = {"producers": 1, "consumers": 1, "consumer_mode": "assign"}
    rate, ratio = compare(kafka, "with-readers", tmp_path / "journal", settings)
    assert ratio >= 0.75
    assert rate >= 20_000


@pytest.mark.parametrize("producers", [1, 4])
def test_recorded_processes_with_one_record_in_flight(kafka, tmp_path, producers):
    settings = {"producers": producers, "consumers": 0, "in_flight": 1}
    _, ratio = compare(kafka, f"one-by-one-{producers}", tmp_path / "journal", settings)
    assert ratio >= 0.9
