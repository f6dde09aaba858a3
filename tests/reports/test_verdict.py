"""verdict.json is a public format: what we write we read back, and what is wrong in it is named with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reports.verdict import Verdict, VerdictError
from tests.reports import synthetic


def document(tmp_path: Path) -> Any:
    return json.loads(json.dumps(synthetic.unclean(tmp_path).verdict.as_json()))


def test_a_verdict_survives_json(tmp_path: Path) -> None:
    verdict = synthetic.unclean(tmp_path).verdict
    assert Verdict.from_json(json.loads(json.dumps(verdict.as_json()))) == verdict


def test_the_smallest_verdict_is_read() -> None:
    smallest = {"format": 1, "run": "r", "verdict": "unknown", "status": "no-data", "reason": None}
    assert Verdict.from_json(smallest) == Verdict(run="r", verdict="unknown", status="no-data", reason=None)


def without(name: str) -> Any:
    return lambda d: d.pop(name)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda d: d.update(format=2), "format 2; this krash reads format 1"),
        (without("format"), "no format number"),
        (without("status"), "field 'status' is missing"),
        (lambda d: d.update(mood="fine"), "unknown field 'mood'"),
        (lambda d: d.update(verdict="passed"), r"\.verdict: expected one of valid, .*, found 'passed'"),
        (lambda d: d.update(status=None), r"\.status: expected a text, found None"),
        (lambda d: d["checks"][2].update(judged="many"), r"\.checks\[2\]\.judged: expected an integer, found 'many'"),
        (lambda d: d["checks"][2].update(judged=True), r"\.checks\[2\]\.judged: expected an integer, found True"),
        (lambda d: d["checks"][0].update(seconds=float("nan")), r"\.checks\[0\]\.seconds: expected a finite number"),
        (lambda d: d["checks"][0].update(verdict="maybe"), r"\.checks\[0\]\.verdict: expected one of"),
        (lambda d: d["anomalies"][0].pop("count"), r"\.anomalies\[0\]: field 'count' is missing"),
        (lambda d: d["anomalies"][0].update(severity="bad"), r"\.anomalies\[0\]\.severity: expected one of"),
        (lambda d: d["anomalies"][0].update(witnesses={}), r"\.witnesses: expected a list"),
        (lambda d: d["counts"]["ops"].update(ok=1.5), r"\.counts\.ops\.ok: expected an integer, found 1.5"),
        (lambda d: d.update(unjudged=["x", 3]), r"\.unjudged\[1\]: expected a text, found 3"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(change: Any, complaint: str, tmp_path: Path) -> None:
    changed = document(tmp_path)
    change(changed)
    with pytest.raises(VerdictError, match=complaint):
        Verdict.from_json(changed)


@pytest.mark.parametrize("not_an_object", [None, [], "valid", 1])
def test_only_an_object_is_a_verdict(not_an_object: Any) -> None:
    with pytest.raises(VerdictError, match="expected an object"):
        Verdict.from_json(not_an_object)
