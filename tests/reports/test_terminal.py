"""The last lines of a run: verdict first, nothing that moves the cursor."""

from __future__ import annotations

from pathlib import Path

from reports.terminal import verdict_lines
from reports.verdict import AnomalySummary, Unavailability, Verdict
from tests.reports import synthetic


def test_the_verdict_comes_first_and_the_way_on_last(tmp_path: Path) -> None:
    run = synthetic.unclean(tmp_path)
    lines = [
        str(line) for line in verdict_lines(run.verdict, report="runs/x/report.html", again="krash run x.yaml --seed 7")
    ]
    assert lines[0] == " INVALID  200 acknowledged records were lost."
    assert "lost-write × 200: w2 process" in lines[1]  # noqa: RUF001
    assert " F2 kill b1: no write succeeded for 2.7 s" in lines[3]
    assert "200 lost" in lines[-3]
    assert lines[-2:] == [" report   runs/x/report.html", " again    krash run x.yaml --seed 7"]


def test_a_valid_run_says_what_that_means(tmp_path: Path) -> None:
    assert (
        str(verdict_lines(synthetic.chaos(tmp_path).verdict)[0]) == " VALID    Nothing was lost; all 9 checks passed."
    )


def test_a_run_that_was_not_judged_says_why() -> None:
    verdict = Verdict(run="r", verdict="unknown", status="hang", reason="b2 did not stop within 30 s")
    lines = [str(line) for line in verdict_lines(verdict)]
    assert lines == [" UNKNOWN  Nothing was judged.", "          hang: b2 did not stop within 30 s"]


def test_no_escape_sequence_reaches_the_terminal() -> None:
    evil = "\x1b[2J\x07\u202e\r\n"
    anomaly = AnomalySummary(
        type=evil, severity="violation", count=1, expected=False, tolerated=False, sentence=evil, witnesses=[]
    )
    verdict = Verdict(
        run="r", verdict="invalid", status="judged", reason=evil, anomalies=[anomaly], unjudged=[evil],
        unavailability=[Unavailability(fault=1, name=evil, targets=[evil], writes_seconds=None, reads_seconds=None)],
    )  # fmt: skip
    for line in verdict_lines(verdict, report=evil, again=evil):
        assert str(line).isprintable()
