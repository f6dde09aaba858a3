"""What words of a history mean, where tools differ: initial values, failures, unknown outcomes, budgets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.checker.models import objects
from harness.checker.models.values import shown
from tests.harness.checker.models.judging import judged, ops, types


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "history.edn"


def judge(file: Path, *lines: str, **request: Any) -> dict[str, Any]:
    return judged(file, ops(*lines), **request)


@pytest.mark.parametrize(
    ("found", "initial", "verdict"),
    [
        ("nil", None, "valid"),
        ("0", None, "invalid"),
        ("0", "0", "valid"),
        ("nil", "0", "invalid"),
        ('"a b"', '"a b"', "valid"),
        ("nil", "nil", "valid"),
        ("nil", "null", "valid"),
        (":a", "a", "valid"),
    ],
)
def test_a_register_begins_with_nil_unless_told_otherwise(
    file: Path, found: str, initial: str | None, verdict: str
) -> None:
    answer = judge(file, "0 invoke read nil", f"0 ok read {found}", initial=initial)
    assert answer["verdict"] == verdict


@pytest.mark.parametrize(
    ("model", "lines", "initial", "verdict"),
    [
        ("counter", ("0 invoke read nil", "0 ok read 7"), "7", "valid"),
        ("counter", ("0 invoke read nil", "0 ok read 7"), None, "invalid"),
        ("set", ("0 invoke read nil", "0 ok read [1 2]"), "#{2 1}", "valid"),
        ("queue", ("0 invoke dequeue nil", "0 ok dequeue 4"), "[4 5]", "valid"),
        ("queue", ("0 invoke dequeue nil", "0 ok dequeue 5"), "[4 5]", "invalid"),
        ("queue", ("0 invoke enqueue 4", "0 ok enqueue 4", "0 invoke dequeue nil", "0 ok dequeue 4"), None, "valid"),
        ("kv", ('0 invoke append "b"', '0 ok append "b"', "0 invoke get nil", '0 ok get "ab"'), '"a"', "valid"),
        ("kv", ("0 invoke get nil", '0 ok get ""'), None, "valid"),
        ("kv", ("0 invoke get nil", "0 ok get nil"), None, "valid"),
        ("kv", ("0 invoke get nil", '0 ok get "a"'), None, "invalid"),
        ("kv", ("0 invoke put 1", "0 ok put 1", "0 invoke get nil", "0 ok get 1"), None, "valid"),
        ("counter", ("0 invoke read nil", "0 ok read 7"), ":x", "unknown"),
        ("mutex", ("0 invoke acquire nil", "0 ok acquire nil"), "1", "unknown"),
        ("counter", ("0 invoke read nil", f"0 ok read {2**62 - 1}"), f"{2**62 - 1}", "valid"),
        ("counter", ("0 invoke read nil", "0 ok read nil"), f"{2**62}", "unknown"),
        (
            "counter",
            ("0 invoke increment nil", "0 ok increment nil", "0 invoke read nil", "0 ok read nil"),
            None,
            "valid",
        ),
        ("counter", ("0 invoke fetch-and-increment nil", "0 ok fetch-and-increment nil"), None, "valid"),
        (
            "counter",
            ("0 invoke fetch-and-increment nil", "0 info fetch-and-increment 7", "1 invoke read nil", "1 ok read 1"),
            None,
            "valid",  # nobody knows what an op of unknown outcome returned
        ),
        ("counter", ("0 invoke add nil", "0 ok add nil"), None, "unknown"),
        ("counter", ("0 invoke fetch-and-add nil", "0 ok fetch-and-add 0"), None, "unknown"),
    ],
)
def test_other_objects_begin_empty(
    file: Path, model: str, lines: tuple[str, ...], initial: str | None, verdict: str
) -> None:
    assert judge(file, *lines, model=model, initial=initial)["verdict"] == verdict


WROTE = ("0 invoke write 1", "0 ok write 1")


@pytest.mark.parametrize(
    ("completion", "verdict"),
    [
        ("1 fail cas [1 2]", "invalid"),  # it failed although the value was 1
        ("1 fail cas [1 2]| :error :precondition-failed", "invalid"),
        ("1 fail cas [1 2]| :error :no-leader", "valid"),
        ("1 fail cas :timed-out", "valid"),
        ("1 fail cas [1 2]| :witness 3", "invalid"),
        ("1 info cas [1 2]", "valid"),
    ],
)
def test_a_failed_compare_and_set_says_that_the_value_was_another_one_unless_it_failed_for_another_reason(
    file: Path, completion: str, verdict: str
) -> None:
    answer = judge(file, *WROTE, "1 invoke cas [1 2]", completion, model="cas-register")
    assert answer["verdict"] == verdict


@pytest.mark.parametrize(("error", "verdict"), [("", "valid"), ("| :error :no-leader", "invalid")])
def test_where_writes_fail_without_a_reason_too_a_failed_compare_and_set_tells_nothing(
    file: Path, error: str, verdict: str
) -> None:
    """As in Knossos' mongodb-v0-ack-rollback-6.edn."""
    lines = (*WROTE, "2 invoke write 7", f"2 fail write 7{error}", "1 invoke cas [1 2]", "1 fail cas [1 2]")
    assert judge(file, *lines)["verdict"] == verdict


