"""What nodes did, as seen from outside: processes that started and died, leaders and ISRs that changed.

One row per observation, keyed by `run`, ordered by `at_ns` (CLOCK_MONOTONIC of the clock domain in `clock`). Example:
`Event(at_ns=..., node="b1", kind="leader-changed", topic="log", partition=0, leader=2, leader_epoch=5, isr=[2, 3], ...)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa


class EventKind(StrEnum):
    STARTED = "started"  # a node's process was started
    READY = "ready"  # it answers its protocol
    EXITED = "exited"  # it is gone, whoever did it; detail says how
    LEADER_CHANGED = "leader-changed"
    ISR_CHANGED = "isr-changed"
    CONTROLLER_CHANGED = "controller-changed"
    CONTROLLER_CLAIMS = (
        "controller-claims"  # it says itself that it is the active one, in leader_epoch (nodes/claims.py)
    )
    CONTROLLER_CLAIM_ENDS = "controller-claim-ends"  # at_ns: when the last answer that says so was asked for
    FENCED = "fenced"  # a broker left the cluster's metadata
    UNFENCED = "unfenced"
    PHASE = "phase"  # of the run: deploy, workload, heal, drain; detail names it


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    run: str
    clock: str
    at_ns: int
    node: str | None  # the node it is about, or that reported it
    kind: str  # EventKind
    topic: str | None = None
    partition: int | None = None
    leader: int | None = None  # broker id; -1: none
    leader_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    detail: str | None = None


EVENTS = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("clock", pa.string(), nullable=False),
        pa.field("at_ns", pa.int64(), nullable=False),
        pa.field("node", pa.string()),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("leader", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("isr", pa.list_(pa.int32())),
        pa.field("detail", pa.string()),
    ]
)
