"""What the checker concluded, as people read it. An anomaly says in one sentence what went wrong and names the few ops that prove it.

Verdicts form a lattice: invalid > unknown > valid (DESIGN decision 8). An empty history is never valid. `verdict.json` is `Verdict.as_json()`
and is a public, versioned format:

    {"format": 1, "run": "2026-11-21T10-14-03-chaos-1f3a", "verdict": "invalid", "status": "judged", "reason": null,
     "checks": [{"name": "lost-write", "verdict": "invalid", "engine": "spark-sql", "judged": 20000, "seconds": 0.8, "note": null}],
     "anomalies": [{"type": "lost-write", "severity": "violation", "count": 200, "expected": false, "sentence": "...", "witnesses": [...]}],
     "counts": {"ops": {"ok": 1, "fail": 0, "info": 0}, "attempted": 1, "acknowledged": 1, "read": 1, "lost": 0},
     "unavailability": [{"fault": 1, "name": "kill", "seconds": 2.1, ...}], "unjudged": [...]}
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa

VERDICT_FORMAT = 1
WITNESSES_PER_TYPE = 20


class Validity(StrEnum):
    VALID = "valid"
    UNKNOWN = "unknown"
    INVALID = "invalid"


class Status(StrEnum):
    JUDGED = "judged"
    NO_DATA = "no-data"
    NOT_REACHED = "not-reached"
    HANG = "hang"
    HARNESS_ERROR = "harness-error"
    INTERRUPTED = "interrupted"


class Severity(StrEnum):
    VIOLATION = "violation"  # makes the verdict invalid
    INFORMATION = "information"  # shown, never judged
    UNJUDGED = "unjudged"  # something could not be judged; makes the verdict unknown


@dataclass(frozen=True, kw_only=True, slots=True)
class Anomaly:
    """One thing that went wrong, with what proves it. `ops` are ids of the ops table, the most telling first."""

    run: str
    check: str
    type: str
    severity: str
    sentence: str
    topic: str | None
    partition: int | None
    offset: int | None
    value: str | None
    ops: tuple[int, ...]
    faults: tuple[int, ...]  # faults that were active when it happened, or ended within the minute before
    expected: bool  # the settings make it possible (acks=1, unclean election): still invalid unless tolerated
    tolerated: bool  # the spec lists its type under `tolerate`
    detail: str | None  # JSON object with whatever else the check knows


ANOMALIES = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("check", pa.string(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("severity", pa.string(), nullable=False),
        pa.field("sentence", pa.string(), nullable=False),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("value", pa.string()),
        pa.field("ops", pa.list_(pa.int64()), nullable=False),
        pa.field("faults", pa.list_(pa.int64()), nullable=False),
        pa.field("expected", pa.bool_(), nullable=False),
        pa.field("tolerated", pa.bool_(), nullable=False),
        pa.field("detail", pa.string()),
    ]
)


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    name: str
    verdict: str
    engine: str  # "spark-sql", "slot-sweep", ...
    judged: int  # rows it looked at
    seconds: float
    note: str | None = None  # why unknown, or what was left out


@dataclass(frozen=True, kw_only=True)
class AnomalySummary:
    type: str
    severity: str
    count: int
    expected: bool
    tolerated: bool
    sentence: str  # of the first witness
    witnesses: list[dict[str, Any]]  # up to WITNESSES_PER_TYPE rows of ANOMALIES as dicts


@dataclass(frozen=True, kw_only=True)
class Counts:
    ops: dict[str, int]  # outcome -> ops
    attempted: int  # records
    acknowledged: int
    read: int
    lost: int


@dataclass(frozen=True, kw_only=True)
class Unavailability:
    """From the moment a fault took effect: how long until the first op invoked afterwards succeeded."""

    fault: int
    name: str
    targets: list[str]
    writes_seconds: float | None  # None: none succeeded before the run ended
    reads_seconds: float | None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    run: str
    verdict: str
    status: str
    reason: str | None
    checks: list[CheckResult] = field(default_factory=list)
    anomalies: list[AnomalySummary] = field(default_factory=list)
    counts: Counts | None = None
    unavailability: list[Unavailability] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    format: int = VERDICT_FORMAT

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