def test_a_failed_compare_and_set_that_says_what_it_found_is_a_read(file: Path) -> None:
    lines = (*WROTE, "1 invoke cas [5 2]", "1 fail cas [5 2]| :witness 1")
    assert judge(file, *lines)["engine"] == "zones"
    assert judge(file, *lines)["verdict"] == "valid"


@pytest.mark.parametrize("outcome", ["fail", "info"])
def test_what_failed_did_not_happen_and_what_is_unknown_may_have(file: Path, outcome: str) -> None:
    answer = judge(file, *WROTE, "1 invoke write 2", f"1 {outcome} write 2", "2 invoke read nil", "2 ok read 2")
    assert answer["verdict"] == ("invalid" if outcome == "fail" else "valid")


def test_numbers_are_equal_as_numbers_and_truth_is_none(file: Path) -> None:
    assert judge(file, *WROTE, "1 invoke read nil", "1 ok read 1.0")["verdict"] == "valid"
    assert judge(file, *WROTE, "1 invoke read nil", "1 ok read true")["verdict"] == "invalid"


def test_values_may_be_anything(file: Path) -> None:
    lines = ("0 invoke write {:a [1 #{2}]}", "0 ok write {:a [1 #{2}]}", "1 invoke read nil", "1 ok read {:a [1 #{2}]}")
    assert judge(file, *lines)["verdict"] == "valid"


def test_an_element_twice_in_a_set_is_an_anomaly_of_its_own(file: Path) -> None:
    answer = judge(file, "0 invoke add 1", "0 ok add 1", "1 invoke read nil", "1 ok read [1 1]", model="set")
    assert (answer["verdict"], types(answer)) == ("invalid", ["duplicate-elements"])
    assert answer["anomalies"][0]["sentence"] == "read 2 found 1 2 times"


def test_the_sentence_names_ops_as_the_history_numbers_them(file: Path) -> None:
    lines = ("0 invoke write 1| :index 10", "0 ok write 1| :index 11", "1 invoke read nil| :index 12")
    answer = judge(file, *lines, "1 ok read 9| :index 13")
    (anomaly,) = answer["anomalies"]
    assert anomaly["sentence"] == "operation 12 read a value that nobody wrote"
    assert anomaly["ops"] == ["12: process 1 read -> ok 9, entry 3 (index 12) to entry 4 (index 13)"]


