# ruff: noqa: E501  (events read best one to a line)
"""Evidence is what the tables say: compared with a plain recount in Python, and taken from damaged directories too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nemesis.fault import FAULTS
from nodes.event import EVENTS, EventKind
from reports.evidence import Evidence, gather, node_name
from reports.scan import History
from reports.series import BUCKET_LIMIT, Buckets
from reports.spans import PARTITION_LANES, SPANS_PER_LANE, states
from reports.timeline import draw
from reports.verdict import AnomalySummary, Verdict
from tests.reports import synthetic
from tests.reports.synthetic import ZERO, S, event, fault, isr, leadership, rows_of, write
from workloads.op import OPS, RECORDS


@pytest.fixture(scope="module")
def chaos(tmp_path_factory: pytest.TempPathFactory) -> synthetic.Run:
    return synthetic.chaos(tmp_path_factory.mktemp("chaos"))


@pytest.fixture(scope="module")
def unclean(tmp_path_factory: pytest.TempPathFactory) -> synthetic.Run:
    return synthetic.unclean(tmp_path_factory.mktemp("unclean"))


def evidence_of(run: synthetic.Run) -> Evidence:
    return gather(run.run, run.verdict, run.history)


def empty_run(folder: Path) -> synthetic.Run:
    verdict = Verdict(run="r", verdict="unknown", status="no-data", reason="nothing happened")
    return synthetic.Run(folder, {"run": "r"}, verdict)


def ops_table(run: synthetic.Run) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = pa.concat_tables(
        pq.read_table(f) for f in sorted((run.history / "ops").iterdir())
    ).to_pylist()
    return rows


def test_rates_agree_with_a_recount(chaos: synthetic.Run) -> None:
    activity = evidence_of(chaos).activity
    width = activity.buckets.width_s
    recount = {name: [0.0] * activity.buckets.count for name in ("acknowledged", "failed", "unknown", "read")}
    names = {
        ("send", "ok"): "acknowledged",
        ("send", "fail"): "failed",
        ("send", "info"): "unknown",
        ("poll", "ok"): "read",
    }
    for op in ops_table(chaos):
        at = op["completed_ns"] if op["completed_ns"] is not None else op["invoked_ns"]
        bucket = min(int((at - ZERO) // (width * S)), activity.buckets.count - 1)  # type: ignore[operator]
        recount[names[op["kind"], op["outcome"]]][bucket] += op["count"]  # type: ignore[index,operator]
    for name, counts in recount.items():
        assert getattr(activity, name) == pytest.approx([count / width for count in counts]), name


def test_latency_quantiles_agree_with_a_recount(chaos: synthetic.Run) -> None:
    latencies = sorted(
        (op["completed_ns"] - op["invoked_ns"]) / S  # type: ignore[operator]
        for op in ops_table(chaos) if op["kind"] == "send" and op["outcome"] == "ok"
    )  # fmt: skip
    sends = evidence_of(chaos).activity.sends
    assert sends is not None
    assert sends.count == len(latencies)
    for told, q in ((sends.p50, 0.5), (sends.p95, 0.95), (sends.p99, 0.99), (sends.largest, 1.0)):
        assert told == pytest.approx(latencies[int(np.ceil(q * len(latencies))) - 1], rel=0.016)


def test_client_lanes_and_errors_agree_with_a_recount(chaos: synthetic.Run) -> None:
    activity = evidence_of(chaos).activity
    rows = ops_table(chaos)
    assert [lane.client for lane in activity.clients] == ["d1", "w1", "w2"]
    for lane in activity.clients:
        mine = [op for op in rows if op["client"] == lane.client]
        assert sum(lane.ok) == sum(op["count"] for op in mine if op["outcome"] == "ok")  # type: ignore[misc]
        assert sum(lane.fail) == sum(op["outcome"] == "fail" for op in mine)
        assert sum(lane.info) == sum(op["outcome"] == "info" for op in mine)
    errors = {(e.kind, e.outcome, e.error): e.ops for e in activity.errors}
    assert errors == {
        ("send", "info", "_MSG_TIMED_OUT"): sum(op["error"] == "_MSG_TIMED_OUT" for op in rows),
        ("send", "fail", "NOT_ENOUGH_REPLICAS"): sum(op["error"] == "NOT_ENOUGH_REPLICAS" for op in rows),
    }


@pytest.mark.parametrize("seconds", [0.0, 0.02, 1, 60, 71.5, 3_600, 36_000, 10_000_000])
def test_time_is_cut_into_a_bounded_number_of_buckets(seconds: float) -> None:
    buckets = Buckets.over(0, seconds)
    assert 1 <= buckets.count <= BUCKET_LIMIT
    assert buckets.count * buckets.width_s >= seconds * 0.999
    places = buckets.of(np.array([-1e18, 0, seconds * S, 9.2e18]))
    assert places.min() >= 0
    assert places.max() < buckets.count


def test_witnesses_carry_their_ops_and_records(unclean: synthetic.Run) -> None:
    evidence = evidence_of(unclean)
    witnesses = unclean.verdict.anomalies[0].witnesses
    assert set(evidence.ops) == {w["ops"][0] for w in witnesses}
    for witness in witnesses:
        (record,) = evidence.ops[witness["ops"][0]].records
        assert (record.topic, record.partition, record.offset) == ("log", 0, witness["offset"])
        assert record.value == witness["value"]


def test_a_poll_shows_only_the_records_that_a_witness_is_about(tmp_path: Path) -> None:
    run = empty_run(tmp_path)
    op = {"run": "r", "clock": "host", "op": 5, "client": "w1", "process": 3, "kind": "poll", "phase": "main", "topic": None, "partition": None, "invoked_ns": ZERO, "completed_ns": ZERO + S, "outcome": "ok", "error": None, "broker": 1, "count": 500}  # fmt: skip
    record = {**op, "sequence": None, "topic": "log", "partition": 0, "leader_epoch": 2, "timestamp_ms": None}
    reads = [
        {**record, "position": i, "offset": i, "value": f"v{i}" if i != 7 else "A" * 3_000_000} for i in range(500)
    ]
    write(run, "ops", pa.Table.from_pylist([op], schema=OPS))
    write(run, "records", pa.Table.from_pylist(reads, schema=RECORDS))
    witness = {"topic": "log", "partition": 0, "offset": 7, "value": "v9", "ops": [5, 6, "seven", True, 2**70]}
    run.verdict = replace(run.verdict, anomalies=[AnomalySummary(
        type="duplicate", severity="violation", count=1, expected=False, tolerated=False, sentence="", witnesses=[witness])])  # fmt: skip
    shown = evidence_of(run).ops[5].records
    assert [r.offset for r in shown] == [7, 9]
    assert shown[0].value_length == 3_000_000
    assert len(shown[0].value or "") < 1_000


def test_the_last_row_of_a_fault_wins(tmp_path: Path) -> None:
    run = empty_run(tmp_path)
    healed = fault(1, "kill", ("b1",), "leader of log-0", 1, 5, "gone", "back")
    write(
        run,
        "faults",
        rows_of(FAULTS, [replace(healed, status="planned", healed_ns=None), replace(healed, status="active")]),
    )
    write(run, "faults", rows_of(FAULTS, [healed]))
    assert evidence_of(run).faults == (healed,)


def test_states_last_until_the_next_event(tmp_path: Path) -> None:
    run = empty_run(tmp_path)
    events = [
        leadership(1, 0, 1, 0, (1, 2, 3)), isr(2, 0, 1, 0, (1,)), leadership(3, 0, -1, 1, (1,)), leadership(4, 0, 2, 2, (2,)),
        event(0, EventKind.STARTED, "b1"), event(1, EventKind.READY, "b1"), event(3, EventKind.EXITED, "b1", detail="signal 9"),
        event(3.5, EventKind.FENCED, "b1"), event(4.5, EventKind.UNFENCED, "b1"), event(0.5, EventKind.CONTROLLER_CHANGED, "c1"),
    ]  # fmt: skip
    write(run, "events", rows_of(EVENTS, events))
    seen = states(History(run.history), ZERO + 5 * S, set())
    seconds = lambda spans: [((s.start_ns - ZERO) / S, (s.end_ns - ZERO) / S, s.state) for s in spans]  # noqa: E731
    (lane,) = seen.partitions
    assert seconds(lane.leaders) == [(1, 3, "1"), (3, 4, "-1"), (4, 5, "2")]
    assert seconds(lane.isr) == [(1, 2, "1,2,3"), (2, 4, "1"), (4, 5, "2")]
    assert seen.elections == 1
    (node,) = seen.nodes
    assert seconds(node.states) == [(0, 1, "starting"), (1, 3, "up"), (3, 5, "down")]
    assert seconds(node.fenced) == [(3.5, 4.5, "fenced")]
    assert seconds(seen.controller) == [(0.5, 5, "c1")]


def test_lanes_are_bounded_and_those_with_anomalies_are_kept(tmp_path: Path) -> None:
    run = empty_run(tmp_path)
    events = [leadership(1, p, 1, 0, (1, 2)) for p in range(50)]
    events += [leadership(2 + i / 100, 3, 1 + i % 2, i, (1, 2)) for i in range(SPANS_PER_LANE * 2)]
    write(run, "events", rows_of(EVENTS, events))
    seen = states(History(run.history), ZERO + 20 * S, {("log", 49)})
    shown = {lane.partition: lane for lane in seen.partitions}
    assert len(shown) == PARTITION_LANES
    assert {3, 49} <= shown.keys()
    assert seen.partitions_left_out == 50 - PARTITION_LANES
    assert len(shown[3].leaders) == SPANS_PER_LANE
    assert seen.spans_left_out > 0


def test_what_the_run_made_comes_before_what_the_system_made_for_itself(tmp_path: Path) -> None:
    run = empty_run(tmp_path)
    places = [("__consumer_offsets", 7), ("log", 1), ("log", 0)]
    events = [replace(leadership(1, partition, 1, 0, (1, 2)), topic=topic) for topic, partition in places]
    write(run, "events", rows_of(EVENTS, [*events, event(3, EventKind.READY, "b1")]))
    evidence = evidence_of(run)
    assert [(lane.topic, lane.partition) for lane in evidence.states.partitions] == [
        ("log", 0),
        ("log", 1),
        ("__consumer_offsets", 7),
    ]
    assert ">__consumer…sets-7<" in str(draw(evidence))


def test_nothing_at_all_is_evidence_too(tmp_path: Path) -> None:
    evidence = evidence_of(empty_run(tmp_path / "nowhere"))
    assert evidence.problems == ("nothing was recorded: history/ holds no tables",)
    assert evidence.activity.ops == 0
    assert evidence.seconds == 0


def test_a_journal_without_tables_points_to_recover(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    assert "krash recover" in evidence_of(empty_run(tmp_path)).problems[0]


def test_a_damaged_file_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    run = synthetic.unclean(tmp_path)
    whole = evidence_of(run)
    (run.history / "ops" / "part-9.parquet").write_bytes(b"PAR1 and then nothing sensible PAR1")
    (run.history / "events" / "part-0.parquet").write_bytes(b"")
    pq.write_table(pa.table({"op": [1]}), run.history / "faults" / "part-9.parquet")
    evidence = evidence_of(run)
    assert evidence.activity.ops == whole.activity.ops
    assert len(evidence.faults) == len(whole.faults)
    named = [problem.split(":")[0] for problem in evidence.problems]
    assert sorted(set(named)) == ["events/part-0.parquet", "faults/part-9.parquet", "ops/part-9.parquet"]
    assert "it has no column" in next(p for p in evidence.problems if p.startswith("faults"))


def test_bytes_that_are_no_text_are_shown_escaped(tmp_path: Path) -> None:
    run = empty_run(tmp_path)
    row = fault(1, "kill", ("b1",), "leader", 1, 2, "gone", "back")
    table = rows_of(FAULTS, [row])
    broken = pa.array([b"\xff\xfe gone"], pa.binary()).view(pa.string())
    write(run, "faults", table.set_column(table.schema.get_field_index("proof"), FAULTS.field("proof"), broken))
    assert evidence_of(run).faults[0].proof == r"\xff\xfe gone"


def test_one_absurd_time_does_not_flatten_the_page(chaos: synthetic.Run, tmp_path: Path) -> None:
    run = synthetic.chaos(tmp_path)
    absurd = rows_of(EVENTS, [replace(event(0, EventKind.READY, "b1"), at_ns=2**62)])
    write(run, "events", absurd)
    assert evidence_of(run).seconds == evidence_of(chaos).seconds == 71.5


def test_phases_without_an_end_are_those_of_a_run_that_was_stopped(tmp_path: Path) -> None:
    run = synthetic.unclean(tmp_path)
    run.run["phases"] = [{"name": "deploy", "start_ns": ZERO, "end_ns": ZERO + 4 * S}, {"name": "workload", "start_ns": ZERO + 4 * S, "end_ns": None}]  # fmt: skip
    evidence = evidence_of(run)
    assert 33 < evidence.seconds < 40
    assert [span.state for span in evidence.phases] == ["deploy", "workload"]


@pytest.mark.parametrize(
    "run_json", [{}, {"phases": "none", "versions": [], "spec": 3}, {"phases": [{"start_ns": "x"}, 7, None]}]
)
def test_a_strange_run_json_is_no_obstacle(run_json: dict[str, object], tmp_path: Path) -> None:
    run = synthetic.unclean(tmp_path)
    assert gather(run_json, run.verdict, run.history).activity.ops > 0


def test_memory_does_not_grow_with_the_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty times the rows are read with the same peak of Arrow memory."""
    held: list[int] = []
    read = History.batches

    def watched(history: History, *args: Any, **more: Any) -> Iterator[pa.RecordBatch]:
        for batch in read(history, *args, **more):
            held.append(pa.total_allocated_bytes())
            yield batch

    monkeypatch.setattr(History, "batches", watched)
    peaks = []
    for copies in (1, 20):
        run = synthetic.unclean(tmp_path / str(copies))
        for table in ("ops", "records"):
            whole = (run.history / table / "part-0.parquet").read_bytes()
            for copy in range(copies - 1):
                (run.history / table / f"copy-{copy}.parquet").write_bytes(whole)
        held.clear()
        before = pa.total_allocated_bytes()
        evidence_of(run)
        peaks.append(max(held) - before)
    assert peaks[1] < 1.5 * peaks[0]


def test_files_of_the_run_directory_are_named_but_for_our_own(unclean: synthetic.Run) -> None:
    (unclean.folder / "report.html").write_text("old", encoding="utf-8")
    files = evidence_of(unclean).files
    assert "nodes/b1/log/server.log" in files
    assert "history/ops/part-0.parquet" in files
    assert "report.html" not in files


def test_node_ids_get_the_names_of_the_run() -> None:
    run = {"versions": {"c1": "4.3.1", "b2": "4.3.1"}}
    assert [node_name(run, node) for node in ("2", "101", "7", "c1")] == ["b2", "c1", "node 7", "c1"]
    assert node_name(json.loads('{"versions": null}'), "2") == "node 2"
