"""A verdict as JUnit XML, for CI systems: one test case per check, and one for the run itself.

Unknown is an error, not a skip: most CI systems show skipped tests as green, and what could not be judged must never
look fine. `render` is pure; text from the history is made visible first, since XML has no way at all to write a NUL.
"""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from reports.verdict import AnomalySummary, CheckResult, Severity, Status, Validity, Verdict
from reports.wording import clip, number, one_line, visible

_SENTENCES = 5


def render(verdict: Verdict, run: dict[str, Any]) -> str:
    """The document. `run`: the object of run.json, or {} when there is none."""
    cases = [_run_case(verdict), *(_check_case(check, verdict) for check in verdict.checks)]
    suite = Element("testsuite")
    suite.set("name", one_line(f"krash {verdict.run}"))
    suite.set("tests", str(len(cases)))
    suite.set("failures", str(sum(case.find("failure") is not None for case in cases)))
    suite.set("errors", str(sum(case.find("error") is not None for case in cases)))
    suite.set("skipped", "0")
    suite.set("time", f"{sum(check.seconds for check in verdict.checks):.3f}")
    if isinstance(run.get("started_at"), str):
        suite.set("timestamp", one_line(run["started_at"], 40))
    properties = SubElement(suite, "properties")
    for name in ("run", "system", "seed", "command"):
        if run.get(name) is not None:
            SubElement(properties, "property", name=name, value=_property(run[name]))
    suite.extend(cases)
    suites = Element(
        "testsuites", {name: suite.get(name, "") for name in ("name", "tests", "failures", "errors", "time")}
    )
    suites.append(suite)
    indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(suites, encoding="unicode") + "\n"


def _property(value: Any) -> str:
    return one_line(" ".join(str(part) for part in value) if isinstance(value, list) else str(value))


def _run_case(verdict: Verdict) -> Element:
    """Did the run come to a judgement at all?"""
    case = Element("testcase", classname="krash.run", name="run reached a verdict", time="0")
    if verdict.status != Status.JUDGED or not verdict.checks:
        reason = verdict.reason or ("no check was made" if not verdict.checks else "no reason was given")
        SubElement(case, "error", type=visible(verdict.status), message=one_line(f"{verdict.status}: {reason}"))
    if verdict.counts is not None:
        counts = verdict.counts
        SubElement(
            case, "system-out"
        ).text = f"{number(counts.acknowledged)} acknowledged, {number(counts.read)} read, {number(counts.lost)} lost"
    return case


def _check_case(check: CheckResult, verdict: Verdict) -> Element:
    case = Element("testcase", classname="krash.check", name=one_line(check.name), time=f"{check.seconds:.3f}")
    mine = [anomaly for anomaly in verdict.anomalies if _check_of(anomaly) == check.name]
    if check.verdict == Validity.INVALID:
        found = [a for a in mine if a.severity == Severity.VIOLATION]
        summary = ", ".join(f"{a.type} x {a.count}" for a in found) or check.note or "violated"
        SubElement(case, "failure", type="invalid", message=one_line(summary)).text = _sentences(found)
    elif check.verdict == Validity.UNKNOWN:
        SubElement(
            case, "error", type="unknown", message=one_line(check.note or "could not be judged")
        ).text = _sentences(mine)
    elif mine:
        SubElement(case, "system-out").text = _sentences(mine)
    return case


def _check_of(anomaly: AnomalySummary) -> str:
    checks = [witness["check"] for witness in anomaly.witnesses if isinstance(witness.get("check"), str)]
    return checks[0] if checks else anomaly.type


def _sentences(anomalies: list[AnomalySummary]) -> str:
    lines = []
    for anomaly in anomalies:
        told = [w["sentence"] for w in anomaly.witnesses if isinstance(w.get("sentence"), str)] or [anomaly.sentence]
        lines += [one_line(f"{anomaly.type}: {sentence}") for sentence in told[:_SENTENCES]]
        if anomaly.count > _SENTENCES:
            lines.append(f"... {number(anomaly.count)} of {clip(anomaly.type, 60)} in all")
    return "\n".join(lines)
