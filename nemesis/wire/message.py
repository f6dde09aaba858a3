"""What nodes said to each other: one row per Kafka frame that passed the wire gate.

A response has the correlation id, api and version of its request, and `answers` names that request's row. Times are
CLOCK_MONOTONIC nanoseconds of the run's clock domain: `in_ns` when the frame's last byte had reached the gate, `out_ns`
when it was handed to the kernel again (None: it never was: dropped, or still held when the run ended).

Example, an AlterPartition that was held for four seconds: `Message(message=4711, connection=12, source="b1",
destination="c1", direction="request", api=56, api_name="AlterPartition", version=2, correlation=31, client_id="1",
in_ns=..., out_ns=in_ns + 4e9, action="held", rule="stale", fields='{"newIsr": [1, 2], "partitionEpoch": 1, ...}')`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa


class Direction(StrEnum):
    REQUEST = "request"
    RESPONSE = "response"


class Action(StrEnum):
    """What the gate did with a frame."""

    PASSED = "passed"
    HELD = "held"  # and released, when `out_ns` is set
    DROPPED = "dropped"
    DELAYED = "delayed"
    DUPLICATED = "duplicated"
    CLOSED = "closed"  # its connection was closed before or after it
    REWRITTEN = "rewritten"


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    run: str
    clock: str
    message: int  # unique in the run, in the order of `in_ns`
    connection: int  # unique in the run
    source: str  # node that sent this frame; a response's source is the node that answers
    destination: str
    direction: str  # Direction
    api: int  # Kafka's api key
    api_name: str  # "AlterPartition"; "api 99" when nobody knows it
    version: int
    correlation: int
    client_id: str | None
    answers: int | None  # of a response: the request's `message`
    size: int  # bytes without the length prefix
    in_ns: int
    out_ns: int | None
    action: str  # Action
    rule: str | None  # id of the rule that acted
    fields: str | None  # JSON object: decoded key fields, of control-plane apis and of frames that a rule decoded
    error: str | None  # of a decoded response: Kafka's name of its error, NONE included


MESSAGES = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("clock", pa.string(), nullable=False),
        pa.field("message", pa.int64(), nullable=False),
        pa.field("connection", pa.int64(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("destination", pa.string(), nullable=False),
        pa.field("direction", pa.string(), nullable=False),
        pa.field("api", pa.int16(), nullable=False),
        pa.field("api_name", pa.string(), nullable=False),
        pa.field("version", pa.int16(), nullable=False),
        pa.field("correlation", pa.int32(), nullable=False),
        pa.field("client_id", pa.string()),
        pa.field("answers", pa.int64()),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("in_ns", pa.int64(), nullable=False),
        pa.field("out_ns", pa.int64()),
        pa.field("action", pa.string(), nullable=False),
        pa.field("rule", pa.string()),
        pa.field("fields", pa.string()),
        pa.field("error", pa.string()),
    ]
)
