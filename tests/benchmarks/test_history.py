"""What recording and merging cost, as ratios within one run of one process, since machines differ.

Each test prints its figures (pytest -s).
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.history.recorder import JournalRecorder
from harness.history.rundir import RunInfo, create_run
from harness.history.store import finish
from workloads.op import OpKind, Outcome, Phase
from workloads.workload import Reads, Recorder

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1200)]
RUN = "benchmark"
BATCH = 200
POLL = 500


class NullRecorder:
    """Takes everything and does nothing."""

    def __init__(self) -> None:
        self._next = 0

    def invoke_sends(self, *, values: list[str], **_: object) -> range:
        self._next += len(values)
        return range(self._next - len(values), self._next)

    def invoke(self, **_: object) -> int:
        self._next += 1
        return self._next - 1

    def complete_sends(self, **_: object) -> None: ...
    def complete(self, *_: object, **__: object) -> None: ...
    def flush(self) -> None: ...


def sends(recorder: Recorder, count: int, batch: int) -> None:
    for start in range(0, count, batch):
        numbers = range(start, start + batch)
        ops = recorder.invoke_sends(
            client="w1.p0",
            phase=Phase.MAIN,
            topics=["log"] * batch,
            partitions=[0] * batch,
            processes=[1] * batch,
            sequences=numbers,
            values=[f"log/0/3/{n}" for n in numbers],
        )
        recorder.complete_sends(
            ops=ops,
            outcomes=[Outcome.OK] * batch,
            errors=[None] * batch,
            offsets=numbers,
            timestamps_ms=[1700000000000] * batch,
        )


def polls(recorder: Recorder, count: int) -> None:
    for start in range(0, count, POLL):
        numbers = range(start, start + POLL)
        reads = Reads(
            ["log"] * POLL, [0] * POLL, numbers, [f"log/0/3/{n}" for n in numbers], [3] * POLL, [1700000000000] * POLL
        )
        op = recorder.invoke(client="w1.c0", kind=OpKind.POLL, phase=Phase.MAIN, process=2)
        recorder.complete(op, Outcome.OK, reads=reads)


def recorder_in(path: Path) -> JournalRecorder:
    create_run(path, RunInfo(run=RUN))
    return JournalRecorder(path / "journal", run=RUN, clock="host", writer=1, client="w1")


def cpu_seconds(work: Callable[[], None]) -> float:
    """Of this process, all threads: the flusher counts."""
    before = time.process_time()
    work()
    return time.process_time() - before


def test_recording_a_fast_client_costs_less_than_a_quarter_of_a_core(tmp_path: Path) -> None:
    """20,000 sends/s and 40,000 reads/s: five seconds' worth, CPU seconds beyond those of a null recorder."""
    seconds = 5

    def work(recorder: Recorder) -> None:
        sends(recorder, 20_000 * seconds, BATCH)
        polls(recorder, 40_000 * seconds)
        recorder.flush()

    null: Recorder = NullRecorder()  # type: ignore[assignment]  # as much of one as is called here
    work(null)
    without = cpu_seconds(lambda: work(null))
    with recorder_in(tmp_path / "run") as recorder:
        work(recorder)  # pyarrow imports pandas here, which a client process spares itself
        with_it = cpu_seconds(lambda: work(recorder))
    share = (with_it - without) / seconds
    print(f"recording takes {share:.1%} of a core; {with_it:.2f} s against {without:.2f} s of CPU")
    assert share < 0.25


def test_a_process_with_one_request_in_flight_loses_little(tmp_path: Path) -> None:
    """One send, one completion: under 5 % of a 1 ms round trip (the target for the whole client is 10 %)."""
    count = 20_000
    with recorder_in(tmp_path / "run") as recorder:
        sends(recorder, 1000, 1)
        seconds = cpu_seconds(lambda: sends(recorder, count, 1))
    each_us = seconds / count * 1e6
    print(f"one send and its completion: {each_us:.1f} us")
    assert each_us < 50


@pytest.mark.parametrize("batch", [BATCH, 1])
def test_a_million_sends_and_reads_are_merged_in_ten_seconds(tmp_path: Path, batch: int) -> None:
    with recorder_in(tmp_path / "run") as recorder:
        sends(recorder, 1_000_000, batch)
        polls(recorder, 1_000_000)
    started, cpu = time.perf_counter(), time.process_time()
    finished = finish(tmp_path / "run")
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    rows = finished.rows["records"]
    print(f"merged and verified {rows:,} records in {seconds:.1f} s, {cpu:.1f} s of CPU (batches of {batch})")
    assert rows == 2_000_000
    assert cpu < 10  # not `seconds`: others may share this machine


MERGE = """
import sys
from pathlib import Path
from harness.history.arrow import spare_pandas
from harness.history.store import finish

def peak_mib():
    (line,) = (line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1024

spare_pandas()
before = peak_mib()
rows = finish(Path(sys.argv[1])).rows["ops"]
print(rows, peak_mib() - before)
"""


def test_memory_does_not_grow_with_the_length_of_the_run(tmp_path: Path) -> None:
    def merged_mib(sent: int) -> int:
        path = tmp_path / str(sent)
        with recorder_in(path) as recorder:
            sends(recorder, sent, BATCH)
            polls(recorder, sent // 2)
        done = subprocess.run([sys.executable, "-c", MERGE, str(path)], capture_output=True, text=True, check=True)
        rows, mib = map(int, done.stdout.split())
        assert rows >= sent
        return mib

    small, large = merged_mib(1_000_000), merged_mib(10_000_000)
    print(f"merging 10^6 ops took {small} MiB, 10^7 {large} MiB")
    assert large < 500
    assert large < 1.5 * small + 50
