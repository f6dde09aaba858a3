"""How long a fault kept clients waiting: from the moment its effect was proved to the first success of an op that was
invoked afterwards.

Per partition, and the one that waited longest counts: with three brokers, most partitions never notice that one was
killed. A write is an acknowledged send, a read is a poll that returned records of the partition. Information; a
violation only where the spec sets a bound (`unavailable_bound`, for writes), and only if somebody went on trying for
that long.

Successes are first reduced to one per partition and 10 ms (more in runs of hours), by Spark; the rest is a running
minimum and a binary search per partition. So a wait may come out too long by that much, never too short.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.checker.anomalies import UNAVAILABLE
from harness.checker.check import Check, Need, plain_finding

if TYPE_CHECKING:
    from harness.checker.history import History

_GRAIN_NS = 10_000_000
_GRAINS = 50_000  # at most, per partition
_SUCCESS = "outcome = 'ok' and completed_ns is not null and phase = 'main' and (kind = 'send' or kind = 'poll' and offset is not null)"
Int64s = npt.NDArray[np.int64]


class Wait(NamedTuple):
    """Of one fault on one partition: seconds from its proof to the first success; None: there was none any more."""

    fault: int
    name: str
    log: int
    write: bool
    proved_ns: int
    seconds: float | None


@dataclass(frozen=True, kw_only=True)
class Successes:
    """Of one log: when ops that succeeded were invoked (sorted, rounded down to `grain_ns`), and the earliest completion of each grain."""

    write: bool
    grain_ns: int
    invoked: Int64s
    completed: Int64s


def successes(history: History) -> dict[int, list[Successes]]:
    """log -> its writes and reads; one pass over the records."""
    from pyspark.sql import functions as F

    struck = [row["proved_ns"] for row in history.faults if row["proved_ns"] is not None]
    tallies = history.tallies.values()
    if not struck or not tallies:
        return {}
    longest = (
        max(max(t.last_send_ns or t.started_ns for t in tallies) - min(t.started_ns for t in tallies), 0)
        if len(history.runs) == 1
        else 0
    )
    grain = max(_GRAIN_NS, longest // _GRAINS)
    reduced = (
        history.records.where(_SUCCESS)
        .selectExpr("log", "kind = 'send' as write", f"invoked_ns div {grain} as grain", "completed_ns")
        .groupBy("log", "write", "grain")
        .agg(F.min("completed_ns").alias("completed"))
        .toArrow()
    )
    log, write, at, completed = (reduced[name].to_numpy() for name in ("log", "write", "grain", "completed"))
    order = np.lexsort((at, write, log))
    log, write, at, completed = log[order], write[order], at[order] * grain, completed[order]
    cuts = np.flatnonzero((log[1:] != log[:-1]) | (write[1:] != write[:-1])) + 1
    found: dict[int, list[Successes]] = {}
    for part in np.split(np.arange(len(log)), cuts):
        if len(part):
            found.setdefault(int(log[part[0]]), []).append(
                Successes(write=bool(write[part[0]]), grain_ns=grain, invoked=at[part], completed=completed[part])
            )
    return found


def waits(faults: Iterable[Mapping[str, Any]], logs: Mapping[int, Sequence[Successes]]) -> Iterator[Wait]:
    """Every fault of one run on every partition that ever succeeded. `faults`: FAULTS rows; `logs`: of the same run."""
    sides = [
        (log, side, np.minimum.accumulate(side.completed[::-1])[::-1]) for log in sorted(logs) for side in logs[log]
    ]
    for fault in faults:
        proved = fault["proved_ns"]
        if proved is None:
            continue
        for log, side, earliest in sides:
            at = int(np.searchsorted(side.invoked, proved, side="left"))
            seconds = (int(earliest[at]) - proved) / 1e9 if at < len(earliest) else None
            yield Wait(fault["fault"], fault["name"], log, side.write, proved, seconds)


def longest(found: Iterable[Wait]) -> dict[int, tuple[float | None, float | None]]:
    """fault -> seconds without writes and without reads, on the partition that waited longest; None: for good, or nobody ever did."""
    by_fault: dict[int, dict[bool, list[float | None]]] = {}
    for wait in found:
        by_fault.setdefault(wait.fault, {True: [], False: []})[wait.write].append(wait.seconds)
    return {fault: (_longest(sides[True]), _longest(sides[False])) for fault, sides in by_fault.items()}


def _longest(seconds: Sequence[float | None]) -> float | None:
    known = [value for value in seconds if value is not None]
    return max(known) if known and len(known) == len(seconds) else None


def beyond(bound: float | None, found: Iterable[Wait], logs: Mapping[int, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """FINDINGS rows of the waits that broke the bound. `logs`: log -> LOGS row."""
    rows = []
    for wait in found:
        log = logs[wait.log]
        tried = ((log["last_send_ns"] or wait.proved_ns) - wait.proved_ns) / 1e9
        if bound is None or not wait.write or (tried if wait.seconds is None else wait.seconds) <= bound:
            continue
        when = (wait.proved_ns - log["origin_ns"]) / 1e9
        how_long = "no write any more" if wait.seconds is None else f"no write for {wait.seconds:.1f} s"
        rows.append(
            plain_finding(
                UNAVAILABLE,
                run=log["run"],
                sentence=f"After {wait.name} took effect at {when:.3f} s, {log['topic']}-{log['partition']} took {how_long}; "
                f"the spec allows {bound:g} s.",
                topic=log["topic"],
                partition=log["partition"],
                since=wait.proved_ns,
                until=wait.proved_ns if wait.seconds is None else wait.proved_ns + round(wait.seconds * 1e9),
                detail={"fault": wait.fault, "seconds": wait.seconds},
            )
        )
    return [row | {"total": len(rows)} for row in rows]


CHECK = Check(kind=UNAVAILABLE, engine="spark-sql", needs=Need.FAULTS, searches=())
