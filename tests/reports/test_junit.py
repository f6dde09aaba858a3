"""junit.xml: one test case per check, and nothing that could not be judged looks green."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from reports import junit
from reports.verdict import AnomalySummary, CheckResult, Verdict
from tests.reports import synthetic


def suite_of(verdict: Verdict, run: dict[str, object] | None = None) -> ElementTree.Element:
    root = ElementTree.fromstring(junit.render(verdict, run or {}).encode())
    assert root.tag == "testsuites"
    (suite,) = root
    cases = suite.findall("testcase")
    assert all(case.get("name") and case.get("classname") and float(case.get("time", "x")) >= 0 for case in cases)
    assert suite.get("tests") == str(len(cases))
    assert suite.get("failures") == str(len(suite.findall("testcase/failure")))
    assert suite.get("errors") == str(len(suite.findall("testcase/error")))
    return suite


def test_one_case_per_check_and_one_for_the_run(tmp_path: Path) -> None:
    run = synthetic.chaos(tmp_path)
    suite = suite_of(run.verdict, run.run)
    names = [case.get("name") for case in suite.findall("testcase")]
    assert names == ["run reached a verdict", *synthetic.CHECKS]
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")
    assert suite.get("timestamp") == "2026-11-21T10:14:03Z"
    properties = {p.get("name"): p.get("value") for p in suite.findall("properties/property")}
    assert properties["seed"] == "7"
    assert properties["command"] == "krash run examples/chaos.yaml --seed 7"


def test_a_violated_check_fails_with_its_sentences(tmp_path: Path) -> None:
    run = synthetic.unclean(tmp_path)
    suite = suite_of(run.verdict, run.run)
    (failed,) = [case for case in suite.findall("testcase") if case.find("failure") is not None]
    failure = failed.find("failure")
    assert failure is not None
    assert failed.get("name") == "lost-write"
    assert failure.get("message") == "lost-write x 200"
    assert "after all faults had healed" in (failure.text or "")


def test_an_unknown_check_is_an_error_not_a_skip() -> None:
    check = CheckResult(
        name="poll-skip", verdict="unknown", engine="spark-sql", judged=0, seconds=0.1, note="budget ended"
    )
    suite = suite_of(Verdict(run="r", verdict="unknown", status="judged", reason=None, checks=[check]))
    error = suite.find("testcase[@name='poll-skip']/error")
    assert error is not None
    assert error.get("message") == "budget ended"


def test_a_run_without_checks_is_an_error_with_its_reason() -> None:
    suite = suite_of(Verdict(run="r", verdict="unknown", status="no-data", reason="the clients never started"))
    error = suite.find("testcase/error")
    assert error is not None
    assert error.get("message") == "no-data: the clients never started"


def test_hostile_text_stays_text() -> None:
    evil = ']]><script>\x00\x1b\ud83d" & \u202e'
    check = CheckResult(name=evil, verdict="invalid", engine="e", judged=1, seconds=0.1, note=evil)
    anomaly = AnomalySummary(
        type=evil, severity="violation", count=9, expected=False, tolerated=False, sentence=evil, witnesses=[]
    )
    verdict = Verdict(run=evil, verdict="invalid", status="judged", reason=evil, checks=[check], anomalies=[anomaly])
    written = junit.render(verdict, {"seed": evil, "started_at": evil, "command": [evil]})
    assert "<script>" not in written
    suite = suite_of(verdict, {"seed": evil})
    assert suite.findall(".//script") == []
    assert r"\u0000" in (suite.find("testcase/failure").text or "")  # type: ignore[union-attr]


def test_the_same_verdict_gives_the_same_bytes(tmp_path: Path) -> None:
    run = synthetic.unclean(tmp_path)
    assert junit.render(run.verdict, run.run) == junit.render(replace(run.verdict), dict(run.run))
