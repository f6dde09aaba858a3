"""A recorded run, exported and read back: the same ops, in the same order, for both formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.export import export_run
from harness.history.formats.kafka import is_kafka, kafka_tables
from harness.history.formats.of_run import entries_of_run
from harness.history.formats.pairing import Paired, pair
from harness.history.formats.reading import Format, detect, read_events
from harness.history.reading import open_run
from harness.history.recorder import JournalRecorder
from harness.history.rows import RowRecorder
from harness.history.store import finish
from harness.history.tables import FAULTS_TABLE
from nemesis.fault import FaultRow
from tests.harness.history.conftest import RUN, Run, acknowledge, send
from workloads.op import OpKind, Outcome, Phase
from workloads.workload import Reads


def transaction(
    recorder: JournalRecorder, sequences: list[int], end: OpKind | None, outcome: Outcome = Outcome.OK
) -> None:
    process = recorder.new_process()
    begin = recorder.invoke(client="w1.t0", kind=OpKind.BEGIN, phase=Phase.MAIN, process=process)
    recorder.complete(begin, Outcome.OK)
    acknowledge(recorder, send(recorder, sequences, partition=1, transaction=begin), [100 + s for s in sequences])
    if end is not None:
        op = recorder.invoke(client="w1.t0", kind=end, phase=Phase.MAIN, process=process, transaction=begin)
        recorder.complete(op, outcome)


@pytest.fixture
def finished(run: Run) -> Run:
    """Sends of every outcome, polls, three transactions, the final read of one partition, a fault."""
    with run.recorder() as recorder:
        ops = send(recorder, range(5))
        acknowledge(recorder, ops[:2], [0, 1])
        recorder.complete_sends(
            ops=ops[2:4],
            outcomes=[Outcome.FAIL, Outcome.INFO],
            errors=["MESSAGE_TOO_LARGE", "REQUEST_TIMED_OUT"],
            offsets=[None, None],
            timestamps_ms=[None, None],
        )
        transaction(recorder, [10, 11], OpKind.COMMIT)
        transaction(recorder, [12], OpKind.ABORT)
        transaction(recorder, [13], OpKind.COMMIT, Outcome.INFO)
        transaction(recorder, [14], None)
        transaction(recorder, [], OpKind.COMMIT)
        process = recorder.new_process()
        for partition in range(2):
            assign = recorder.invoke(
                client="w1.d0", kind=OpKind.ASSIGN, phase=Phase.FINAL, process=process, topic="log", partition=partition
            )
            recorder.complete(assign, Outcome.OK)
        poll = recorder.invoke(client="w1.d0", kind=OpKind.POLL, phase=Phase.FINAL, process=process)
        reads = Reads(["log"] * 3, [0, 0, 1], [0, 1, 110], ["log/0/0", "log/0/1", None], [3] * 3, [None] * 3)
        recorder.complete(poll, Outcome.OK, reads=reads)
        bounds = recorder.invoke(client="w1.d0", kind=OpKind.BOUNDS, phase=Phase.FINAL, process=process)
        recorder.complete(bounds, Outcome.OK)
    with RowRecorder(run.journal, FAULTS_TABLE, run=RUN, clock="host", writer=9) as faults:
        faults.write(fault())
    finish(run.path)
    return run


def fault() -> FaultRow:
    times = dict.fromkeys(("planned_ns", "injecting_ns", "proved_ns", "healing_ns", "healed_ns"), 1)
    texts = dict.fromkeys(("proof", "heal_proof", "detail"))
    return FaultRow(
        run=RUN, clock="host", fault=1, name="kill", rule="leader", targets=("b1",), settings="{}", status="healed",
        **times, **texts,
    )  # fmt: skip


def exported(run: Run, format_name: str) -> tuple[Path, Paired]:
    path = run.path.parent / f"history.{format_name}"
    assert export_run(run.path, format_name=format_name, output=path) == 0
    return path, pair(read_events(path))


@pytest.mark.parametrize("format_name", ["jepsen-edn", "jsonl"])
def test_what_is_exported_is_a_history_of_jepsen(finished: Run, format_name: str) -> None:
    path, found = exported(finished, format_name)
    assert detect(path) is Format(format_name)
    assert found.problems == []
    assert is_kafka(found.operations)
    assert [(event.f, event.value) for event in found.nemesis] == [
        ("kill", ("injected", "b1")),
        ("kill", ("healed", "b1")),
    ]
    assert [(o.f, o.outcome, o.error) for o in found.operations] == [
        ("send", "ok", None),
        ("send", "ok", None),
        ("send", "fail", "MESSAGE_TOO_LARGE"),
        ("send", "info", "REQUEST_TIMED_OUT"),
        ("send", "info", None),
        ("txn", "ok", None),
        ("txn", "fail", None),
        ("txn", "info", None),
        ("txn", "info", None),
        ("assign", "ok", None),
        ("assign", "ok", None),
        ("poll", "ok", None),
    ]
    sends, committed, assign, poll = (
        found.operations[0],
        found.operations[5],
        found.operations[10],
        found.operations[11],
    )
    assert sends.value == (("send", "log-0", "log/0/0"),)
    assert sends.result == (("send", "log-0", (0, "log/0/0")),)
    assert committed.result == (("send", "log-1", (110, "log/1/10")), ("send", "log-1", (111, "log/1/11")))
    assert assign.value == ("log-0", "log-1")
    assert poll.result == (("poll", {"log-0": ((0, "log/0/0"), (1, "log/0/1")), "log-1": ((110, None),)}),)


@pytest.mark.parametrize("format_name", ["jepsen-edn", "jsonl"])
def test_records_survive_the_way_out_and_back(finished: Run, format_name: str) -> None:
    _, found = exported(finished, format_name)
    again = kafka_tables(found.operations, run=RUN)
    assert again.problems == []

    def seen(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        return sorted(
            (row["kind"], row["phase"], row["offset"], (row["value"] or "").removeprefix(row["topic"] + "/")) for row in rows
            if row["offset"] is not None
        )  # fmt: skip

    ours = open_run(finished.path).table("records").to_pylist()
    for row in ours:
        row["topic"] = "none"
    assert seen(again.records.to_pylist()) == seen(ours)


def test_what_has_no_counterpart_is_counted(finished: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert export_run(finished.path, format_name="jsonl", output=None) == 0
    printed = capsys.readouterr()
    assert "left out, having no counterpart: 1 bounds, 1 transaction" in printed.err
    assert all(json.loads(line)["type"] in ("invoke", "ok", "fail", "info") for line in printed.out.splitlines())


def test_an_unknown_format(finished: Run) -> None:
    with pytest.raises(UsageError, match="jepsen-edn, jsonl"):
        export_run(finished.path, format_name="xml", output=None)


def row(op: int, process: int, invoked_ns: int, completed_ns: int | None) -> dict[str, Any]:
    return {
        "op": op, "process": process, "kind": "poll", "phase": "main", "invoked_ns": invoked_ns, "completed_ns": completed_ns,
        "outcome": "ok", "error": None, "transaction": None, "topic": None, "partition": None,
    }  # fmt: skip


def test_ops_that_touch_are_concurrent_unless_one_process_did_both(tmp_path: Path) -> None:
    rows = [row(0, 0, 0, 5), row(1, 0, 5, 5), row(2, 0, 5, 9), row(3, 1, 5, 7), row(4, 2, 1, 5)]
    entries = entries_of_run(rows, [], []).entries
    order = [(entry["process"], entry["type"].name) for entry in entries]
    assert order.index((1, "invoke")) < order.index((2, "ok"))
    assert [kind for process, kind in order if process == 0] == ["invoke", "ok"] * 3
