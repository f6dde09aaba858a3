"""The few ops that prove each anomaly, fetched by id from tables that are too large to load.

An anomaly names ops (`Anomaly.ops`, the most telling first), an offset and a value. What a reader needs beside them:
who did each op, when, with what outcome, and the record in question as that op saw it (a poll may have returned a
thousand others).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reports.scan import History, rows
from reports.verdict import AnomalySummary
from reports.wording import VALUE_LIMIT

OPS_LIMIT = 2_000
OPS_PER_WITNESS = 6
RECORDS_PER_OP = 4
_VALUE_BYTES = VALUE_LIMIT * 4


@dataclass(frozen=True, kw_only=True)
class WitnessRecord:
    topic: str
    partition: int
    offset: int | None
    value: str | None
    value_length: int  # characters or bytes of the whole value
    sequence: int | None
    leader_epoch: int | None


@dataclass(frozen=True, kw_only=True)
class WitnessOp:
    op: int
    client: str
    process: int
    kind: str
    phase: str
    topic: str | None
    partition: int | None
    invoked_ns: int
    completed_ns: int | None
    outcome: str
    error: str | None
    broker: int | None
    count: int
    records: tuple[WitnessRecord, ...] = ()  # those that the anomalies are about


_OP_COLUMNS = [name for name in WitnessOp.__dataclass_fields__ if name != "records"]
_RECORD_COLUMNS = ["op", "kind", "topic", "partition", "offset", "value", "sequence", "leader_epoch"]


def witness_ids(anomalies: Iterable[AnomalySummary]) -> list[int]:
    """Ids of the ops to show, each anomaly's first `OPS_PER_WITNESS`, at most `OPS_LIMIT` in all."""
    found: dict[int, None] = {}
    for anomaly in anomalies:
        for witness in anomaly.witnesses:
            found.update(dict.fromkeys(integers(witness.get("ops"))[:OPS_PER_WITNESS]))
    return list(found)[:OPS_LIMIT]


def integers(cell: Any) -> list[int]:
    """The integers of a list that came from a file; anything else in it is dropped."""
    return [item for item in cell if type(item) is int and abs(item) < 2**63] if isinstance(cell, (list, tuple)) else []


def witness_ops(history: History, anomalies: Iterable[AnomalySummary]) -> dict[int, WitnessOp]:
    anomalies = list(anomalies)
    ids = witness_ids(anomalies)
    if not ids:
        return {}
    value_set = pa.array(sorted(ids), pa.int64())
    ops: dict[int, WitnessOp] = {}
    for batch in history.batches("ops", _OP_COLUMNS, ops=ids):
        for row in rows(batch.filter(pc.is_in(batch.column("op"), value_set=value_set))):
            ops[row["op"]] = WitnessOp(**row)
    records = _records(history, ids, anomalies)
    return {op: replace(ops[op], records=tuple(records.get(op, ()))) for op in ids if op in ops}


def _records(history: History, ids: list[int], anomalies: list[AnomalySummary]) -> Mapping[int, list[WitnessRecord]]:
    """Records of those ops that some anomaly is about: every record of a send, and what a poll read at a witness's
    offset or value.
    """
    witnesses = [witness for anomaly in anomalies for witness in anomaly.witnesses]
    offsets = pa.array(sorted({o for w in witnesses for o in integers([w.get("offset")])}), pa.int64())
    values = pa.array(
        sorted({w["value"] for w in witnesses if isinstance(w.get("value"), str) and w["value"].isascii()}), pa.string()
    )
    value_set = pa.array(sorted(ids), pa.int64())
    found: dict[int, list[WitnessRecord]] = {}
    for batch in history.batches("records", _RECORD_COLUMNS, ops=ids):
        mine = batch.filter(pc.is_in(batch.column("op"), value_set=value_set))
        about = pc.or_(
            pc.equal(mine.column("kind"), "send"),
            pc.or_(
                pc.is_in(mine.column("offset").cast(pa.int64()), value_set=offsets),
                pc.is_in(mine.column("value").cast(pa.string()), value_set=values),
            ),
        )
        for row in _clipped_rows(mine.filter(about)):
            if len(found.setdefault(row["op"], [])) < RECORDS_PER_OP:
                found[row["op"]].append(_record(row))
    return found


def _clipped_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows with the start of each value and its length, so that a megabyte never becomes a Python string."""
    value = batch.column("value").cast(pa.binary())
    plain = batch.drop_columns(["value"])
    starts = [
        None if v is None else v.decode("utf-8", "backslashreplace")
        for v in pc.binary_slice(value, 0, _VALUE_BYTES).to_pylist()
    ]
    lengths = pc.binary_length(value).to_pylist()
    cells = zip(rows(plain), starts, lengths, strict=True)
    return [{**row, "value": start, "value_length": length or 0} for row, start, length in cells]


def _record(row: dict[str, Any]) -> WitnessRecord:
    return WitnessRecord(**{name: row[name] for name in WitnessRecord.__dataclass_fields__})
