"""The controllers' own account, as rows: every record of the metadata log that moved a leader, an ISR or a registration.

It is the one order of events that all nodes agreed on, which neither polls nor log files can give. Rows come from the
log's bytes (nodes/kafka/metadata_log.py), while the run lives and again, complete, from what was collected at its end;
(`node`, `offset`, `index`) tells a row. Example: `MetadataRow(node="c1", offset=41, index=0, epoch=2, kind="partition-change",
topic="log", partition=0, leader=2, isr=(2, 3), ...)`.

A controller that lost its quorum may write what nobody agrees on, and has to truncate it later: such rows are there too, and
`ends_of_epochs` tells them apart.

`at_ns` is when the harness saw it, so a bound from above on when it happened; `timestamp_ms` is the writer's wall clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, kw_only=True, slots=True)
class MetadataRow:
    run: str
    clock: str
    node: str  # whose copy of the log it was read from
    offset: int
    index: int  # place in its batch of rows with this offset; 0 but for records that become several rows
    epoch: int  # of the controller that wrote it
    at_ns: int | None  # None: read from the collected log only
    timestamp_ms: int
    kind: str  # "register-broker", "partition", "partition-change", "broker-registration-change", "leader-change", ...
    topic: str | None
    partition: int | None
    leader: int | None
    leader_epoch: int | None
    partition_epoch: int | None
    isr: tuple[int, ...] | None
    replicas: tuple[int, ...] | None
    broker: int | None  # of registrations
    broker_epoch: int | None
    fenced: bool | None
    fields: str  # JSON object: the whole record as decoded


METADATA = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("clock", pa.string(), nullable=False),
        pa.field("node", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("index", pa.int32(), nullable=False),
        pa.field("epoch", pa.int32(), nullable=False),
        pa.field("at_ns", pa.int64()),
        pa.field("timestamp_ms", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("leader", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("partition_epoch", pa.int32()),
        pa.field("isr", pa.list_(pa.int32())),
        pa.field("replicas", pa.list_(pa.int32())),
        pa.field("broker", pa.int32()),
        pa.field("broker_epoch", pa.int64()),
        pa.field("fenced", pa.bool_()),
        pa.field("fields", pa.string(), nullable=False),
    ]
)


def ends_of_epochs(places: Iterable[tuple[int, int]]) -> dict[int, float]:
    """Per epoch the offset at which it ends, infinity for the last, from (offset, epoch) of all rows of all copies.

    A later leader begins where the log ends that a majority has (Raft, leader completeness): a row of an earlier epoch at or
    beyond that offset was never agreed on. [(7, 1), (9, 1), (8, 3)] -> {1: 8, 3: inf}: the row at 9 of epoch 1 was truncated.
    """
    first: dict[int, int] = {}
    for offset, epoch in places:
        first[epoch] = min(offset, first.get(epoch, offset))
    ends: dict[int, float] = {}
    end = float("inf")
    for epoch in sorted(first, reverse=True):
        ends[epoch] = end
        end = min(end, first[epoch])
    return ends
