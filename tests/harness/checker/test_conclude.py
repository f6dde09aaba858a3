"""The lattice, without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checker.anomalies import DUPLICATE, LOST_WRITE, POLL_SKIP, UNAVAILABLE, AnomalyType
from harness.checker.check import Check, Need
from harness.checker.conclude import Evidence, Found, conclude
from harness.checker.facts import Ending, RunFacts, Tally
from harness.checker.settings import Settings
from harness.checker.witnesses import AFTERMATH_NS, Windows
from reports.verdict import ANOMALIES, Verdict

LOG = {
    "log": 1,
    "run": "r",
    "topic": "log",
    "partition": 0,
    "ending": Ending.READ,
    "log_start": 0,
    "log_end": 10,
    "complete_to": 10,
    "blocked": False,
    "unread_because": None,
}
FULL = Tally(sends=10, acknowledged=10, reads=20)


def search(kind: AnomalyType, *rows: dict[str, Any], needs: Need = Need.ACKNOWLEDGED) -> Found:
    check = Check(kind=kind, engine="spark-sql", needs=needs, searches=())
    return Found(check=check, seconds=0.5, rows={"r": [row | {"total": len(rows)} for row in rows]})


def row(kind: AnomalyType, severity: str = "violation", **more: Any) -> dict[str, Any]:
    return {
        "run": "r", "type": kind.name, "severity": severity, "sentence": "It is so.",
        "topic": "log", "partition": 0, "offset": 3, "value": "v",
        "ops": [1, 2], "from_ns": 10, "to_ns": 20, "expected": False, "detail": None, **more,
    }  # fmt: skip


def judged(
    *found: Found,
    log: dict[str, Any] | None = None,
    tally: Tally = FULL,
    acks: str | None = None,
    faults: tuple[dict[str, Any], ...] = (),
    **settings: Any,
) -> Verdict:
    facts = RunFacts(run="r", settings=Settings(**settings), acks=acks)
    one = conclude(
        Evidence(facts=facts, logs=[({**LOG, **(log or {})}, tally)], faults=faults, read=tally.reads), found
    )
    assert one.anomalies.schema == ANOMALIES
    return one.verdict


def test_nothing_found_is_valid() -> None:
    verdict = judged(search(LOST_WRITE), search(DUPLICATE, needs=Need.READ))
    assert (verdict.verdict, verdict.status, verdict.reason) == ("valid", "judged", None)
    assert [(check.name, check.judged, check.seconds) for check in verdict.checks] == [
        ("lost-write", 10, 0.5),
        ("duplicate", 20, 0.5),
    ]


def test_an_empty_history_is_never_valid() -> None:
    verdict = judged(search(LOST_WRITE), tally=Tally(sends=10))
    assert (verdict.verdict, verdict.status) == ("unknown", "no-data")
    assert verdict.reason == "nothing was acknowledged and nothing was read"


@pytest.mark.parametrize(
    ("ending", "found", "verdict", "status", "reason"),
    [
        ("completed", (), "valid", "judged", None),
        ("interrupted", (), "valid", "interrupted", "why"),
        ("harness-error", (), "unknown", "harness-error", "why"),
        ("hang", (), "unknown", "hang", "why"),
        ("not-reached", (), "unknown", "not-reached", "why"),
        ("not-reached", (row(LOST_WRITE),), "invalid", "not-reached", "why; lost-write"),
        ("harness-error", (row(LOST_WRITE),), "invalid", "harness-error", "why; lost-write"),
    ],
)
def test_a_broken_run_is_never_valid_and_a_proof_of_loss_stays_one(
    ending: str, found: tuple[dict[str, Any], ...], verdict: str, status: str, reason: str | None
) -> None:
    facts = RunFacts(run="r", status=ending, reason=None if ending == "completed" else "why")
    evidence = Evidence(facts=facts, logs=[(LOG, FULL)], read=FULL.reads)
    concluded = conclude(evidence, [search(LOST_WRITE, *found)]).verdict
    assert (concluded.verdict, concluded.status, concluded.reason) == (verdict, status, reason)


@pytest.mark.parametrize(
    ("severity", "tolerate", "verdict"),
    [
        ("violation", [], "invalid"),
        ("violation", ["lost-write"], "valid"),
        ("violation", ["duplicate"], "invalid"),
        ("information", [], "valid"),
    ],
)
def test_a_violation_is_invalid_unless_tolerated(severity: str, tolerate: list[str], verdict: str) -> None:
    found = judged(search(LOST_WRITE, row(LOST_WRITE, severity)), tolerate=tolerate)
    assert (found.verdict, found.checks[0].verdict) == (verdict, verdict)
    assert found.anomalies[0].tolerated == ("lost-write" in tolerate)


def test_an_expected_violation_is_invalid_all_the_same() -> None:
    found = judged(search(LOST_WRITE, row(LOST_WRITE, expected=True)))
    assert (found.verdict, found.anomalies[0].expected, found.counts and found.counts.lost) == ("invalid", True, 1)


@pytest.mark.parametrize(
    ("log", "tally", "acks", "sentence"),
    [
        (
            {"complete_to": 4},
            FULL,
            None,
            "log-0 was read to offset 4 of 10 only: what was acknowledged above could not be judged.",
        ),
        (
            {"ending": Ending.UNREAD},
            FULL,
            None,
            "log-0 was not read after the faults: 10 acknowledged records could not be judged.",
        ),
        (
            {},
            Tally(sends=3, acknowledged=2, unplaced=1, reads=2),
            None,
            "1 records were acknowledged without an offset and the final read does not contain them: "
            "nobody can say whether they were lost.",
        ),
        (
            {},
            Tally(sends=3, reads=2),
            "0",
            "With acks=0 nothing is ever acknowledged: nothing can be said about lost writes.",
        ),
    ],
)
def test_what_could_not_be_judged_is_unknown_and_said(
    log: dict[str, Any], tally: Tally, acks: str | None, sentence: str
) -> None:
    found = judged(search(LOST_WRITE), log=log, tally=tally, acks=acks)
    assert (found.verdict, found.unjudged) == ("unknown", [sentence])
    assert [(one.type, one.severity, one.sentence) for one in found.anomalies] == [("lost-write", "unjudged", sentence)]


def test_invalid_beats_unknown() -> None:
    assert judged(search(LOST_WRITE, row(LOST_WRITE)), log={"complete_to": 4}).verdict == "invalid"
    assert judged(search(LOST_WRITE), search(DUPLICATE, row(DUPLICATE)), log={"complete_to": 4}).verdict == "invalid"


def test_a_check_with_nothing_to_look_at_is_unknown() -> None:
    found = judged(search(LOST_WRITE), search(POLL_SKIP, needs=Need.READ), tally=Tally(sends=10, acknowledged=10))
    assert found.verdict == "unknown"
    assert found.reason == "poll-skip: nothing to judge: there are no records that were read"


def test_a_check_that_is_not_enabled_says_nothing() -> None:
    found = judged(search(LOST_WRITE, row(LOST_WRITE)), search(DUPLICATE), enabled=["duplicate"])
    assert ([check.name for check in found.checks], found.verdict) == (["duplicate"], "valid")
    assert judged(enabled=[]).verdict == "unknown"


def test_availability_is_information_without_a_bound() -> None:
    found = judged(search(LOST_WRITE), search(UNAVAILABLE, needs=Need.FAULTS))
    assert (found.verdict, found.checks[1].note) == ("valid", "information only: the spec sets no bound")


def test_faults_at_work_are_named_the_first_in_the_interval_first() -> None:
    second = 10**9
    faults = tuple(
        {
            "fault": number,
            "name": name,
            "injecting_ns": since,
            "healed_ns": until,
            "proved_ns": since,
            "targets": ["b1"],
        }
        for number, (name, since, until) in enumerate(
            [
                ("long-ago", 0, second),
                ("pause", 100 * second, 130 * second),
                ("wipe", 145 * second, None),
                ("kill", 141 * second, 142 * second),
                ("planned", None, None),
            ],
            start=1,
        )
    )
    windows = Windows(faults)
    assert windows.around(140 * second, None) == [4, 3, 2]
    assert windows.around(second + AFTERMATH_NS + 1, second + AFTERMATH_NS + 1) == []
    assert windows.around(None, second // 2) == [1]
    verdict = judged(search(LOST_WRITE, row(LOST_WRITE, from_ns=140 * second, to_ns=None)), faults=faults)
    assert (
        verdict.anomalies[0].sentence
        == "It is so. Faults at work: kill of b1 (fault 4); wipe of b1 (fault 3); pause of b1 (fault 2)."
    )
    assert verdict.anomalies[0].witnesses[0]["faults"] == [4, 3, 2]
