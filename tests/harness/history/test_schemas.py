"""A row dataclass and its Arrow schema stand side by side; they may not drift apart."""

from __future__ import annotations

import dataclasses
import types
import typing

import pyarrow as pa
import pytest

from harness.history.tables import TABLES
from nemesis.fault import FAULTS, FaultRow
from nemesis.races.step import STEPS, Step
from nemesis.wire.message import MESSAGES, Message
from nodes.event import EVENTS, Event
from nodes.metadata_row import METADATA, MetadataRow
from reports.verdict import ANOMALIES, Anomaly
from workloads.group import POSITIONS, GroupPosition
from workloads.op import BOUNDS, OPS, RECORDS, Bounds, Op, Record

ROWS = [
    *((Op, OPS), (Record, RECORDS), (Bounds, BOUNDS), (FaultRow, FAULTS), (Event, EVENTS)),
    *((Message, MESSAGES), (MetadataRow, METADATA), (Step, STEPS), (GroupPosition, POSITIONS), (Anomaly, ANOMALIES)),
]
FITTING = {
    str: {pa.string()},
    int: {pa.int16(), pa.int32(), pa.int64()},
    bool: {pa.bool_()},
    float: {pa.float64()},
    tuple[int, ...]: {pa.list_(pa.int32()), pa.list_(pa.int64())},
    tuple[str, ...]: {pa.list_(pa.string())},
}


@pytest.mark.parametrize(("row", "schema"), ROWS, ids=lambda value: getattr(value, "__name__", ""))
def test_fields_and_columns_agree(row: type, schema: pa.Schema) -> None:
    assert dataclasses.is_dataclass(row)
    assert [field.name for field in dataclasses.fields(row)] == schema.names
    for name, hint in typing.get_type_hints(row).items():
        optional = isinstance(hint, types.UnionType)
        kind = next(arg for arg in typing.get_args(hint) if arg is not types.NoneType) if optional else hint
        column = schema.field(name)
        assert column.nullable == optional, name
        assert column.type in FITTING[kind], name


def test_every_row_type_but_conclusions_has_a_table() -> None:
    assert sorted(table.schema.names for table in TABLES.values()) == sorted(schema.names for _, schema in ROWS[:-1])
