"""Consistency models of transactions, and the anomalies that each forbids.

    forbidden(("snapshot-isolation",))  ->  {"G0", "G1a", ..., "internal", "lost-update", "G-single-item", ...}

Isolation levels are Adya's (Weak Consistency, 1999: PL-1 ... PL-3) and those of Cerone, Bernardi and Gotsman (2015).
`strong-session-X` adds that each process sees its own transactions in order, `strong-X` real time: they forbid X's cycles
also with those edges in them. Names and what they forbid are as Elle publishes them, with two differences: parallel
snapshot isolation forbids G-single-item (Cerone and Gotsman, 2016, theorem 3), and `cyclic-versions`, which here follow
from what transactions read before they wrote, contradict read-committed, not read-uncommitted.
"""

from __future__ import annotations

from collections.abc import Sequence

DEFAULT = "strict-serializable"

PROCESS = "-process"
REALTIME = "-realtime"

_PL_1 = frozenset({"G0", "duplicate-elements"})
_PL_2 = _PL_1 | {"G1a", "G1b", "G1c", "dirty-update", "future-read", "incompatible-order", "cyclic-versions"}
_ATOMIC = _PL_2 | {"internal"}
_SINGLE = _PL_2 | {"lost-update", "G-single-item"}
_SNAPSHOT = _SINGLE | {"internal", "G-nonadjacent-item"}
_REPEATABLE = _SINGLE | {"G-nonadjacent-item", "G2-item"}
_SERIALIZABLE = _SNAPSHOT | _REPEATABLE

_PLAIN = {
    "read-uncommitted": _PL_1,
    "read-committed": _PL_2,
    "monotonic-atomic-view": _PL_2,
    "monotonic-view": _PL_2,
    "monotonic-snapshot-read": _PL_2,
    "cursor-stability": _PL_2 | {"lost-update"},
    "read-atomic": _ATOMIC,
    "causal-cerone": _ATOMIC,
    "prefix": _ATOMIC,
    "update-atomic": _ATOMIC | {"lost-update"},
    "parallel-snapshot-isolation": _ATOMIC | {"lost-update", "G-single-item"},
    "consistent-view": _SINGLE,
    "forward-consistent-view": _SINGLE,
    "update-serializable": _SINGLE,
    "repeatable-read": _REPEATABLE,
    "snapshot-isolation": _SNAPSHOT,
    "serializable": _SERIALIZABLE,
}
_CYCLES = ("G0", "G1c", "G-single-item", "G-nonadjacent-item", "G2-item")
_TIMED = ("read-uncommitted", "read-committed", "snapshot-isolation", "serializable")


def _with(anomalies: frozenset[str], *suffixes: str) -> frozenset[str]:
    return anomalies | {name + suffix for name in _CYCLES if name in anomalies for suffix in suffixes}


MODELS: dict[str, frozenset[str]] = {
    **_PLAIN,
    **{f"strong-session-{name}": _with(_PLAIN[name], PROCESS) for name in _TIMED},
    **{f"strong-{name}": _with(_PLAIN[name], PROCESS, REALTIME) for name in _TIMED},
}
ALIASES = {
    "strict-serializable": "strong-serializable",
    "conflict-serializable": "serializable",
    "PL-1": "read-uncommitted",
    "PL-2": "read-committed",
    "PL-CS": "cursor-stability",
    "PL-2L": "monotonic-view",
    "PL-MSR": "monotonic-snapshot-read",
    "PL-2+": "consistent-view",
    "PL-FCV": "forward-consistent-view",
    "PL-2.99": "repeatable-read",
    "PL-SI": "snapshot-isolation",
    "PL-3U": "update-serializable",
    "PL-3": "serializable",
    "PL-SS": "strong-serializable",
    "strong-session-PL-1": "strong-session-read-uncommitted",
    "strong-session-PL-2": "strong-session-read-committed",
    "strong-session-PL-SI": "strong-session-snapshot-isolation",
    "strong-session-PL-3": "strong-session-serializable",
    "strong-PL-1": "strong-read-uncommitted",
    "strong-PL-2": "strong-read-committed",
    "strong-PL-SI": "strong-snapshot-isolation",
    "strong-PL-3": "strong-serializable",
}
_BY_NAME = {name.lower(): MODELS[ALIASES.get(name, name)] for name in (*MODELS, *ALIASES)}


class UnknownConsistency(ValueError):
    """No such consistency model; the message names those that there are."""


def forbidden(names: Sequence[str]) -> frozenset[str]:
    """Types of anomaly that at least one of the models forbids; none named: strict-serializable. UnknownConsistency."""
    unknown = [name for name in names if name.lower() not in _BY_NAME]
    if unknown:
        known = ", ".join([*MODELS, *ALIASES])
        raise UnknownConsistency(f"there is no consistency model {unknown[0]!r}; known are {known}")
    return frozenset().union(*(_BY_NAME[name.lower()] for name in names or (DEFAULT,)))
