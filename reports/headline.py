"""The verdict in one sentence, and the reason when it is not a plain judgement: the same words on page and terminal."""

from __future__ import annotations

from reports import explain
from reports.verdict import Severity, Status, Validity, Verdict
from reports.wording import plural


def headline(verdict: Verdict) -> str:
    """The verdict in one sentence, for page and terminal."""
    found = [a for a in verdict.anomalies if a.severity == Severity.VIOLATION and not a.tolerated]
    if verdict.verdict == Validity.INVALID and found:
        worst = max(found, key=lambda a: (a.type == "lost-write", a.count))
        others = len(found) - 1
        rest = f", and {plural(others, 'other kind')} of anomaly was found" if others == 1 else ""
        rest = f", and {plural(others, 'other kind')} of anomalies were found" if others > 1 else rest
        return f"{explain.counted(worst.type, worst.count)}{rest}."
    if verdict.verdict == Validity.VALID:
        return _passed(verdict)
    if verdict.verdict == Validity.UNKNOWN and not verdict.checks:
        return "Nothing was judged."
    return explain.VERDICTS[Validity(verdict.verdict)]


def reason(verdict: Verdict) -> str | None:
    """Why the verdict is not a plain judgement; an invalid one is explained by its anomalies."""
    return verdict.reason if verdict.status != Status.JUDGED or verdict.verdict != Validity.INVALID else None


def _passed(verdict: Verdict) -> str:
    tolerated = sum(a.count for a in verdict.anomalies if a.tolerated)
    checks = len(verdict.checks)
    passed = f"all {checks} checks passed" if checks > 1 else f"{plural(checks, 'check')} passed"
    if tolerated:
        return f"{passed}, with {plural(tolerated, 'anomaly', 'anomalies')} that the spec tolerates.".capitalize()
    looked = any(check.name == "lost-write" and check.verdict == Validity.VALID for check in verdict.checks)
    return f"Nothing was lost; {passed}." if looked else f"{passed}.".capitalize()
