"""Logs whose appends tell their offsets, and leader epochs: what is right, and each thing that can be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.checker.models.log import LOG
from harness.history.formats.event import event_of
from harness.history.formats.pairing import pair
from tests.harness.checker.models.judging import judged, ops, types

APPENDED = ("0 invoke append :a", "0 ok append [0 :a]", "0 invoke append :b", "0 ok append [2 :b]")
ELECTED = ("1 invoke elect 3", "1 ok elect 3", '1 invoke write [3 "x"]', '1 ok write [3 "x"]')


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "history.edn"


def judge(file: Path, *lines: str, **request: Any) -> dict[str, Any]:
    return judged(file, ops(*lines), **request)


def test_a_log_with_gaps_partial_reads_and_an_append_of_unknown_outcome_that_was_read(file: Path) -> None:
    answer = judge(
        file,
        *APPENDED,
        "1 invoke append :c",
        "1 info append :c",
        "2 invoke read nil",
        "2 ok read [[2 :b] [3 :c]]",
        "2 invoke tail nil",
        "2 ok tail 4",
    )
    assert (answer["model"], answer["verdict"], answer["engine"]) == ("log", "valid", "slot-sweep")


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (("1 invoke read nil", "1 ok read [[0 :a] [3 :z]]"), ["phantom-value", "lost-write"]),
        (("1 invoke read nil", "1 ok read [[2 :a]]"), ["inconsistent-offset", "duplicate"]),
        (("1 invoke read nil", "1 ok read [[2 :b] [0 :a]]"), ["nonmonotonic-poll"]),
        (("1 invoke read nil", "1 ok read [[0 :a] [0 :a]]"), ["nonmonotonic-poll"]),
        (("1 invoke append :c", "1 fail append :c", "1 invoke read nil", "1 ok read [[5 :c]]"), ["aborted-read"]),
        (("1 invoke append :c", "1 ok append [1 :c]"), ["nonlinearizable-log"]),
        (("1 invoke tail nil", "1 ok tail 2"), ["nonlinearizable-log"]),
    ],
)
def test_what_is_wrong_with_a_log_is_named(file: Path, lines: tuple[str, ...], wanted: list[str]) -> None:
    answer = judge(file, *APPENDED, *lines)
    assert (answer["verdict"], types(answer)) == ("invalid", wanted)
    assert all(anomaly["ops"] for anomaly in answer["anomalies"])


def test_a_value_that_was_tried_again_and_failed_has_been_appended_all_the_same(file: Path) -> None:
    again = ("1 invoke append :a", "1 fail append :a", "2 invoke read nil", "2 ok read [[0 :a]]")
    assert judge(file, *APPENDED, *again)["verdict"] == "valid"


def test_a_read_that_goes_backwards_twice_is_one_anomaly(file: Path) -> None:
    answer = judge(file, *APPENDED, "1 invoke read nil", "1 ok read [[2 :b] [0 :a] [2 :b] [0 :a]]")
    assert [(one["type"], one["count"]) for one in answer["anomalies"]] == [("nonmonotonic-poll", 1)]


def test_a_lost_append_is_one_anomaly_however_many_passed_it(file: Path) -> None:
    reads = [f"{reader} {kind}" for reader in (1, 2) for kind in ("invoke read nil", "ok read [[0 :a] [3 :c]]")]
    answer = judge(file, *APPENDED, "1 invoke append :c", "1 ok append [3 :c]", *reads)
    assert [(one["type"], one["count"]) for one in answer["anomalies"]] == [("lost-write", 1)]


def test_appends_that_are_answered_by_text_are_not_those_of_a_log() -> None:
    event = {"process": 0, "f": "append", "value": "ab"}
    events = [event_of({**event, "type": kind}, index) for index, kind in enumerate(("invoke", "ok"))]
    assert not LOG.fits(pair(events))


def test_a_record_that_was_read_before_its_append_was_invoked(file: Path) -> None:
    answer = judge(file, "1 invoke read nil", "1 ok read [[0 :a]]", *APPENDED)
    assert types(answer) == ["nonlinearizable-log"]


VAGUE = ("1 invoke append :c", "1 info append :c")


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (APPENDED, "offset 1 held a record; 1 offsets up to it are nobody's, and 0 appends"),
        ((*APPENDED, *VAGUE), "0 appends that could be there"),
        ((*VAGUE, *APPENDED), None),
        (
            (*VAGUE, *APPENDED, "2 invoke tail nil", "2 ok tail 4"),
            "offset 3 held a record; 2 offsets up to it are nobody's",
        ),
        ((*VAGUE, *APPENDED, "2 invoke append :d", "2 info append :d", "2 invoke tail nil", "2 ok tail 4"), None),
        ((*VAGUE, *APPENDED, "2 invoke read nil", "2 ok read [[0 :a] [1 :c] [2 :b]]"), None),
        ((*VAGUE, *APPENDED, "2 invoke read nil", "2 ok read [[0 :a] [2 :b]]"), "went from offset 0 to 2"),
        ((*VAGUE, "2 invoke tail nil", "2 ok tail 900000000000"), "offset 1 held a record; 2 offsets"),
        (("1 invoke append :c", "1 ok append [0 :c]", "1 invoke tail nil", "1 ok tail 1"), None),
    ],
)
def test_in_a_log_without_gaps_every_offset_is_somebodys(
    file: Path, lines: tuple[str, ...], wanted: str | None
) -> None:
    answer = judge(file, *lines, model="contiguous-log")
    assert (answer["model"], types(answer)) == ("contiguous-log", ["unexplained-gap"] if wanted else [])
    assert judge(file, *lines, model="log")["verdict"] == "valid", "a log may have gaps unless somebody says otherwise"
    if wanted:
        assert wanted in answer["anomalies"][0]["sentence"]


@pytest.mark.parametrize("offset", ["-1", "2305843009213693952", "9223372036854775808", "1.5", ":x"])
def test_what_is_no_offset_is_a_bad_history(file: Path, offset: str) -> None:
    answer = judge(file, *APPENDED, "1 invoke append :c", f"1 ok append [{offset} :c]", model="log")
    assert (answer["verdict"], types(answer)) == ("unknown", ["bad-history"])
    assert "entry 6" in answer["reason"]


def test_values_that_are_not_unique_are_not_judged(file: Path) -> None:
    answer = judge(file, *APPENDED, "0 invoke append :a", "0 ok append [3 :a]")
    assert answer["verdict"] == "unknown"
    assert "more than once" in answer["reason"]


def test_a_fenced_leader_is_what_should_be(file: Path) -> None:
    answer = judge(
        file,
        *ELECTED,
        "2 invoke elect 4",
        "2 ok elect 4",
        '1 invoke write [3 "y"]',
        '1 fail write [3 "y"]| :error [:fenced 4]',
    )
    assert (answer["model"], answer["verdict"], answer["engine"]) == ("epoch", "valid", "epoch-sweep")


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (("2 invoke elect 3", "2 ok elect 3"), "epoch-violation"),
        (("2 invoke elect 4", "2 ok elect 4", '1 invoke write [3 "y"]', '1 ok write [3 "y"]'), "stale-leader"),
        (("2 invoke elect 2", "2 ok elect 2"), "epoch-violation"),
        (('2 invoke write [9 "y"]', '2 ok write [9 "y"]'), "epoch-violation"),
        (('2 invoke write [3 "y"]', '2 fail write [3 "y"]| :error [:fenced 4]'), "epoch-violation"),
    ],
)
def test_what_is_wrong_with_epochs_is_named(file: Path, lines: tuple[str, ...], kind: str) -> None:
    answer = judge(file, *ELECTED, *lines)
    assert (answer["verdict"], types(answer)) == ("invalid", [kind])


def test_an_election_of_unknown_outcome_that_was_used_took_place(file: Path) -> None:
    lines = ("1 invoke elect 3", "1 info elect 3", '2 invoke write [3 "x"]', '2 ok write [3 "x"]')
    assert judge(file, *lines)["verdict"] == "valid"


def test_leaders_have_names_too(file: Path) -> None:
    lines = ('0 invoke elect [3 "b1"]', '0 ok elect [3 "b1"]', '0 invoke elect [3 "b2"]', '0 ok elect [3 "b2"]')
    answer = judge(file, *lines)
    assert answer["anomalies"][0]["sentence"] == "epoch 3 has two leaders, b1 and b2"


def test_leaders_have_any_number_too(file: Path) -> None:
    leaders = (2**61, -1)
    answer = judge(file, *(f"0 {kind} elect [3 {leader}]" for leader in leaders for kind in ("invoke", "ok")))
    assert answer["anomalies"][0]["sentence"] == f"epoch 3 has two leaders, {leaders[0]} and {leaders[1]}"


def test_two_leaders_are_told_though_an_earlier_epoch_had_one_of_them(file: Path) -> None:
    elected = ("[1 7]", "[2 3]", "[2 7]")
    answer = judge(file, *(f"0 {kind} elect {value}" for value in elected for kind in ("invoke", "ok")))
    assert answer["anomalies"][0]["sentence"] == "epoch 2 has two leaders, 3 and 7"


def test_an_election_that_failed_tells_nothing(file: Path) -> None:
    assert judge(file, *ELECTED, "2 invoke elect 4", "2 fail elect 4| :error [:fenced 5]")["verdict"] == "valid"


@pytest.mark.parametrize("epoch", ["-1", "2305843009213693952", "1.5"])
def test_what_is_no_epoch_is_a_bad_history(file: Path, epoch: str) -> None:
    answer = judge(file, *ELECTED, f"2 invoke elect {epoch}", f"2 ok elect {epoch}")
    assert (answer["verdict"], types(answer)) == ("unknown", ["bad-history"])