def test_a_search_tells_the_last_states_in_the_historys_own_values(file: Path) -> None:
    lines = ("0 invoke write :a", "0 ok write :a", "0 invoke write :a", "0 ok write :a")
    answer = judge(file, *lines, "1 invoke read nil", "1 ok read :a", "1 invoke read nil", "1 ok read :b")
    assert answer["engine"] == "frontier"
    assert answer["anomalies"][0]["sentence"].endswith("; just before, the state can only have been a")


def test_out_of_budget_is_unknown_with_what_was_spent(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_STEPS", 3)
    lines = [f"{number} invoke write {number % 2}" for number in range(6)]
    lines += [f"{number} ok write {number % 2}" for number in range(6)]
    answer = judge(file, *lines, "9 invoke read nil", "9 ok read 5", "9 invoke read nil", "9 ok read 5")
    assert (answer["verdict"], answer["anomalies"]) == ("unknown", [])
    assert "steps" in answer["reason"]
    assert "zones needs" in answer["reason"]


def test_amounts_that_could_overflow_in_their_sum_are_refused(file: Path) -> None:
    adds = [f"{process} {kind} add {2**61}" for process in (0, 1) for kind in ("invoke", "ok")]
    assert judge(file, *adds[:2], "2 invoke read nil", f"2 ok read {2**61}", model="counter")["verdict"] == "valid"
    answer = judge(file, *adds, model="counter")
    assert (answer["verdict"], types(answer)) == ("unknown", ["bad-history"])
    assert "2^62" in answer["reason"]


def test_the_engine_that_is_named_is_the_one_that_found_it(file: Path) -> None:
    lawful = ("0 invoke write [1 5]", "0 ok write [1 5]")
    twice = ("0 invoke write [2 7]", "0 ok write [2 7]") * 2
    wrong = ("1 invoke read [2 nil]", "1 ok read [2 7]", "1 invoke read [2 nil]", "1 ok read [2 8]")
    assert judge(file, *lawful, *twice, *wrong[:2], model="register")["engine"] == "frontier+zones"
    assert judge(file, *lawful, *twice, *wrong, model="register")["engine"] == "frontier"


def test_an_illegal_key_is_found_behind_legal_ones_that_another_engine_decides(file: Path) -> None:
    lawful = ("0 invoke put 5| :key 1", "0 ok put 5| :key 1")
    append = ('0 invoke append "b"| :key 2', '0 ok append "b"| :key 2')
    answer = judge(file, *lawful, *append, "0 invoke get nil| :key 2", '0 ok get "a"| :key 2', model="kv")
    assert (answer["verdict"], answer["engine"]) == ("invalid", "frontier")


def test_of_keys_out_of_budget_the_costliest_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_STEPS", 3)
    lines = []
    for key, count in ((1, 6), (2, 60), (3, 6)):
        for kind in ("invoke", "ok"):
            lines += [f"{100 * key + n} {kind} write {n % 2}| :key {key}" for n in range(count)]
        lines += [f"9 {kind} read 5| :key {key}" for _ in range(2) for kind in ("invoke", "ok")]
    answer = judge(file, *lines, model="register")
    assert answer["verdict"] == "unknown"
    assert "62 ops of key 2" in answer["reason"]
    assert answer["reason"].endswith("; 2 more such keys")


def test_a_compare_and_set_needs_two_values(file: Path) -> None:
    answer = judge(file, "0 invoke cas 5", "0 ok cas 5", model="cas-register")
    assert (answer["verdict"], types(answer)) == ("unknown", ["bad-history"])


def test_nil_is_an_element_as_any_other(file: Path) -> None:
    lines = [f"0 {kind} {what}" for what in ("add 5", "add nil", "remove 7") for kind in ("invoke", "ok")]
    answer = judge(file, *lines, "0 invoke read nil", "0 ok read #{5 nil}", model="set")
    assert (answer["verdict"], answer["engine"]) == ("valid", "frontier")


def test_values_are_shown_up_to_a_length() -> None:
    assert shown("x" * 60) == "x" * 60
    assert shown("x" * 61) == "x" * 57 + "..."
