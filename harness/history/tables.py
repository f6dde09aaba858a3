"""The tables of a run directory: each folder owns its rows, here they only get a place.

history/<table>/*.parquet     one or more files each, at least an empty one, schema as the owner says
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from nemesis.fault import FAULTS
from nemesis.races.step import STEPS
from nemesis.wire.message import MESSAGES
from nodes.event import EVENTS
from nodes.metadata_row import METADATA
from workloads.group import POSITIONS
from workloads.op import BOUNDS, OPS, RECORDS


@dataclass(frozen=True, kw_only=True)
class Table:
    name: str
    schema: pa.Schema
    order: str  # column by which the rows of one writer are sorted
    key: str | None = None  # of rows that are written again when they change: the last one per key counts


OPS_TABLE = Table(name="ops", schema=OPS, order="op")
RECORDS_TABLE = Table(name="records", schema=RECORDS, order="op")
BOUNDS_TABLE = Table(name="bounds", schema=BOUNDS, order="op")
POSITIONS_TABLE = Table(name="positions", schema=POSITIONS, order="op")
FAULTS_TABLE = Table(name="faults", schema=FAULTS, order="fault", key="fault")
EVENTS_TABLE = Table(name="events", schema=EVENTS, order="at_ns")

MESSAGES_TABLE = Table(name="messages", schema=MESSAGES, order="message")
METADATA_TABLE = Table(name="metadata", schema=METADATA, order="offset")
STEPS_TABLE = Table(name="steps", schema=STEPS, order="step", key="step")

# recorded as rows (rows.RowRecorder)
ROW_TABLES = {table.name: table for table in (FAULTS_TABLE, EVENTS_TABLE, METADATA_TABLE, STEPS_TABLE)}
TABLES = {
    table.name: table for table in (OPS_TABLE, RECORDS_TABLE, BOUNDS_TABLE, POSITIONS_TABLE, MESSAGES_TABLE)
} | ROW_TABLES
