"""Opening runs: whatever is wrong with a directory is said with file and place, and nothing is touched."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.history.errors import HistoryError
from harness.history.reading import open_run
from harness.history.rundir import RunInfo, RunState, list_runs, read_run_info, write_run_info
from harness.history.store import finish
from tests.harness.history.conftest import RUN, Run, acknowledge, send
from workloads.op import OPS


@pytest.fixture
def finished(run: Run) -> Run:
    with run.recorder() as recorder:
        acknowledge(recorder, send(recorder, range(2000)), range(2000))
    finish(run.path)
    return run


def the_file(run: Run, table: str) -> Path:
    (path,) = (run.path / "history" / table).glob("*.parquet")
    return path


def expect_error(run: Run, match: str, *, deep: bool = True) -> HistoryError:
    before = run.contents()
    with pytest.raises(HistoryError, match=match) as caught:
        open_run(run.path, deep=deep)
    assert run.contents() == before
    return caught.value


def flip_a_bit(path: Path, row_group: int, column: str) -> None:
    """In the last page of a column."""
    metadata = pq.read_metadata(path)
    place = metadata.schema.names.index(column)
    meta = metadata.row_group(row_group).column(place)
    start = meta.dictionary_page_offset or meta.data_page_offset
    damaged = bytearray(path.read_bytes())
    damaged[start + meta.total_compressed_size - 3] ^= 1
    path.write_bytes(damaged)


def test_a_finished_run_opens(finished: Run) -> None:
    history = open_run(finished.path)
    assert {name: rows for name, rows in history.rows.items() if rows} == {"ops": 2000, "records": 2000}
    assert all(len(files) == 1 for files in history.files.values())
    assert history.table("ops").schema.equals(OPS)
    assert history.info.run == RUN


def test_columns_that_a_newer_krash_added_are_no_matter(finished: Run) -> None:
    path = the_file(finished, "ops")
    table = pq.read_table(path)
    pq.write_table(table.append_column("colour", pa.nulls(len(table), pa.string())), path)
    assert open_run(finished.path).table("ops").column_names == OPS.names


def test_a_missing_column(finished: Run) -> None:
    path = the_file(finished, "ops")
    pq.write_table(pq.read_table(path).drop_columns(["process"]), path)
    error = expect_error(finished, "missing", deep=False)
    assert (error.path, error.where) == (path, "column process")


def test_a_column_of_the_wrong_type(finished: Run) -> None:
    path = the_file(finished, "records")
    table = pq.read_table(path)
    at = table.schema.get_field_index("offset")
    pq.write_table(table.set_column(at, "offset", table["offset"].cast(pa.string())), path)
    error = expect_error(finished, "expected int64, found string", deep=False)
    assert (error.path, error.where) == (path, "column offset")


def test_an_empty_cell_where_none_may_be(finished: Run) -> None:
    path = the_file(finished, "ops")
    table = pq.read_table(path)
    at = table.schema.get_field_index("process")
    pq.write_table(table.set_column(at, "process", pa.nulls(len(table), pa.int64())), path)
    error = expect_error(finished, "empty cells")
    assert error.where == "row group 0, column process"


@pytest.mark.parametrize(
    ("name", "column", "value", "match"),
    [
        ("records", "offset", -1, "row group 0, column offset: is below zero"),
        ("records", "completed_ns", 0, "row group 0: has something that was completed before it was invoked"),
        ("ops", "completed_ns", 0, "row group 0: has something that was completed before it was invoked"),
        ("ops", "op", None, "row group 0, column op: has a number twice"),
    ],
)
def test_what_nobody_can_have_recorded(finished: Run, name: str, column: str, value: int | None, match: str) -> None:
    """In the last of two thousand rows; no value: that of the first."""
    path = the_file(finished, name)
    table = pq.read_table(path)
    at = table.schema.get_field_index(column)
    cells = table[column].to_pylist()
    cells[-1] = cells[0] if value is None else value
    pq.write_table(table.set_column(at, table.schema.field(at), pa.array(cells, table.schema.types[at])), path)
    expect_error(finished, match)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"hello, I am no Parquet" * 10])
def test_a_foreign_file(finished: Run, content: bytes) -> None:
    path = the_file(finished, "records")
    path.write_bytes(content)
    assert expect_error(finished, "truncated or foreign", deep=False).path == path


def test_a_truncated_file(finished: Run) -> None:
    path = the_file(finished, "records")
    path.write_bytes(path.read_bytes()[:-100])
    assert expect_error(finished, "truncated or foreign", deep=False).path == path


def test_a_flipped_bit_in_a_page_is_found_with_its_row_group(finished: Run) -> None:
    path = the_file(finished, "records")
    table = pq.read_table(path)
    pq.write_table(table, path, row_group_size=500, write_page_checksum=True, compression="none")
    flip_a_bit(path, row_group=2, column="offset")
    error = expect_error(finished, "cannot be read")
    assert (error.path, error.where) == (path, "row group 2")
    assert open_run(finished.path, deep=False)  # only a deep look can see it


def test_what_finish_writes_carries_page_checksums(finished: Run) -> None:
    path = the_file(finished, "records")
    flip_a_bit(path, row_group=0, column="offset")
    assert expect_error(finished, "cannot be read").where == "row group 0"


def test_rows_of_another_run(finished: Run, new_run: Callable[[], Run]) -> None:
    path = the_file(finished, "ops")
    table = pq.read_table(path)
    foreign = pa.array(["another"] * len(table))
    pq.write_table(table.set_column(table.schema.get_field_index("run"), OPS.field("run"), foreign), path)
    error = expect_error(finished, "rows of run another", deep=False)
    assert error.where == "row group 0"


def test_a_missing_table(finished: Run) -> None:
    the_file(finished, "events").unlink()
    assert expect_error(finished, "missing").path == finished.path / "history" / "events"


def test_an_unfinished_run_says_how_to_finish_it(run: Run) -> None:
    expect_error(run, f"krash recover {run.path}")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"{", "line 1: not JSON"),
        (b"[]", "not a run of krash"),
        (b'{"run": 3, "format": 1}', "not a run of krash"),
        (b'{"run": "r", "format": 2}', "format 2; this krash reads format 1"),
        (b'{"run": "r"}', "format None"),
        (b'{"run": "r", "format": 1, "topics": {}}', r"field topics: expected .*list.*, found dict"),
        (b'{"run": "\xc3("}', "cannot be read"),
    ],
)
def test_a_bad_run_json(finished: Run, content: bytes, match: str) -> None:
    (finished.path / "run.json").write_bytes(content)
    expect_error(finished, match)


def test_run_json_keeps_what_a_newer_krash_said(run: Run) -> None:
    data = json.loads((run.path / "run.json").read_bytes()) | {"weather": "fine"}
    (run.path / "run.json").write_text(json.dumps(data))
    info = read_run_info(run.path)
    write_run_info(run.path, dataclasses.replace(info, seed=8))
    again = json.loads((run.path / "run.json").read_bytes())
    assert (again["weather"], again["seed"], again["format"]) == ("fine", 8, 1)


def test_runs_are_listed_latest_first_whatever_state_they_are_in(tmp_path: Path) -> None:
    def make(name: str, started_at: str) -> Run:
        made = Run(tmp_path / name)
        write_run_info(made.path, RunInfo(run=name, started_at=started_at, seed=7, system="kafka:4.3.1"))
        return made

    old, dead, live = (
        make("a", "2026-11-20T10:00:00Z"),
        make("b", "2026-11-21T10:00:00Z"),
        make("c", "2026-11-21T11:00Z"),
    )
    finish(old.path)
    (old.path / "verdict.json").write_text('{"verdict": "valid", "status": "judged"}')
    dead.recorder().close()
    (dead.path / "verdict.json").write_text("{half a verd")
    recorder = live.recorder()
    (make("broken", "").path / "run.json").write_text("{half")
    (tmp_path / "not-a-run").mkdir()
    (tmp_path / "a-file").touch()
    listed = list_runs(tmp_path)
    assert [(run.run, run.state, run.verdict) for run in listed] == [
        ("c", RunState.RUNNING, None),
        ("b", RunState.UNFINISHED, None),
        ("a", RunState.FINISHED, "valid"),
        ("broken", RunState.UNREADABLE, None),
    ]
    assert "line 1" in listed[-1].note
    assert list_runs(tmp_path / "nowhere") == []
    recorder.close()
