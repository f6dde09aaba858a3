"""What the checker concluded, as people read it. An anomaly says in one sentence what went wrong and names the few
ops that prove it.

Verdicts form a lattice: invalid > unknown > valid (DESIGN decision 8). An empty history is never valid.
`verdict.json` is `Verdict.as_json()` and is a public, versioned format:

    {"format": 1, "run": "2026-11-21T10-14-03-chaos-1f3a", "verdict": "invalid", "status": "judged", "reason": null,
     "checks": [{"name": "lost-write", "verdict": "invalid", "engine": "spark-sql", "judged": 20000, "seconds": 0.8,
                 "note": null}],
     "anomalies": [{"type": "lost-write", "severity": "violation", "count": 200, "expected": false, "tolerated": false,
                    "sentence": "...", "witnesses": [...]}],
     "counts": {"ops": {"ok": 1, "fail": 0, "info": 0}, "attempted": 1, "acknowledged": 1, "read": 1, "lost": 0},
     "unavailability": [{"fault": 1, "name": "kill", "targets": ["b1"], "writes_seconds": 2.1, "reads_seconds": null}],
     "unjudged": ["..."]}
"""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from enum import StrEnum
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

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

    @classmethod
    def from_json(cls, document: Any, place: str = "verdict.json") -> Verdict:
        """The inverse of `as_json`. Raises VerdictError, naming `place` and the field, for anything that this format
        does not allow.
        """
        if not isinstance(document, dict):
            raise VerdictError(f"{place}: expected an object, found {_named(document)}")
        if document.get("format") != VERDICT_FORMAT:
            written = document.get("format", "no format number")
            raise VerdictError(
                f"{place}: written in format {written!r}; this krash reads format {VERDICT_FORMAT}: judge the run again"
            )
        verdict: Verdict = _read(cls, document, place)
        _one_of(Validity, verdict.verdict, f"{place}.verdict")
        _one_of(Status, verdict.status, f"{place}.status")
        for index, check in enumerate(verdict.checks):
            _one_of(Validity, check.verdict, f"{place}.checks[{index}].verdict")
        for index, anomaly in enumerate(verdict.anomalies):
            _one_of(Severity, anomaly.severity, f"{place}.anomalies[{index}].severity")
        return verdict


class VerdictError(ValueError):
    """A verdict document is not what this format says; the message names the field and what was expected."""


def _read(kind: Any, value: Any, place: str) -> Any:
    """`value`, parsed from JSON, as the type `kind`: a dataclass, a list or dict of one, an optional, or a plain
    type.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin is UnionType:
        return None if value is None else _read(next(k for k in arguments if k is not type(None)), value, place)
    if origin is list and isinstance(value, list):
        return [_read(arguments[0], item, f"{place}[{index}]") for index, item in enumerate(value)]
    if origin is dict and isinstance(value, dict):
        return {key: _read(arguments[1], item, f"{place}.{key}") for key, item in value.items()}
    if is_dataclass(kind) and isinstance(value, dict):
        return _read_fields(kind, value, place)
    if kind is float and type(value) in (int, float) and value - value == 0:  # neither NaN nor infinite
        return float(value)
    if type(value) is kind and kind is not float:
        return value
    raise VerdictError(f"{place}: expected {_EXPECTED.get(origin or kind, 'an object')}, found {_named(value)}")


def _read_fields(kind: Any, value: dict[str, Any], place: str) -> Any:
    hints = get_type_hints(kind)
    if unknown := sorted(value.keys() - hints.keys()):
        raise VerdictError(f"{place}: unknown field {unknown[0]!r}; known are {', '.join(hints)}")
    needed = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    if missing := [name for name in needed if name not in value]:
        raise VerdictError(f"{place}: field {missing[0]!r} is missing")
    return kind(**{name: _read(hints[name], item, f"{place}.{name}") for name, item in value.items()})


_EXPECTED = {
    str: "a text",
    int: "an integer",
    float: "a finite number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


def _named(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _one_of(kind: type[StrEnum], value: str, place: str) -> None:
    if value not in list(kind):
        raise VerdictError(f"{place}: expected one of {', '.join(kind)}, found {_named(value)}")
