"""The recorder of a client process: what it promises to workloads."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from harness.history.frame import FrameFile, FrameKind, FrameReader
from harness.history.journal import COMPLETIONS
from harness.history.recorder import JournalRecorder, RecordingError
from harness.history.store import finish
from tests.harness.history.conftest import Run, acknowledge, send
from workloads.op import OpKind, Outcome, Phase
from workloads.workload import Reads, Recorder

DEADLINE_S = 30


def rows_in(path: Path) -> int:
    return sum(frame.rows for frame in FrameReader(path).frames())


def test_it_is_the_recorder_that_workloads_know(run: Run) -> None:
    with run.recorder() as recorder:
        typed: Recorder = recorder
        assert typed.now_ns() > 0


def test_an_invocation_is_written_when_invoke_returns(run: Run) -> None:
    recorder = run.recorder()
    send(recorder, range(3))
    recorder.invoke(client="w1.c0", kind=OpKind.POLL, phase=Phase.MAIN, process=1)
    assert rows_in(run.journal / "1.invocations") == 4  # without flush or close
    recorder.close()


def test_completions_are_written_within_moments_without_flush(run: Run) -> None:
    with run.recorder() as recorder:
        acknowledge(recorder, send(recorder, range(3)), [5, 6, 7])
        deadline = time.monotonic() + DEADLINE_S
        pause = threading.Event()
        while rows_in(run.journal / "1.completions") < 3:
            assert time.monotonic() < deadline, "the flusher did not write"
            pause.wait(0.005)


def test_flush_writes_everything(run: Run) -> None:
    with run.recorder() as recorder:
        acknowledge(recorder, send(recorder, range(3)), [5, 6, 7])
        recorder.flush()
        (frame,) = FrameReader(run.journal / "1.completions").frames()
        assert frame.kind == FrameKind.BATCH
        batch = pa.ipc.read_record_batch(pa.py_buffer(frame.payload), COMPLETIONS)
        assert batch["offset"].to_pylist() == [5, 6, 7]
        assert batch["broker"].null_count == 3


def test_op_and_process_numbers_of_writers_never_meet(run: Run) -> None:
    with run.recorder(1) as one, run.recorder(2) as other:
        ops = {*send(one, range(100)), *send(other, range(100))}
        processes = [recorder.new_process() for recorder in (one, one, other, other)]
    assert len(ops) == 200
    assert len(set(processes)) == 4
    assert [process % 1000 for process in processes] == [1, 1, 2, 2]


def test_many_writers_still_have_numbers_of_their_own(run: Run) -> None:
    with run.recorder(2) as one, run.recorder(1002) as other:
        assert one.new_process() != other.new_process()


def test_threads_record_side_by_side(run: Run) -> None:
    threads, calls = 8, 50

    def work(_: int) -> set[int]:
        mine: set[int] = set()
        for call in range(calls):
            ops = send(recorder, range(call % 3 + 1))
            acknowledge(recorder, ops, list(ops))
            mine |= set(ops)
        return mine

    with run.recorder() as recorder, ThreadPoolExecutor(threads) as pool:
        ops = list(pool.map(work, range(threads)))
    assert sum(map(len, ops)) == len(set().union(*ops))
    finished = finish(run.path)
    assert finished.rows["ops"] == len(set().union(*ops))
    assert finished.never_completed == 0


def test_what_cannot_be_is_refused_at_once(run: Run) -> None:
    with run.recorder() as recorder:
        (op,) = send(recorder, [0])
        acknowledge(recorder, [op], [0])
        with pytest.raises(ValueError, match="never invoked here, or was completed before"):
            acknowledge(recorder, [op], [0])
        with pytest.raises(ValueError, match="never invoked here, or was completed before"):
            recorder.complete(op + 1, Outcome.OK)
        with pytest.raises(ValueError, match="equally long"):
            recorder.complete_sends(ops=[1], outcomes=[], errors=[None], offsets=[None], timestamps_ms=[None])
        with pytest.raises(ValueError, match="equally long"):
            recorder.complete(op, Outcome.OK, reads=Reads(["log"], [], [], [], [], []))
        with pytest.raises(ValueError, match="equally long"):
            recorder.invoke_sends(
                client="c", phase=Phase.MAIN, topics=["t"], partitions=[], processes=[1], sequences=[1], values=["v"]
            )
    assert finish(run.path).rows["ops"] == 1


def test_a_writer_number_is_used_once(run: Run) -> None:
    with run.recorder(), pytest.raises(FileExistsError):
        run.recorder()
    with pytest.raises(ValueError, match="writer number"):
        JournalRecorder(run.journal, run="r", clock="c", writer=1 << 22, client="w1")


def test_a_full_disk_stops_the_client(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = run.recorder()
    ops = send(recorder, range(2))

    def full(_self: FrameFile, _frame: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(FrameFile, "append", full)
        acknowledge(recorder, ops, [0, 1])
        with pytest.raises(RecordingError, match="No space left"):
            recorder.flush()
    with pytest.raises(RecordingError, match="No space left"):  # also when there is space again: completions were lost
        send(recorder, [2])
    with pytest.raises(RecordingError, match="No space left"):
        recorder.close()
    finished = finish(run.path)
    assert (finished.rows["ops"], finished.never_completed) == (2, 2)


def test_a_value_that_cannot_be_stored_is_not_dropped_silently(run: Run) -> None:
    recorder = run.recorder()
    op = recorder.invoke(client="w1.c0", kind=OpKind.POLL, phase=Phase.MAIN, process=1)
    recorder.complete(op, Outcome.OK, reads=Reads(["log"], [0], [None], ["v"], [None], [None]))  # type: ignore[list-item]
    with pytest.raises(RecordingError, match="offset may not be None"):
        recorder.flush()
    with pytest.raises(RecordingError):
        recorder.close()
