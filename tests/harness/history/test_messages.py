"""Frames of the wire gate: from the recorder through the journal into Parquet, and onto the terminal."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from harness.errors import UsageError
from harness.history import messages
from harness.history.messages import MessageRecorder, merge_messages
from harness.history.reading import open_run
from harness.history.rundir import update_run_info
from harness.history.store import finish
from harness.wire_command import Filters, show_messages
from nemesis.wire.message import MESSAGES
from nemesis.wire.rule import Drop, Hold
from tests.harness.history.conftest import RUN, Run
from tests.nemesis.wire.rig import METADATA, RECORDED, Rig, recorded, request

GATE = 1_000_001


def recorder_of(run: Run) -> MessageRecorder:
    return MessageRecorder(run.journal, run=RUN, clock="host", writer=GATE)


class Both:
    """Hands every frame to the recorder and keeps what its row must be."""

    def __init__(self, recorder: MessageRecorder) -> None:
        self.recorder = recorder
        self.rows: list[dict[str, Any]] = []

    def write(self, frame: Any) -> None:
        self.recorder.write(frame)
        self.rows.append({"run": RUN, "clock": "host", **frame.as_row()})

    def flush(self) -> None:
        self.recorder.flush()


def some_frames(run: Run) -> list[dict[str, Any]]:
    """Exchanges of real releases, a request held for long, one dropped, something opaque; rows as they must be."""
    rig, both = Rig(), Both(recorder_of(run))
    rig.engine.record = both.write
    rig.arm(Hold(), id="stale", api="AlterPartition", source="b2")
    rig.arm(Drop(), id="gone", api="Metadata", source="b2")
    rig.link("b2").says(recorded(56)[0])
    for number, one in enumerate(RECORDED):
        link = rig.link(one["source"], one["destination"])
        link.says(bytes.fromhex(one["request"]))
        link.answers(bytes.fromhex(one["response"]))
        if number % 3 == 0:
            both.flush()
    rig.link("b2").says(request(1, METADATA, client=None))
    rig.link().says(b"\x16\x03\x01\x00" * 10)
    rig.engine.release("stale", "all", "as held")
    both.recorder.close()
    return sorted(both.rows, key=lambda row: int(row["message"]))


def test_every_frame_becomes_its_row_in_order(run: Run) -> None:
    rows = some_frames(run)
    finished = finish(run.path)
    history = open_run(run.path)
    assert finished.rows["messages"] == len(rows) > 20
    found = history.table("messages").to_pylist()
    assert found == rows
    assert [row["action"] for row in found].count("held") == 1


def test_rows_are_put_in_order_a_block_at_a_time(run: Run) -> None:
    rows = some_frames(run)
    emitted: list[pa.RecordBatch] = []
    with patch.object(messages, "BLOCK_SHIFT", 2):
        torn = merge_messages(run.journal / f"{GATE}.messages", emitted.append)
    assert torn == 0
    assert max(batch.num_rows for batch in emitted) <= 4
    assert pa.Table.from_batches(emitted, schema=MESSAGES).to_pylist() == rows


def test_a_torn_end_is_left_out_and_told(run: Run) -> None:
    rows = some_frames(run)
    file = run.journal / f"{GATE}.messages"
    file.write_bytes(file.read_bytes()[:-7])
    finished = finish(run.path)
    assert finished.torn[file.name] > 0
    found = open_run(run.path).table("messages").to_pylist()
    assert 0 < len(found) < len(rows)
    assert [row["message"] for row in found] == sorted(row["message"] for row in found)


def shown(run: Run, capsys: pytest.CaptureFixture[str], *, limit: int = 0, **filters: str) -> list[dict[str, Any]]:
    assert show_messages(run.path, Filters(**filters), limit=limit, as_json=True) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_frames_are_filtered(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    rows = some_frames(run)
    finish(run.path)
    assert shown(run, capsys) == rows
    assert shown(run, capsys, limit=3) == rows[:3]
    assert {row["api"] for row in shown(run, capsys, api="alterpartition")} == {56}
    assert shown(run, capsys, api="56") == shown(run, capsys, api="AlterPartition")
    assert {row["destination"] for row in shown(run, capsys, source="b*", destination="c1")} == {"c1"}
    assert [row["rule"] for row in shown(run, capsys, action="dropped")] == ["gone"]
    assert [row["action"] for row in shown(run, capsys, rule="stale")] == ["held"]
    middle = rows[10]["in_ns"]
    update_run_info(run.path, phases=[{"name": "deploy", "start_ns": middle - 5_000_000_000, "end_ns": None}])
    assert shown(run, capsys, until="5s") == [row for row in rows if row["in_ns"] <= middle]
    assert shown(run, capsys, since="5s") == [row for row in rows if row["in_ns"] >= middle]
    for wrong in (Filters(action="eaten"), Filters(since="yesterday")):
        with pytest.raises(UsageError):
            show_messages(run.path, wrong, limit=0, as_json=True)


def test_frames_are_told_in_words(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    some_frames(run)
    finish(run.path)
    assert show_messages(run.path, Filters(), limit=5, as_json=False) == 0
    told = capsys.readouterr().out
    assert "b2 -> c1  AlterPartition v3" in told
    assert "held by stale" in told
    assert "newIsr=[1, 2]" in told
    assert "more; --limit 0 shows all" in told
    assert show_messages(run.path, Filters(source="nobody"), limit=5, as_json=False) == 0
    assert "frames fits" in capsys.readouterr().out


def test_a_run_without_a_gate_says_so(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    finish(run.path)
    assert show_messages(run.path, Filters(), limit=5, as_json=False) == 0
    assert "no wire gate" in capsys.readouterr().out
