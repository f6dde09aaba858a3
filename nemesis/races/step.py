"""What a race did, step by step: the row behind each line of its story.

One row per verb of the script, in order: `Step(step=3, verb="kill", nodes=("b2",), text="kill -9 b2", started_ns=...,
ended_ns=..., seen="pid 812 is gone", status="done")`. A step that never ended has `ended_ns` None; the one whose
condition was not met within its deadline has status "not-reached" and says in `seen` what was seen instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa


class StepStatus(StrEnum):
    RUNNING = "running"
    DONE = "done"
    NOT_REACHED = "not-reached"
    FAILED = "failed"  # the harness could not do it


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    run: str
    clock: str
    step: int  # from 0, in the order of the script
    verb: str  # "kill", "until", "hold", "produce", ...
    nodes: tuple[str, ...]  # nodes it acts on, for the lanes of the picture
    text: str  # what it does, in words
    started_ns: int
    ended_ns: int | None
    status: str  # StepStatus
    seen: str | None  # what showed that it was done, or what was seen instead
    message: int | None  # the frame it is about (hold, release), as in `messages`


STEPS = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("clock", pa.string(), nullable=False),
        pa.field("step", pa.int64(), nullable=False),
        pa.field("verb", pa.string(), nullable=False),
        pa.field("nodes", pa.list_(pa.string()), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("started_ns", pa.int64(), nullable=False),
        pa.field("ended_ns", pa.int64()),
        pa.field("status", pa.string(), nullable=False),
        pa.field("seen", pa.string()),
        pa.field("message", pa.int64()),
    ]
)
