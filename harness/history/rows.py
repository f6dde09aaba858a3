"""Tables of few rows (faults, events): each row a journal frame, in the kernel's hands when `write` returns.

with RowRecorder(journal, FAULTS_TABLE, run=run, clock=clock, writer=0) as faults:
    faults.write(FaultRow(fault=0, status="planned", ...))
    faults.write(FaultRow(fault=0, status="active", ...))     # the last row of a fault is the one that counts
"""

from __future__ import annotations

import threading
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from harness.history.frame import FrameFile, FrameKind, Identity, encode
from harness.history.tables import Table


class RowRecorder:
    """Appends rows of one table; thread-safe. `writer`: a number no other recorder of this table has in this run."""

    def __init__(self, journal: Path, table: Table, *, run: str, clock: str, writer: int) -> None:
        self.table = table
        self._lock = threading.Lock()
        identity = Identity(run=run, clock=clock, writer=writer, client="", table=table.name)
        self._file = FrameFile(journal / f"{writer}.{table.name}", identity)

    def write(self, row: Any) -> None:
        """A row dataclass of the table. ValueError when it does not fit the table's schema."""
        frame = encode(FrameKind.BATCH, 1, 0, memoryview(_batch(self.table, asdict(row)).serialize()))
        with self._lock:
            self._file.append(frame)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> RowRecorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _batch(table: Table, row: dict[str, Any]) -> pa.RecordBatch:
    if row.keys() != set(table.schema.names):
        raise ValueError(f"not a row of {table.name}: its fields are {', '.join(row)}")
    for field in table.schema:
        if row[field.name] is None and not field.nullable:
            raise ValueError(f"{table.name}.{field.name} may not be None")
    try:
        return pa.RecordBatch.from_pylist([row], schema=table.schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        raise ValueError(f"a row of {table.name} does not fit its schema: {error}; {row}") from error
