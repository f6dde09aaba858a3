"""From journal to Parquet, after a good end and after a bad one."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from harness.history import merge, rundir
from harness.history.errors import HistoryError
from harness.history.frame import FrameFile, FrameKind, FrameReader, Identity, encode
from harness.history.journal import WRITER_SHIFT
from harness.history.reading import open_run
from harness.history.recorder import JournalRecorder
from harness.history.rows import RowRecorder
from harness.history.rundir import RunInfo, create_run
from harness.history.store import finish, recover
from harness.history.tables import EVENTS_TABLE, FAULTS_TABLE
from nemesis.fault import FaultRow
from nodes.event import Event
from tests.harness.history.conftest import RUN, Run, acknowledge, send
from workloads.group import GroupProtocol
from workloads.op import OpKind, Outcome, Phase
from workloads.workload import Positions, Reads


def written(rows: dict[str, int]) -> dict[str, int]:
    """The tables that have rows."""
    return {table: count for table, count in rows.items() if count}


def some_of_everything(run: Run) -> None:
    """Writer 1: two acknowledged sends, one failed, one unknown, one never completed, one poll, one bounds."""
    with run.recorder() as recorder:
        ops = send(recorder, range(5))
        acknowledge(recorder, ops[:2], [40, 41])
        recorder.complete_sends(
            ops=ops[2:4],
            outcomes=[Outcome.FAIL, Outcome.INFO],
            errors=["MESSAGE_TOO_LARGE", "REQUEST_TIMED_OUT"],
            offsets=[None, None],
            timestamps_ms=[None, None],
            leader_epochs=[None, 3],
            brokers=[1, 2],
        )
        poll = recorder.invoke(client="w1.c0", kind=OpKind.POLL, phase=Phase.MAIN, process=recorder.new_process())
        recorder.complete(
            poll,
            Outcome.OK,
            broker=2,
            reads=Reads(["log"] * 2, [0, 0], [40, 41], ["log/0/0", None], [3, None], [1700000000000, None]),
        )
        asked = recorder.invoke(
            client="w1.d0",
            kind=OpKind.BOUNDS,
            phase=Phase.FINAL,
            process=recorder.new_process(),
            topic="log",
            partition=0,
        )
        recorder.bounds(
            asked,
            phase=Phase.FINAL,
            topic="log",
            partition=0,
            log_start=0,
            log_end=42,
            read_to=40,
            error=None,
            stable_end=40,
        )
        recorder.complete(asked, Outcome.OK)


def rows(run: Run, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = open_run(run.path).table(table).to_pylist()
    return found


def test_records_repeat_what_their_op_knows(run: Run) -> None:
    some_of_everything(run)
    finished = finish(run.path)
    assert written(finished.rows) == {"ops": 7, "records": 7, "bounds": 1}
    assert (finished.never_completed, finished.torn, finished.already) == (1, {}, False)
    ops, records = rows(run, "ops"), rows(run, "records")
    assert [op["outcome"] for op in ops] == ["ok", "ok", "fail", "info", "info", "ok", "ok"]
    assert [op["completed_ns"] is None for op in ops] == [False] * 4 + [True, False, False]
    assert [op["count"] for op in ops] == [1, 1, 1, 1, 1, 2, 0]
    assert [op["error"] for op in ops][2:4] == ["MESSAGE_TOO_LARGE", "REQUEST_TIMED_OUT"]
    assert [op["topic"] for op in ops] == ["log"] * 5 + [None, "log"]
    assert [op["partition"] for op in ops] == [0] * 5 + [None, 0]
    by_op = {op["op"]: op for op in ops}
    shared = ("run", "client", "process", "kind", "phase", "broker", "invoked_ns", "completed_ns", "outcome")
    for record in records:
        assert {name: record[name] for name in shared} == {name: by_op[record["op"]][name] for name in shared}
    assert [(r["kind"], r["sequence"], r["offset"], r["value"], r["position"]) for r in records] == [
        ("send", 0, 40, "log/0/0", 0),
        ("send", 1, 41, "log/0/1", 0),
        ("send", 2, None, "log/0/2", 0),
        ("send", 3, None, "log/0/3", 0),
        ("send", 4, None, "log/0/4", 0),
        ("poll", None, 40, "log/0/0", 0),
        ("poll", None, 41, None, 1),
    ]
    assert [r["leader_epoch"] for r in records] == [None, None, None, 3, None, 3, None]
    (bound,) = rows(run, "bounds")
    assert (bound["phase"], bound["log_end"], bound["stable_end"], bound["read_to"]) == ("final", 42, 40, 40)
    assert bound["completed_ns"] == ops[6]["completed_ns"]


def test_a_transaction_is_named_by_its_begin(run: Run) -> None:
    with run.recorder() as recorder:
        before = send(recorder, range(2))
        begin = recorder.invoke(client="w1.p0", kind=OpKind.BEGIN, phase=Phase.MAIN, process=7)
        within = send(recorder, range(2, 5), transaction=begin)
        commit = recorder.invoke(client="w1.p0", kind=OpKind.COMMIT, phase=Phase.MAIN, process=7, transaction=begin)
        after = send(recorder, range(5, 6))
        recorder.complete(commit, Outcome.FAIL, error="INVALID_TXN_STATE")
        acknowledge(recorder, [*before, *within, *after], range(6))
    finish(run.path)
    named = {op["op"]: (op["kind"], op["transaction"]) for op in rows(run, "ops")}
    assert named[begin] == ("begin", begin)
    assert named[commit] == ("commit", begin)
    assert {op: named[op][1] for op in (*before, *within, *after)} == dict.fromkeys((*before, *after)) | dict.fromkeys(
        within, begin
    )
    assert [record["transaction"] for record in rows(run, "records")] == [None, None, begin, begin, begin, None]


def committing(recorder: JournalRecorder, offsets: list[int | None], **more: Any) -> int:
    op = recorder.invoke(client="w1.m0", kind=OpKind.COMMIT_OFFSETS, phase=Phase.MAIN, process=7, **more)
    topics, partitions = ["log"] * len(offsets), list(range(len(offsets)))
    recorder.positions(op, Positions("g", GroupProtocol.EAGER, "m-1", 3, topics, partitions, offsets))
    return op


def test_positions_of_a_group_get_the_times_and_the_outcome_of_their_op(run: Run) -> None:
    with run.recorder() as recorder:
        done = committing(recorder, [40, None])
        recorder.complete(done, Outcome.OK)
        begin = recorder.invoke(client="w1.p0", kind=OpKind.BEGIN, phase=Phase.MAIN, process=8)
        within = committing(recorder, [41], transaction=begin)
        recorder.complete(within, Outcome.FAIL, error="ILLEGAL_GENERATION")
        cut_off = committing(recorder, [42])
    assert written(finish(run.path).rows) == {"ops": 4, "positions": 4}
    ops = {op["op"]: op for op in rows(run, "ops")}
    found = rows(run, "positions")
    assert [(row["op"], row["partition"], row["offset"]) for row in found] == [
        (done, 0, 40),
        (done, 1, None),
        (within, 0, 41),
        (cut_off, 0, 42),
    ]
    assert {(row["group"], row["protocol"], row["member"], row["generation"]) for row in found} == {
        ("g", "eager", "m-1", 3)
    }
    shared = ("run", "client", "process", "kind", "phase", "invoked_ns", "completed_ns", "outcome", "transaction")
    for row in found:
        assert {name: row[name] for name in shared} == {name: ops[row["op"]][name] for name in shared}
    assert [row["outcome"] for row in found] == ["ok", "ok", "fail", "info"]


def test_positions_are_in_the_journal_before_the_commit_is_sent(run: Run) -> None:
    recorder = run.recorder()
    op = committing(recorder, [40])
    (file,) = (run.path / "journal").glob("*.positions")
    (frame,) = FrameReader(file).frames()  # as a killed client would leave it
    assert frame.rows == 1
    recorder.complete(op, Outcome.OK)
    with pytest.raises(ValueError, match="completed before"):
        recorder.positions(op, Positions("g", None, None, None, ["log"], [0], [41]))
    recorder.close()


def test_the_journal_goes_when_the_history_is_there(run: Run) -> None:
    some_of_everything(run)
    finish(run.path)
    assert {path.name for path in run.path.iterdir()} == {"run.json", "nodes", "history", "choices.jsonl"}
    before = run.contents()
    again = finish(run.path)
    assert again.already
    assert again.rows["ops"] == 7
    assert run.contents() == before


def test_small_chunks_and_late_completions_give_the_same_rows(
    new_run: Callable[[], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    def record(run: Run) -> None:
        with run.recorder() as recorder:
            late = send(recorder, range(3))
            for start in range(3, 60, 3):
                ops = send(recorder, range(start, start + 3), partition=start % 2)
                acknowledge(recorder, ops[::-1], list(ops[::-1]))
                poll = recorder.invoke(client="w1.c0", kind=OpKind.POLL, phase=Phase.MAIN, process=1)
                recorder.complete(poll, Outcome.OK, reads=Reads(["log"], [0], [start], [f"v{start}"], [None], [None]))
                if start % 4 == 0:
                    recorder.flush()
            acknowledge(recorder, late, [900, 901, 902])

    def without_times(run: Run, table: str) -> list[dict[str, Any]]:
        times = ("invoked_ns", "completed_ns")
        return sorted(
            ({k: v for k, v in row.items() if k not in times} for row in rows(run, table)),
            key=lambda row: (row["op"], row.get("position", 0)),
        )

    whole, pieces = new_run(), new_run()
    record(whole)
    record(pieces)
    finish(whole.path)
    monkeypatch.setattr(merge, "CHUNK_ROWS", 7)
    monkeypatch.setattr(merge, "BLOCK_SHIFT", 2)
    finish(pieces.path)
    for table in ("ops", "records"):
        assert without_times(whole, table) == without_times(pieces, table)
    assert {row["outcome"] for row in rows(pieces, "ops")} == {"ok"}


def test_of_a_fault_the_last_row_counts(run: Run) -> None:
    def fault(number: int, status: str, targets: tuple[str, ...] = ()) -> FaultRow:
        return FaultRow(
            run=RUN,
            clock="host",
            fault=number,
            name="kill",
            rule="leader of log-0",
            targets=targets,
            settings="{}",
            status=status,
            planned_ns=5,
            injecting_ns=None,
            proved_ns=None,
            healing_ns=None,
            healed_ns=None,
            proof=None,
            heal_proof=None,
            detail=None,
        )

    with RowRecorder(run.journal, FAULTS_TABLE, run=RUN, clock="host", writer=0) as faults:
        faults.write(fault(1, "planned"))
        faults.write(fault(0, "planned"))
        faults.write(fault(1, "active", ("b2", "b3")))
        faults.write(fault(1, "healed", ("b2", "b3")))
        with pytest.raises(ValueError, match=r"faults\.status may not be None"):
            faults.write(fault(2, None))  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="does not fit its schema"):
            faults.write(fault("three", "planned"))  # type: ignore[arg-type]
    with RowRecorder(run.journal, EVENTS_TABLE, run=RUN, clock="host", writer=0) as events:
        events.write(Event(run=RUN, clock="host", at_ns=20, node="b1", kind="exited"))
        events.write(Event(run=RUN, clock="host", at_ns=10, node=None, kind="isr-changed", isr=(1, 2)))
        with pytest.raises(ValueError, match="not a row of events"):
            events.write(fault(3, "planned"))
    finish(run.path)
    assert [(f["fault"], f["status"], f["targets"]) for f in rows(run, "faults")] == [
        (0, "planned", []),
        (1, "healed", ["b2", "b3"]),
    ]
    assert [(e["at_ns"], e["isr"]) for e in rows(run, "events")] == [(10, [1, 2]), (20, None)]


def test_a_run_that_died_before_anything_happened(run: Run, new_run: Callable[[], Run]) -> None:
    finished = recover(run.path)
    assert set(finished.rows.values()) == {0}
    assert open_run(run.path).table("records").num_rows == 0
    silent = new_run()
    silent.recorder().close()
    assert recover(silent.path).rows["ops"] == 0


def test_a_run_directory_is_never_overwritten(run: Run) -> None:
    before = run.contents()
    with pytest.raises(FileExistsError):
        create_run(run.path, RunInfo(run="another"))
    assert run.contents() == before


def test_a_run_that_is_still_written_is_left_alone(run: Run) -> None:
    recorder = run.recorder()
    acknowledge(recorder, send(recorder, [0]), [0])
    recorder.flush()
    before = run.contents()
    with pytest.raises(HistoryError, match="still being written"):
        recover(run.path)
    assert run.contents() == before
    recorder.close()
    assert recover(run.path).rows["ops"] == 1


def test_a_process_that_is_not_quite_gone_is_waited_for(run: Run) -> None:
    recorder = run.recorder()
    send(recorder, [0])
    refused = threading.Event()
    locked = rundir._locked

    def watched(descriptor: int) -> bool:
        if locked(descriptor):
            return True
        refused.set()
        return False

    def die_late() -> None:
        refused.wait()
        recorder.close()

    end = threading.Thread(target=die_late)
    end.start()
    with patch.object(rundir, "_locked", watched):
        assert recover(run.path).rows["ops"] == 1
    end.join()


STEPS = ["history.partial -> history", "journal -> journal.merged", "rmtree journal.merged"]


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_of_finish_at_any_step_is_made_good(run: Run, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Crash(BaseException):
        pass

    def crash_at(name: str) -> None:
        if name == step:
            raise Crash

    rename, rmtree = Path.rename, shutil.rmtree

    def crashing_rename(self: Path, target: Path) -> Path:
        crash_at(f"{self.name} -> {target.name}")
        return rename(self, target)

    def crashing_rmtree(path: Path, **options: Any) -> None:
        if path.name == "journal.merged":
            next(path.iterdir()).unlink()
        crash_at(f"rmtree {path.name}")
        rmtree(path, **options)

    some_of_everything(run)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", crashing_rename)
        patched.setattr(shutil, "rmtree", crashing_rmtree)
        with pytest.raises(Crash):
            finish(run.path)
    assert written(recover(run.path).rows) == {"ops": 7, "records": 7, "bounds": 1}
    assert not (run.path / "journal.merged").exists()
    assert len(rows(run, "records")) == 7


def expect_refusal(run: Run, match: str) -> HistoryError:
    """Recovery refuses, and everything that it found is still there."""
    before = {name: content for name, content in run.contents().items() if name.startswith("journal/")}
    with pytest.raises(HistoryError, match=match) as caught:
        recover(run.path)
    after = run.contents()
    assert before == {name: content for name, content in after.items() if name.startswith("journal/")}
    assert not any(name.startswith("history/") for name in after)
    return caught.value


@pytest.mark.parametrize("name", ["1.invocations", "1.completions", "1.reads", "1.bounds"])
def test_damage_in_the_middle_is_named_with_its_place(run: Run, name: str) -> None:
    some_of_everything(run)
    path = run.journal / name
    damaged = bytearray(path.read_bytes())
    (*_, last) = FrameReader(path).frames()
    damaged[last.at + 40] ^= 0x10
    path.write_bytes(damaged)
    error = expect_refusal(run, "corrupt")
    assert (error.path, error.where) == (path, f"byte {last.at}")


@pytest.mark.parametrize("name", ["1.invocations", "1.completions", "1.reads", "1.bounds"])
def test_a_missing_file_is_not_an_empty_one(run: Run, name: str) -> None:
    some_of_everything(run)
    (run.journal / name).unlink()
    assert expect_refusal(run, "missing, although this writer recorded").path == run.journal / name


def test_a_completion_without_invocation_cannot_be(run: Run) -> None:
    some_of_everything(run)
    path = run.journal / "1.invocations"
    frames = list(FrameReader(path).frames())
    path.write_bytes(path.read_bytes()[: frames[-1].at])
    error = expect_refusal(run, r"op 6 \(counter\), but only 6 were invoked")
    assert error.path.parent == run.journal
    assert error.where.startswith("byte ")


def test_a_completion_of_another_writer_cannot_be(run: Run) -> None:
    some_of_everything(run)
    with run.recorder(2) as recorder:
        send(recorder, range(5))
    foreign = (run.journal / "1.completions").read_bytes()
    own = Identity(run=RUN, clock="host", writer=2, client="w2", table="completions")
    first = next(FrameReader(run.journal / "1.completions").frames()).at
    (run.journal / "2.completions").unlink()
    FrameFile(run.journal / "2.completions", own).close()
    with (run.journal / "2.completions").open("ab") as file:
        file.write(foreign[first:])
    expect_refusal(run, "an op that is not of writer 2")


def test_two_completions_of_one_op_cannot_be(run: Run) -> None:
    some_of_everything(run)
    path = run.journal / "1.completions"
    frame = next(FrameReader(path).frames())
    with path.open("ab") as file:
        file.write(encode(FrameKind.BATCH, frame.rows, 0, frame.payload))
    expect_refusal(run, "completed twice")


def test_a_poll_without_the_records_that_it_counted_cannot_be(run: Run) -> None:
    some_of_everything(run)
    path = run.journal / "1.reads"
    path.write_bytes(path.read_bytes()[: next(FrameReader(path).frames()).at])
    assert expect_refusal(run, "not those that it counted").path == path


def test_files_of_another_run_or_writer_are_refused(run: Run, new_run: Callable[[], Run]) -> None:
    some_of_everything(run)
    shutil.copy(run.journal / "1.reads", run.journal / "1.bounds")
    expect_refusal(run, "holds reads of writer 1")


def test_a_stranger_in_the_journal_is_not_deleted(run: Run) -> None:
    (run.journal / "notes.txt").write_text("mine")
    expect_refusal(run, "not a journal file of krash")


def test_reads_whose_poll_is_unknown_are_left_out_and_counted(run: Run) -> None:
    some_of_everything(run)
    path = run.journal / "1.completions"
    first = next(FrameReader(path).frames()).at
    path.write_bytes(path.read_bytes()[: first + 50])
    finished = recover(run.path)
    assert finished.reads_left_out == 2
    assert finished.torn == {"1.completions": 50}
    assert finished.never_completed == 7
    assert {row["kind"] for row in rows(run, "records")} == {"send"}
    assert {row["outcome"] for row in rows(run, "ops")} == {"info"}


def test_op_ids_tell_their_writer(run: Run) -> None:
    with run.recorder(5) as recorder:
        send(recorder, range(2))
    finish(run.path)
    assert [row["op"] for row in rows(run, "ops")] == [5 << WRITER_SHIFT, (5 << WRITER_SHIFT) + 1]
