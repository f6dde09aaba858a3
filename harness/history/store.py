"""Finish a run: stream its journal into Parquet, and only then let the journal go.

    journal/ --merge--> history.partial/ --verify, fsync--> history/        then journal/ -> journal.merged/ -> nothing

Every step may be the last one before a crash, and doing it all again is right each time: as long as `journal/` is
there it is whole and the truth; `history/` appears by one rename when it is complete and readable. Nothing is removed
when anything is wrong. The same function ends a run that went well and recovers one whose writers were killed.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from functools import partial as bind
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.history.errors import HistoryError
from harness.history.frame import FrameReader, Identity
from harness.history.merge import decoded, merge_writer
from harness.history.messages import merge_messages
from harness.history.plan import CHOICES, merge_choices
from harness.history.reading import check_tables, open_run
from harness.history.rundir import HISTORY, JOURNAL, read_run_info, sole_access
from harness.history.tables import MESSAGES_TABLE, ROW_TABLES, TABLES, Table

PARTIAL = "history.partial"
MERGED = "journal.merged"
RECORDER_TABLES = ("invocations", "completions", "reads", "bounds", "positions")
_CHOICES_TABLE = "choices"
_UNIQUE = {"value", "op", "offset", "sequence", "process", "invoked_ns", "completed_ns", "timestamp_ms", "position"}
_UNIQUE |= {"message", "answers", "correlation", "in_ns", "out_ns"}


@dataclass(kw_only=True)
class Finished:
    """What finishing a run found. `torn`: journal file -> bytes of its torn last message, never reported as written."""

    run: str
    rows: dict[str, int]  # per table
    never_completed: int = 0  # ops
    reads_left_out: int = 0  # of polls whose completion was not flushed
    torn: dict[str, int] = field(default_factory=dict)
    already: bool = False  # it was finished before; nothing was done


def finish(run_dir: Path) -> Finished:
    """Turn the journal into `history/` and `choices.jsonl`. All recorders of the run must be closed or dead.

    Idempotent. HistoryError, and the journal stays, when it is damaged anywhere but at the torn end of a file.
    """
    info = read_run_info(run_dir)
    journal = run_dir / JOURNAL
    if not journal.is_dir():
        if not (run_dir / HISTORY).is_dir():
            raise HistoryError(journal, "", "missing, and there is no history either: nothing of this run is left")
        history = open_run(run_dir)
        shutil.rmtree(run_dir / MERGED, ignore_errors=True)
        return Finished(run=info.run, rows=history.rows, already=True)
    with sole_access(run_dir):
        finished = _merge(run_dir, info.run)
        shutil.rmtree(run_dir / HISTORY, ignore_errors=True)
        (run_dir / PARTIAL).rename(run_dir / HISTORY)
        journal.rename(run_dir / MERGED)
        _sync(run_dir)
    shutil.rmtree(run_dir / MERGED)
    return finished


def recover(run_dir: Path) -> Finished:
    """`krash recover`: finish a run whose writers died. What was flushed is kept, what was not is unknown."""
    return finish(run_dir)


def _merge(run_dir: Path, run: str) -> Finished:
    journal, partial = run_dir / JOURNAL, run_dir / PARTIAL
    shutil.rmtree(partial, ignore_errors=True)
    files = _journal_files(journal)
    finished = Finished(run=run, rows={})
    with _ParquetFiles(partial) as parquet:
        for writer in sorted(files.get("invocations", {})):
            _merge_recorder(files, writer, run, parquet, finished)
        for table in ROW_TABLES.values():
            rows = _last_rows(table, files.get(table.name, {}), run, finished)
            for batch in rows.to_batches():
                parquet.write(0, table.name, batch)
        for writer, path in sorted(files.get(MESSAGES_TABLE.name, {}).items()):
            _identity(path, run, writer, MESSAGES_TABLE.name)
            if torn := merge_messages(path, bind(parquet.write, writer, MESSAGES_TABLE.name)):
                finished.torn[path.name] = torn
    torn = merge_choices(files.get(_CHOICES_TABLE, {}).values(), partial / CHOICES)
    if torn:
        finished.torn[_CHOICES_TABLE] = torn
    (partial / CHOICES).replace(run_dir / CHOICES)
    finished.rows = {name: sum(found.values()) for name, found in check_tables(partial, run).items()}
    for path in (run_dir / CHOICES, *sorted(partial.rglob("*")), partial):
        _sync(path)
    return finished


def _merge_recorder(
    files: dict[str, dict[int, Path]], writer: int, run: str, parquet: _ParquetFiles, finished: Finished
) -> None:
    paths = {table: files[table][writer] for table in RECORDER_TABLES if writer in files.get(table, {})}
    identities = {table: _identity(path, run, writer, table) for table, path in paths.items()}
    merged = merge_writer(paths, writer, identities["invocations"], bind(parquet.write, writer))
    finished.never_completed += merged.never_completed
    finished.reads_left_out += merged.reads_left_out
    finished.torn |= merged.torn


def _journal_files(journal: Path) -> dict[str, dict[int, Path]]:
    """Table -> writer -> file. A recorder makes its invocations first, so the others have one too."""
    found: dict[str, dict[int, Path]] = {}
    for path in sorted(journal.iterdir()):
        writer, _, table = path.name.partition(".")
        if not writer.isdecimal() or table not in {*RECORDER_TABLES, _CHOICES_TABLE, MESSAGES_TABLE.name, *ROW_TABLES}:
            raise HistoryError(path, "", "not a journal file of krash; it would be lost: move it away")
        found.setdefault(table, {})[int(writer)] = path
    for table in RECORDER_TABLES:
        for orphan in found.get(table, {}).keys() - found.get("invocations", {}).keys():
            raise HistoryError(journal / f"{orphan}.invocations", "", "missing, although this writer recorded")
    return found


def _identity(path: Path, run: str, writer: int, table: str) -> Identity | None:
    identity = FrameReader(path).identity()
    if identity is not None and (identity.run, identity.writer, identity.table) != (run, writer, table):
        what = f"holds {identity.table} of writer {identity.writer} of run {identity.run}"
        raise HistoryError(path, "byte 0", f"{what}, not what its name and run.json say")
    return identity


def _last_rows(table: Table, files: dict[int, Path], run: str, finished: Finished) -> pa.Table:
    """Rows of a table of few rows; of those with the same key the last one."""
    batches = []
    for writer, path in sorted(files.items()):
        _identity(path, run, writer, table.name)
        reader = FrameReader(path)
        batches += [decoded(path, frame, table.schema) for frame in reader.frames()]
        if reader.torn_bytes:
            finished.torn[path.name] = reader.torn_bytes
    rows = pa.Table.from_batches(batches, schema=table.schema).combine_chunks()
    if table.key is not None:
        last = {key: place for place, key in enumerate(rows[table.key].to_pylist())}
        rows = rows.take(pa.array(sorted(last.values()), pa.int64()))
    return rows.sort_by(table.order)


class _ParquetFiles:
    """One file per table and writer, and an empty one for a table that nobody wrote."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._writers: dict[tuple[str, int], pq.ParquetWriter] = {}
        for table in TABLES:
            (directory / table).mkdir(parents=True)

    def write(self, writer: int, table: str, batch: pa.RecordBatch) -> None:
        if (table, writer) not in self._writers:
            self._writers[table, writer] = self._open(table, f"writer-{writer:04}")
        self._writers[table, writer].write_batch(batch, row_group_size=batch.num_rows)

    def _open(self, table: str, name: str) -> pq.ParquetWriter:
        schema = TABLES[table].schema
        return pq.ParquetWriter(
            self.directory / table / f"{name}.parquet",
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=[item.name for item in schema if item.name not in _UNIQUE],
            write_page_checksum=True,
        )

    def __enter__(self) -> _ParquetFiles:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._writers.values():
            file.close()
        for table in TABLES.keys() - {table for table, _ in self._writers}:
            self._open(table, "empty").close()


def _sync(path: Path) -> None:
    """To the disk itself: the journal, which is about to go, could no longer tell."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
