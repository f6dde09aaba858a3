"""The journal's tables of a client process, as its recorder writes them and the merge reads them.

Invocations are packed rows (INVOCATION, then the values' bytes): they are written one call at a time while a client waits. The others are
Arrow batches. Enumerations are numbers: places in KINDS, PHASES and OUTCOMES.
"""

from __future__ import annotations

from struct import Struct

import pyarrow as pa

from workloads.op import OpKind, Outcome, Phase

WRITER_SHIFT = 40
WRITERS = 1 << 22
PROCESS_STRIDE = 1000

# process, sequence, invoked_ns, partition, bytes of the value, names of client and topic, kind, phase; -1: none
INVOCATION = Struct("<qqqiihhBB")
TRANSACTION = Struct("<q")  # op id of the begin, before the rows of a frame of that kind: others do not pay for it
INVOCATION_FIELDS = [
    ("process", "<i8"),
    ("sequence", "<i8"),
    ("invoked_ns", "<i8"),
    ("partition", "<i4"),
    ("value_bytes", "<i4"),
    ("client", "<i2"),
    ("topic", "<i2"),
    ("kind", "u1"),
    ("phase", "u1"),
]
KINDS: tuple[OpKind, ...] = tuple(OpKind)
PHASES: tuple[Phase, ...] = tuple(Phase)
OUTCOMES: tuple[Outcome, ...] = tuple(Outcome)
KIND = {kind: number for number, kind in enumerate(KINDS)}
PHASE = {phase: number for number, phase in enumerate(PHASES)}
OUTCOME = {outcome: number for number, outcome in enumerate(OUTCOMES)}


def _needed(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


COMPLETIONS = pa.schema(
    [
        _needed("op", pa.int64()),
        _needed("completed_ns", pa.int64()),
        _needed("count", pa.int64()),
        _needed("outcome", pa.int8()),  # place in OUTCOMES
        ("error", pa.string()),
        ("broker", pa.int32()),
        ("offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("timestamp_ms", pa.int64()),
    ]
)
READS = pa.schema(
    [
        _needed("op", pa.int64()),
        _needed("position", pa.int32()),
        _needed("topic", pa.string()),
        _needed("partition", pa.int32()),
        _needed("offset", pa.int64()),
        ("value", pa.string()),
        ("leader_epoch", pa.int32()),
        ("timestamp_ms", pa.int64()),
    ]
)
BOUNDS_ASKED = pa.schema(
    [
        _needed("op", pa.int64()),
        _needed("phase", pa.int8()),  # place in PHASES
        _needed("topic", pa.string()),
        _needed("partition", pa.int32()),
        ("log_start", pa.int64()),
        ("log_end", pa.int64()),
        ("read_to", pa.int64()),
        ("error", pa.string()),
        ("stable_end", pa.int64()),
    ]
)
POSITIONS_FOUND = pa.schema(
    [
        _needed("op", pa.int64()),
        _needed("group", pa.string()),
        ("protocol", pa.string()),
        ("member", pa.string()),
        ("generation", pa.int32()),
        _needed("topic", pa.string()),
        _needed("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)
