"""From what the checks found in one run to its verdict. Plain Python: the rules of the lattice, without Spark.

    invalid   an anomaly of severity violation that the spec does not tolerate
    unknown   nothing to judge, or something that could not be judged
    valid     otherwise: there was data, and every enabled check could look at some of it

A run in which nothing was acknowledged and nothing was read has the status no-data and is never valid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

import pyarrow as pa

from harness.checker.anomalies import LOST_WRITE, TYPES, UNAVAILABLE
from harness.checker.check import Check, Need
from harness.checker.facts import Ending, RunFacts, Tally
from harness.checker.witnesses import Windows
from reports.verdict import (
    ANOMALIES,
    WITNESSES_PER_TYPE,
    AnomalySummary,
    CheckResult,
    Counts,
    Severity,
    Status,
    Unavailability,
    Validity,
    Verdict,
)

_SEVERITIES = (Severity.VIOLATION, Severity.INFORMATION, Severity.UNJUDGED)
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Found:
    """What one check found in all runs. Rows are FINDINGS plus `total`: how many there are of that run, type and severity."""

    check: Check
    seconds: float
    rows: Mapping[str, Sequence[Row]] = field(default_factory=dict)  # run -> rows


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All that is known of one run besides findings."""

    facts: RunFacts
    logs: Sequence[tuple[Row, Tally]] = ()  # LOGS rows with their counts
    faults: Sequence[Row] = ()  # FAULTS
    waits: Mapping[int, tuple[float | None, float | None]] = field(
        default_factory=dict
    )  # fault -> seconds without writes, reads
    outcomes: Mapping[str, int] = field(default_factory=dict)  # of ops
    read: int = 0  # offsets that anybody read
    bounds: int = 0  # end offsets that were asked for
    others: Mapping[Need, int] = field(default_factory=dict)  # rows of optional checks

    def judged(self, need: Need) -> int:
        tallies = [tally for _, tally in self.logs]
        match need:
            case Need.ACKNOWLEDGED:
                return sum(tally.acknowledged for tally in tallies)
            case Need.READ:
                return sum(tally.reads for tally in tallies)
            case Need.FAULTS:
                return len(self.waits)
            case Need.BOUNDS:
                return self.bounds
            case (
                Need.TRANSACTIONS
                | Need.ANY_TRANSACTIONS
                | Need.GROUPS
                | Need.STABLE_ENDS
                | Need.CLAIMS
                | Need.REPLICAS
                | Need.METADATA
            ):
                return self.others.get(need, 0)
            case _:
                assert_never(need)


@dataclass(frozen=True, kw_only=True)
class Judged:
    run: str
    verdict: Verdict
    anomalies: pa.Table  # ANOMALIES


def conclude(evidence: Evidence, found: Sequence[Found]) -> Judged:
    facts = evidence.facts
    windows = Windows(evidence.faults)
    asked = LOST_WRITE.name in facts.settings.wanted and not facts.foreign  # there, what was not read is `unseen`
    gaps = list(unjudged(facts, evidence.logs)) if asked else []
    rows: list[Row] = []
    totals: dict[tuple[str, str], int] = {}
    results = []
    for one in found:
        if one.check.name not in facts.settings.wanted or (one.check.optional and not evidence.judged(one.check.needs)):
            continue
        mine = [_anomaly(row, one.check, facts, windows) for row in one.rows.get(facts.run, ())]
        totals |= {(row["type"], row["severity"]): row["total"] for row in one.rows.get(facts.run, ())}
        if one.check.kind is LOST_WRITE:
            mine += [_gap(facts, gap) for gap in gaps]
            totals[LOST_WRITE.name, Severity.UNJUDGED] = len(gaps)
        results.append(_result(one, evidence, mine))
        rows += mine
    tallies = [tally for _, tally in evidence.logs]
    counts = Counts(
        ops={outcome: evidence.outcomes.get(outcome, 0) for outcome in ("ok", "fail", "info")},
        attempted=sum(tally.sends for tally in tallies),
        acknowledged=sum(tally.acknowledged + tally.unplaced for tally in tallies),
        read=evidence.read,
        lost=totals.get((LOST_WRITE.name, Severity.VIOLATION), 0),
    )
    validity, status, reason = _with_ending(facts, *_overall(results, counts))
    verdict = Verdict(
        run=facts.run,
        verdict=validity,
        status=status,
        reason=reason,
        checks=results,
        anomalies=list(_summaries(rows, totals)),
        counts=counts,
        unavailability=list(_unavailability(evidence)),
        unjudged=gaps
        + [row["sentence"] for row in rows if row["severity"] == Severity.UNJUDGED and row["sentence"] not in gaps],
    )
    return Judged(run=facts.run, verdict=verdict, anomalies=pa.Table.from_pylist(rows, schema=ANOMALIES))


def unjudged(facts: RunFacts, logs: Sequence[tuple[Row, Tally]]) -> Iterator[str]:
    """What could not be judged about losses, in sentences; each makes the verdict unknown."""
    unplaced = sum(tally.unplaced - tally.found_anyway for _, tally in logs)
    if unplaced:
        yield (
            f"{unplaced} records were acknowledged without an offset and the final read does not contain them: "
            "nobody can say whether they were lost."
        )
    elif facts.acks == "0":
        yield "With acks=0 nothing is ever acknowledged: nothing can be said about lost writes."
    for log, tally in logs:
        name = f"{log['topic']}-{log['partition']}"
        if not tally.acknowledged or log["ending"] in (Ending.GONE, Ending.DELETED):
            continue
        if log["ending"] == Ending.UNREAD:
            what = "was not read after the faults"
            yield f"{name} {what}{_because(log)}: {tally.acknowledged} acknowledged records could not be judged."
        elif log["complete_to"] < log["log_end"]:
            what = f"was read to offset {log['complete_to']} of {log['log_end']} only"
            yield f"{name} {what}{_because(log)}: what was acknowledged above could not be judged."


