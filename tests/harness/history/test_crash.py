"""Whenever a run dies, what was flushed is there and nothing else is: as a property, and with real SIGKILLs.

The model of a SIGKILL of everything at once: all write(2)s of all writers have one global order; the kill leaves a
prefix of their bytes. `Crash` records that order and can put the journal back to any point of it.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.history.errors import HistoryError
from harness.history.frame import FrameFile
from harness.history.reading import open_run
from harness.history.recorder import JournalRecorder
from harness.history.store import recover
from tests.harness.history.conftest import Run, acknowledge, send
from workloads.op import OpKind, Outcome, Phase
from workloads.workload import Reads

WRITERS = 3
Action = tuple[str, int, int]
ACTIONS = st.lists(
    st.tuples(st.sampled_from(["send", "done", "poll", "flush"]), st.integers(0, WRITERS - 1), st.integers(0, 5)),
    max_size=40,
)


@dataclass
class Truth:
    """What really happened, and how many bytes had been written when the recorder had promised it."""

    invoked: dict[int, int] = field(default_factory=dict)  # op -> bytes written when invoke returned
    values: dict[int, str] = field(default_factory=dict)  # sends
    acknowledged: dict[int, int] = field(default_factory=dict)  # sends: op -> offset
    read: dict[int, list[int]] = field(default_factory=dict)  # completed polls: op -> offsets
    flushed: dict[int, int] = field(default_factory=dict)  # completed op -> bytes written when flush returned


class Crash:
    def __init__(self) -> None:
        self.writes: list[tuple[Path, bytes]] = []
        self.total = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        append = FrameFile.append

        def watched(file: FrameFile, frame: bytes) -> None:
            append(file, frame)
            self.writes.append((file.path, bytes(frame)))
            self.total += len(frame)

        with patch.object(FrameFile, "append", watched):
            yield

    def back_to(self, journal: Path, size: int) -> None:
        shutil.rmtree(journal)
        journal.mkdir()
        for path, frame in self.writes:
            if size <= 0:
                return
            with path.open("ab") as file:
                file.write(frame[:size])
            size -= len(frame)


def perform(run: Run, actions: list[Action], crash: Crash) -> Truth:
    truth = Truth()
    with crash.watching(), ExitStack() as stack:
        recorders = [stack.enter_context(run.recorder(writer)) for writer in range(1, WRITERS + 1)]
        pending: list[list[int]] = [[] for _ in recorders]
        completed: list[list[int]] = [[] for _ in recorders]
        for what, who, n in actions:
            recorder = recorders[who]
            if what == "send":
                ops = send(recorder, range(n), partition=n)
                pending[who] += ops
                truth.invoked |= dict.fromkeys(ops, crash.total)
                truth.values |= {op: f"log/{n}/{s}" for s, op in enumerate(ops)}
            elif what == "done":
                done = random.Random(n).sample(pending[who], min(n, len(pending[who])))
                acknowledge(recorder, done, [op % 1000 for op in done])
                truth.acknowledged |= {op: op % 1000 for op in done}
                pending[who] = [op for op in pending[who] if op not in done]
                completed[who] += done
            elif what == "poll":
                op = recorder.invoke(client="c", kind=OpKind.POLL, phase=Phase.MAIN, process=recorder.new_process())
                truth.invoked[op] = crash.total
                reads = Reads(["log"] * n, [0] * n, list(range(n)), [f"v{i}" for i in range(n)], [None] * n, [None] * n)
                recorder.complete(op, Outcome.OK, reads=reads)
                truth.read[op] = list(range(n))
                completed[who].append(op)
            else:
                recorder.flush()
                for op in completed[who]:
                    truth.flushed.setdefault(op, crash.total)
    return truth


def expect_true(run: Run, truth: Truth, written: int | None) -> None:
    """Nothing invented, no flushed thing lost (`written` bytes of all writes survived; None: no matter which)."""
    history = open_run(run.path)
    ops = {op["op"]: op for op in history.table("ops").to_pylist()}
    assert ops.keys() <= truth.invoked.keys()
    for op, row in ops.items():
        if row["outcome"] == "ok":
            assert op in truth.acknowledged or op in truth.read
        else:
            assert (row["outcome"], row["completed_ns"]) == ("info", None)
    reads: dict[int, list[int]] = {op: [] for op in truth.read}
    for record in history.table("records").to_pylist():
        op = record["op"]
        assert record["outcome"] == ops[op]["outcome"]
        if record["kind"] == "send":
            assert record["value"] == truth.values[op]
            assert record["offset"] == (truth.acknowledged[op] if record["outcome"] == "ok" else None)
        else:
            reads[op].append(record["offset"])
    for op, found in reads.items():
        assert found == (truth.read[op] if op in ops and ops[op]["outcome"] == "ok" else [])
    if written is not None:
        assert {op for op, at in truth.invoked.items() if at <= written} <= ops.keys()
        for op, at in truth.flushed.items():
            assert at > written or ops[op]["outcome"] == "ok"


@settings(max_examples=25, deadline=None)
@given(actions=ACTIONS, place=st.floats(0, 1))
def test_a_kill_of_everything_loses_nothing_that_was_promised(actions: list[Action], place: float) -> None:
    with tempfile.TemporaryDirectory() as directory:
        run, crash = Run(Path(directory) / "run"), Crash()
        truth = perform(run, actions, crash)
        written = round(place * crash.total)
        crash.back_to(run.journal, written)
        recover(run.path)
        expect_true(run, truth, written)


@settings(max_examples=25, deadline=None)
@given(actions=ACTIONS, which=st.integers(0, 4 * WRITERS - 1), place=st.floats(0, 1))
def test_a_file_cut_anywhere_is_refused_or_judged_truly(actions: list[Action], which: int, place: float) -> None:
    """Cutting one file alone is no crash of writers. Either recovery notices, or it says less, never something else."""
    with tempfile.TemporaryDirectory() as directory:
        run = Run(Path(directory) / "run")
        truth = perform(run, actions, Crash())
        path = sorted(run.journal.iterdir())[which]
        content = path.read_bytes()
        path.write_bytes(content[: round(place * len(content))])
        before = run.contents()
        try:
            recover(run.path)
        except HistoryError:
            after = run.contents()
            assert {name: after.get(name) for name in before} == before
        else:
            expect_true(run, truth, None)


def test_the_model_notices_an_invocation_that_was_not_written_first(tmp_path: Path) -> None:
    """The property must be able to fail: a recorder that keeps its invocations for later loses some."""
    run, crash = Run(tmp_path / "run"), Crash()
    append = FrameFile.append

    def forgetful(file: FrameFile, frame: bytes) -> None:
        if b"log/" not in frame:
            append(file, frame)

    with patch.object(FrameFile, "append", forgetful):
        truth = perform(run, [("send", 0, 3)], crash)
    recover(run.path)
    with pytest.raises(AssertionError):
        expect_true(run, truth, crash.total)


RECORDING = """
import sys
from pathlib import Path
from harness.history.arrow import spare_pandas
from tests.harness.history.conftest import RUN, acknowledge, send
from harness.history.recorder import JournalRecorder

