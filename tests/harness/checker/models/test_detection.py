"""Which model a history looks like, when nobody names one; and what to say when that cannot be told."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.checker.models.registry import MODELS, NoModel, model_named
from tests.harness.checker.models.judging import judged, ops, types


@pytest.mark.parametrize(
    ("lines", "model"),
    [
        (("0 invoke read nil", "0 ok read nil", "1 invoke write 3"), "register"),
        (("0 invoke write 1", "1 invoke cas [1 2]"), "cas-register"),
        (('0 invoke put "x"| :key 1', "1 invoke get nil| :key 1", '1 ok get "x"| :key 1'), "kv"),
        (('0 invoke append "x"| :key 1', "1 invoke get nil| :key 1", '1 ok get "x"| :key 1'), "kv"),
        (("0 invoke acquire nil", "0 ok acquire nil", "0 invoke release nil"), "mutex"),
        (("0 invoke add 1", "0 ok add 1", "0 invoke read nil", "0 ok read 1"), "counter"),
        (("0 invoke increment nil", "0 ok increment nil"), "counter"),
        (("0 invoke append :a", "0 ok append [0 :a]"), "log"),
        (("0 invoke elect 1", "0 ok elect 1"), "epoch"),
        (("0 invoke txn [[:append 1 2]]", "0 ok txn [[:append 1 2]]"), "list-append"),
        (("0 invoke txn [[:w 1 2] [:r 2 nil]]", "0 ok txn [[:w 1 2] [:r 2 nil]]"), "rw-register"),
        (("0 invoke read [[:r 1 nil] [:r 2 nil]]", "0 ok read [[:r 1 1] [:r 2 nil]]"), "long-fork"),
        (("0 invoke transfer {:from 1, :to 2, :amount 3}", "1 invoke read nil", "1 ok read {1 5, 2 5}"), "bank"),
        (("0 invoke txn [[:append :x 1] [:r :y nil]]", "0 ok txn [[:append :x 1] [:r :y []]]"), "list-append"),
        (("0 invoke txn [[:w :x 1]]", "0 ok txn [[:w :x 1]]", "1 invoke txn [[:r :x nil]]"), "rw-register"),
    ],
)
def test_the_model_is_seen_from_the_ops(tmp_path: Path, lines: tuple[str, ...], model: str) -> None:
    answer = judged(tmp_path / "history", ops(*lines))
    assert (answer["model"], answer["verdict"], answer["error"]) == (model, "valid", None)


def test_independent_keys_are_taken_apart_first(tmp_path: Path) -> None:
    lines = ("0 invoke write [7 1]", "0 ok write [7 1]", "1 invoke read [7 nil]", "1 ok read [7 2]")
    answer = judged(tmp_path / "history", ops(*lines, "2 invoke read [8 nil]", "2 ok read [8 nil]"))
    assert (answer["model"], answer["verdict"]) == ("register", "invalid")
    assert answer["anomalies"][0]["sentence"].startswith("key 7: ")


def test_where_several_models_fit_the_error_names_them(tmp_path: Path) -> None:
    answer = judged(tmp_path / "history", ops("0 invoke add 1", "0 ok add 1", "0 invoke read nil", "0 ok read [1]"))
    assert answer["verdict"] == "error"
    assert answer["error"] == (
        "ops that are add, read may be judged by more than one model, name yours: --model set (every read is what the set "
        "held at one moment (linearizable)); or --model set-full (Jepsen's rule: no element is lost for good, reads may be "
        "stale)"
    )


def test_reads_alone_of_what_holds_many_things_are_no_register(tmp_path: Path) -> None:
    answer = judged(tmp_path / "history", ops("0 invoke read nil", "0 ok read {0 10, 1 10}"))
    assert answer["verdict"] == "error"


def test_what_fits_no_model_is_an_error_that_names_them(tmp_path: Path) -> None:
    answer = judged(tmp_path / "history", ops("0 invoke levitate 3"))
    assert answer["verdict"] == "error"
    assert "levitate" in answer["error"]
    assert "cas-register" in answer["error"]


def test_a_named_model_that_does_not_fit_says_where(tmp_path: Path) -> None:
    answer = judged(tmp_path / "history", ops("0 invoke write 3", "0 ok write 3", "0 invoke drop 3"), model="register")
    assert (answer["verdict"], types(answer)) == ("unknown", ["bad-history"])
    assert "drop at entry 3" in answer["reason"]


def test_names_of_elle_cli_are_known() -> None:
    assert model_named("knossos-cas-register") is model_named("cas-register")
    assert model_named("jepsen-counter") is model_named("counter-bounds")
    with pytest.raises(NoModel, match="quantum"):
        model_named("quantum")


@pytest.mark.parametrize("name", MODELS)
def test_every_model_of_the_table_is_there_under_its_name(name: str) -> None:
    assert model_named(name).name == name