def _because(log: Row) -> str:
    if log["blocked"]:
        return ", because a transaction never ended"
    return f", because {log['unread_because']}" if log["unread_because"] else ""


def _anomaly(row: Row, check: Check, facts: RunFacts, windows: Windows) -> Row:
    """A finding with what only the run knows."""
    faults = windows.around(row["from_ns"], row["to_ns"])
    return {
        **{
            name: row[name]
            for name in (
                "run",
                "type",
                "severity",
                "topic",
                "partition",
                "offset",
                "value",
                "ops",
                "expected",
                "detail",
            )
        },
        "check": check.name,
        "sentence": f"{row['sentence']}{windows.told(faults)}",
        "faults": faults,
        "tolerated": row["type"] in facts.settings.tolerate,
    }


def _gap(facts: RunFacts, sentence: str) -> Row:
    empty = dict.fromkeys(("topic", "partition", "offset", "value", "detail"))
    return {
        **empty,
        "run": facts.run,
        "check": LOST_WRITE.name,
        "type": LOST_WRITE.name,
        "severity": str(Severity.UNJUDGED),
        "sentence": sentence,
        "ops": [],
        "faults": [],
        "expected": False,
        "tolerated": False,
    }


def _result(found: Found, evidence: Evidence, rows: Sequence[Row]) -> CheckResult:
    check = found.check
    judged = evidence.judged(check.needs)
    violations = [row for row in rows if row["severity"] == Severity.VIOLATION]
    gaps = [row for row in rows if row["severity"] == Severity.UNJUDGED]
    verdict, note = Validity.VALID, None
    if any(not row["tolerated"] for row in violations):
        verdict = Validity.INVALID
    elif gaps:
        verdict, note = Validity.UNKNOWN, gaps[0]["sentence"]
    elif check.kind is UNAVAILABLE and evidence.facts.settings.unavailable_bound is None:
        note = "information only: the spec sets no bound"
    elif not judged and check.kind is not UNAVAILABLE:
        verdict, note = Validity.UNKNOWN, f"nothing to judge: there are no {check.needs}"
    elif violations:
        note = "found, and tolerated by the spec"
    return CheckResult(
        name=check.name,
        verdict=str(verdict),
        engine=check.engine,
        judged=judged,
        seconds=round(found.seconds, 3),
        note=note,
    )


def _overall(results: Sequence[CheckResult], counts: Counts) -> tuple[str, str, str | None]:
    if not counts.acknowledged and not counts.read:
        return Validity.UNKNOWN, Status.NO_DATA, "nothing was acknowledged and nothing was read"
    invalid = [result.name for result in results if result.verdict == Validity.INVALID]
    if invalid:
        return Validity.INVALID, Status.JUDGED, ", ".join(invalid)
    unknown = [result for result in results if result.verdict == Validity.UNKNOWN]
    if unknown:
        return Validity.UNKNOWN, Status.JUDGED, "; ".join(f"{result.name}: {result.note}" for result in unknown)
    if not results:
        return Validity.UNKNOWN, Status.JUDGED, "no check was enabled"
    return Validity.VALID, Status.JUDGED, None


def _with_ending(facts: RunFacts, validity: str, status: str, reason: str | None) -> tuple[str, str, str | None]:
    """How the run itself ended, put over what its history says: a broken run, or a race that was not reached, is never valid;
    a proof of loss stays one.
    """
    if facts.status not in (Status.HARNESS_ERROR, Status.HANG, Status.INTERRUPTED, Status.NOT_REACHED):
        return validity, status, reason
    if facts.status != Status.INTERRUPTED and validity == Validity.VALID:
        validity = Validity.UNKNOWN
    return validity, facts.status, "; ".join(part for part in (facts.reason, reason) if part) or None


def _summaries(rows: Sequence[Row], totals: Mapping[tuple[str, str], int]) -> Iterator[AnomalySummary]:
    """One per type and severity, violations first, in the order of anomalies.py."""
    for severity in _SEVERITIES:
        for kind in TYPES:
            mine = [row for row in rows if row["type"] == kind.name and row["severity"] == severity]
            if mine:
                yield AnomalySummary(
                    type=kind.name,
                    severity=str(severity),
                    count=totals[kind.name, severity],
                    expected=all(row["expected"] for row in mine),
                    tolerated=all(row["tolerated"] for row in mine),
                    sentence=mine[0]["sentence"],
                    witnesses=mine[:WITNESSES_PER_TYPE],
                )


def _unavailability(evidence: Evidence) -> Iterator[Unavailability]:
    for fault in sorted(evidence.faults, key=lambda row: int(row["fault"])):
        if fault["fault"] in evidence.waits:
            writes, reads = evidence.waits[fault["fault"]]
            yield Unavailability(
                fault=fault["fault"],
                name=fault["name"],
                targets=list(fault["targets"]),
                writes_seconds=writes,
                reads_seconds=reads,
            )