spare_pandas()
recorder = JournalRecorder(Path(sys.argv[1]), run=RUN, clock="host", writer=1, client="w1")
sequence = flushed = 0
while True:
    size = 1 + sequence % 50
    ops = send(recorder, range(sequence, sequence + size))
    print("invoked", ops.stop - 1, flush=True)
    acknowledge(recorder, ops[::2], list(ops[::2]))
    sequence += size
    if sequence % 7 == 0:
        recorder.flush()
        print("flushed", ops[::2][-1], flush=True)
"""


@pytest.mark.parametrize("lines", random.Random(3).sample(range(1, 400), 4))
def test_a_killed_recording_process_has_written_what_it_said(run: Run, lines: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", RECORDING, str(run.journal)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(lines)]
    process.send_signal(signal.SIGKILL)
    said += process.stdout.read().splitlines()
    process.wait()
    process.stdout.close()
    promised = {"invoked": -1, "flushed": -1}
    for line in said:
        what, _, op = line.partition(" ")
        if op.strip().isdecimal():
            promised[what] = int(op)
    recover(run.path)
    ops = open_run(run.path).table("ops").to_pylist()
    ids = [op["op"] for op in ops]
    assert ids == list(range(1 << 40, (1 << 40) + len(ids)))
    assert ids[-1] >= promised["invoked"] > 0
    by_id = {op["op"]: op for op in ops}
    assert promised["flushed"] < 0 or by_id[promised["flushed"]]["outcome"] == "ok"
    for record in open_run(run.path).table("records").to_pylist():
        assert record["value"] == f"log/0/{record['sequence']}"
        assert record["offset"] == (record["op"] if record["outcome"] == "ok" else None)


def test_recorders_of_dead_processes_hold_no_lock(run: Run) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", RECORDING, str(run.journal)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert process.stdout is not None
    process.stdout.readline()
    with pytest.raises(HistoryError, match="still being written"):
        recover(run.path)
    process.kill()
    process.stdout.close()
    process.wait()
    recover(run.path)


def test_the_writer_in_this_process_counts_too(run: Run) -> None:
    recorder = JournalRecorder(run.journal, run="r", clock="c", writer=9, client="w9")
    with pytest.raises(HistoryError, match="still being written"):
        recover(run.path)
    recorder.close()
