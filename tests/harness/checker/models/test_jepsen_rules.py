"""Jepsen's rules: one defect each, its lawful neighbour, and the definitions again, event by event, on random histories."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from harness.checker.models.jepsen_rules import MODELS
from harness.checker.models.model import Judgement, Question
from harness.checker.models.registry import model_for, model_named
from harness.history.formats.event import Event, event_of
from harness.history.formats.pairing import pair
from reports.verdict import Validity
from tests.harness.checker.models.judging import judged, ops, types

Entry = tuple[int, str, str, Any]  # process, type, f, value


def events(history: list[Entry]) -> list[Event]:
    return [
        event_of({"process": process, "type": kind, "f": f, "value": value, "index": number}, number)
        for number, (process, kind, f, value) in enumerate(history)
    ]


def judge(model: str, history: list[Entry], **question: Any) -> Judgement:
    return model_named(model).judge(pair(events(history), independent=False), Question(**question))


def violations(judgement: Judgement) -> dict[str, int]:
    return {found.type: found.count for found in judgement.found if found.violation}


SET = ["0 invoke add 1", "0 ok add 1", "0 invoke read nil", "0 ok read #{1}"]
QUEUE = ["0 invoke enqueue 1", "0 ok enqueue 1", "0 invoke drain nil", "0 ok drain [1]"]
BANK = ["0 invoke read nil", "0 ok read {0 6, 1 4}", "0 invoke transfer {:from 0, :to 1, :amount 2}",
        "0 ok transfer {:from 0, :to 1, :amount 2}", "1 invoke read nil", "1 ok read {0 4, 1 6}"]  # fmt: skip
FORK = ["0 invoke read [[:r 0 nil] [:r 1 nil]]", "0 ok read [[:r 0 1] [:r 1 nil]]",
        "0 invoke read [[:r 1 nil] [:r 0 nil]]"]  # fmt: skip

CASES = [
    ("set-full", SET, "valid", []),
    ("set-full", [*SET[:3], "0 ok read #{}"], "invalid", ["lost"]),
    ("set-full", [*SET[:3], "0 ok read #{1 2}"], "invalid", ["unexpected"]),
    ("set-full", ["0 invoke read nil", "0 ok read #{1}", *SET], "invalid", ["unexpected"]),
    ("set-full", [*SET[:3], "0 ok read [1 1]"], "invalid", ["duplicate-elements"]),
    ("set-full", [*SET[:3], "0 ok read #{}", *SET[2:]], "valid", ["stale"]),
    ("set-full", [SET[0], "1 invoke read nil", SET[1], "1 ok read #{}"], "unknown", []),
    ("set-full", [*SET[:2]], "unknown", []),
    ("set-full", [SET[0], "0 info add 1", "1 invoke read nil", "1 ok read []"], "unknown", []),
    ("set-full", [SET[0], "0 info add 1", "1 invoke read nil", "1 ok read [1]", "1 invoke read nil", "1 ok read []"],
     "invalid", ["lost"]),
    ("final-set", SET, "valid", []),
    ("final-set", [*SET[:3], "0 ok read []"], "invalid", ["lost"]),
    ("final-set", [*SET[:3], "0 ok read []", *SET[2:]], "valid", []),
    ("final-set", [*SET[:3], "0 ok read [1 3]"], "invalid", ["unexpected"]),
    ("final-set", [SET[0], "0 info add 1", "1 invoke read nil", "1 ok read [1]"], "valid", ["recovered"]),
    ("final-set", SET[:2], "unknown", []),
    ("total-queue", QUEUE, "valid", []),
    ("total-queue", [*QUEUE[:3], "0 ok drain []"], "invalid", ["lost"]),
    ("total-queue", [*QUEUE[:3], "0 ok drain [1 2]"], "invalid", ["unexpected"]),
    ("total-queue", [*QUEUE[:3], "0 ok drain [1 1]"], "valid", ["duplicated"]),
    ("total-queue", [*QUEUE[:3], "0 info drain nil"], "unknown", []),
    ("total-queue", [QUEUE[0], "0 fail enqueue 1", *QUEUE[2:3], "0 ok drain []"], "valid", []),
    ("total-queue", [*QUEUE[:2], "0 invoke dequeue nil", "0 ok dequeue 1"], "valid", []),
    ("total-queue", [*QUEUE, "1 invoke dequeue nil", "1 info dequeue nil"], "valid", []),
    ("unique-ids", ["0 invoke generate nil", "0 ok generate 7", "1 invoke generate nil", "1 ok generate 8"], "valid", []),
    ("unique-ids", ["0 invoke generate nil", "0 ok generate 7", "1 invoke generate nil", "1 ok generate 7"],
     "invalid", ["duplicate"]),
    ("unique-ids", ["0 invoke generate nil", "0 ok generate 7", "1 invoke generate nil", "1 info generate 7"],
     "valid", []),
    ("counter-bounds", ["0 invoke add 5", "1 invoke read nil", "1 ok read 5", "0 ok add 5"], "valid", []),
    ("counter-bounds", ["0 invoke add 5", "0 ok add 5", "1 invoke read nil", "1 ok read 4"], "invalid", ["out-of-bounds"]),
    ("counter-bounds", ["0 invoke add 5", "0 fail add 5", "1 invoke read nil", "1 ok read 5"],
     "invalid", ["out-of-bounds"]),
    ("counter-bounds", ["0 invoke add -5", "0 info add -5", "1 invoke read nil", "1 ok read -5"], "valid", []),
    ("bank", BANK, "valid", []),
    ("bank", [*BANK[:5], "1 ok read {0 4, 1 5}"], "invalid", ["wrong-total"]),
    ("bank", [*BANK[:5], "1 ok read {0 11, 1 -1}"], "invalid", ["negative-value"]),
    ("bank", [*BANK[:5], "1 ok read {0 4, 1 nil}"], "invalid", ["nil-balance"]),
    ("bank", [*BANK[:5], "1 ok read {0 4, 2 6}"], "invalid", ["unexpected-key"]),
    ("bank", [*BANK[:5], "1 ok read [[:r 0 4] [:r 1 6]]"], "valid", []),
    ("bank", [*BANK[:5], '1 ok read {0 4, 1 "6"}'], "unknown", ["bad-history"]),
    ("bank", ["0 invoke read nil", "0 ok read {0 10, 1 nil}", *BANK], "invalid", ["nil-balance"]),
    ("bank", BANK[2:4], "unknown", []),
    ("long-fork", [*FORK, "0 ok read [[:r 1 1] [:r 0 1]]"], "valid", []),
    ("long-fork", [*FORK, "0 ok read [[:r 1 1] [:r 0 nil]]"], "invalid", ["long-fork"]),
    ("long-fork", [*FORK, "0 info read [[:r 1 1] [:r 0 nil]]"], "valid", []),
    ("long-fork", [*FORK, "0 ok read [[:r 1 nil] [:r 0 2]]"], "unknown", ["bad-history"]),
    ("long-fork", [*("0 invoke write [[:w 0 1]]", "0 ok write [[:w 0 1]]") * 2, *FORK, "0 ok read [[:r 1 1] [:r 0 1]]"],
     "unknown", []),
]  # fmt: skip


@pytest.mark.parametrize(("model", "lines", "verdict", "told"), CASES)
def test_a_defect_is_named_and_its_neighbours_are_not(
    tmp_path: Path, model: str, lines: list[str], verdict: str, told: list[str]
) -> None:
    answer = judged(tmp_path / "history.edn", ops(*lines), model=model)
    assert (answer["verdict"], types(answer)) == (verdict, told), answer


def test_every_rule_has_a_defect_and_can_be_named() -> None:
    named = {model.name for model in MODELS}
    assert {model for model, _, verdict, _ in CASES if verdict == "invalid"} == named
    assert all(model_named(name).name == name for name in named)


@pytest.mark.parametrize(
    ("model", "history"),
    [
        ("bank", [(0, "invoke", "transfer", {}), (0, "invoke", "read", None)]),
        ("total-queue", [(0, "invoke", "enqueue", 1), (1, "invoke", "drain", None)]),
        ("unique-ids", [(0, "invoke", "generate", None)]),
    ],
)
def test_ops_that_no_other_model_has_need_no_name(model: str, history: list[Entry]) -> None:
    assert model_for(pair(events(history))).name == model


def test_stale_elements_are_a_violation_when_linearizable_is_asked_for() -> None:
    history: list[Entry] = [(0, "invoke", "add", 1), (0, "ok", "add", 1)]
    for found in ((), (1,)):
        history += [(0, "invoke", "read", None), (0, "ok", "read", found)]
    assert judge("set-full", history).verdict is Validity.VALID
    strict = judge("set-full", history, consistency=("linearizable",))
    assert (strict.verdict, violations(strict), strict.found[0].ops) == (Validity.INVALID, {"stale": 1}, (0, 2))


@pytest.mark.parametrize(("initial", "verdict"), [(10, "valid"), (11, "invalid"), ({0: 5, 1: 5}, "valid"), (
    {0: 10}, "invalid")])  # fmt: skip
def test_what_a_bank_began_with_may_be_said(initial: Any, verdict: str) -> None:
    history = [(0, "invoke", "read", None), (0, "ok", "read", {0: 6, 1: 4})]
    assert judge("bank", history, initial=initial).verdict.value == verdict


def test_keys_are_judged_one_by_one_and_counted_together(tmp_path: Path) -> None:
    lines = ["0 invoke add [8 1]", "0 ok add [8 1]", "0 invoke read [8 nil]", "0 ok read [8 #{}]"]
    lines += [line.replace("[8 ", "[9 ") for line in lines]
    answer = judged(tmp_path / "history.edn", ops(*lines), model="set-full")
    assert [(one["type"], one["count"]) for one in answer["anomalies"]] == [("lost", 2)]


def test_of_reads_that_are_as_wrong_as_each_other_the_first_is_told() -> None:
    history: list[Entry] = [(0, "invoke", "add", 1), (0, "ok", "add", 1)]
    for found in (2, 4, -2):
        history += [(0, "invoke", "read", None), (0, "ok", "read", found)]
    assert [one.ops for one in judge("counter-bounds", history).found] == [(4,)]


def test_of_wrong_totals_the_worst_is_told() -> None:
    history: list[Entry] = []
    for found in (10, 9, 3):
        history += [(0, "invoke", "read", None), (0, "ok", "read", {0: found})]
    (told,) = judge("bank", history).found
    assert (told.count, told.sentence) == (2, "read 4 adds up to 3 instead of 10")


def test_of_an_element_that_is_there_twice_others_are_not_accused(tmp_path: Path) -> None:
    lines = [f"0 {kind} add {element}" for element in (1, 2) for kind in ("invoke", "ok")]
    answer = judged(tmp_path / "history", ops(*lines, "0 invoke read nil", "0 ok read [1 2 2]"), model="set-full")
    assert [(one["count"], one["sentence"]) for one in answer["anomalies"]] == [(1, "read 4 has 2 2 times")]


def test_a_fork_names_what_each_saw(tmp_path: Path) -> None:
    answer = judged(tmp_path / "history", ops(*FORK, "0 ok read [[:r 1 1] [:r 0 nil]]"), model="long-fork")
    assert (
        "read 0 saw the write of key 0 but not of 1, read 2 the other way round" in answer["anomalies"][0]["sentence"]
    )


def _random_set(rng: random.Random) -> list[Entry]:
    """Adds and reads by three processes; reads see each element that may be there by chance."""
    running: dict[int, tuple[str, Any]] = {}
    history: list[Entry] = []
    tried: list[int] = []
    for number in range(rng.randint(2, 14)):
        process = rng.randrange(3)
        if process in running:
            f, value = running.pop(process)
            kind = rng.choice(["ok", "ok", "ok", "info" if f == "add" else "ok"])
            likely = rng.choice([0.5, 0.9])
            found = tuple(one for one in tried if rng.random() < likely) if f == "read" else value
            history.append((process, kind, f, found))
        else:
            f = rng.choice(["add", "read"])
            running[process] = f, number if f == "add" else None
            tried += [number] if f == "add" else []
            history.append((process, "invoke", *running[process]))
    return history


def _as_jepsen_defines_it(history: list[Entry]) -> dict[str, set[int]]:
    """Element states, event by event."""
    known: dict[int, int] = {}
    present: dict[int, int] = {}
    absent: dict[int, int] = {}
    tried: list[int] = []
    began: dict[int, int] = {}
    for index, (process, kind, f, value) in enumerate(history):
        if kind == "invoke":
            began[process] = index
            tried += [value] if f == "add" else []
        elif f == "add" and kind == "ok":
            known.setdefault(value, index)
        elif f == "read" and kind == "ok":
            for element in tried:
                if element in value:
                    known.setdefault(element, index)
                    present[element] = max(present.get(element, -1), began[process])
                else:
                    absent[element] = max(absent.get(element, -1), began[process])
    stable = {one for one in tried if one in present and absent.get(one, -1) < present[one]}
    missed = {one for one in tried if one in known and one in absent and known[one] < absent[one]}
    lost = {one for one in missed if present.get(one, -1) < absent[one]}
    return {"stable": stable, "lost": lost, "stale": stable & missed}


def test_sets_are_judged_as_jepsen_defines_it() -> None:
    seen: Counter[str] = Counter()
    for seed in range(10_000):
        history = _random_set(random.Random(seed))
        wanted = _as_jepsen_defines_it(history)
        found = judge("set-full", history)
        counts = {one.type: one.count for one in found.found}
        assert counts == {kind: len(wanted[kind]) for kind in ("lost", "stale") if wanted[kind]}, (seed, history)
        verdict = "invalid" if wanted["lost"] else "valid" if wanted["stable"] else "unknown"
        assert found.verdict.value == verdict, (seed, history)
        seen[verdict] += 1
    assert min(seen[verdict] for verdict in ("valid", "invalid", "unknown")) > 500


def test_counters_are_bounded_as_jepsen_defines_it() -> None:
    wrong = 0
    for seed in range(10_000):
        rng = random.Random(seed)
        running: dict[int, tuple[str, int | None, int]] = {}
        history: list[Entry] = []
        lower = upper = errors = 0
        failing = {number for number in range(14) if rng.random() < 0.1}
        for number in range(rng.randint(2, 14)):
            process = rng.randrange(3)
            if process not in running:
                f, amount = rng.choice([("add", rng.randint(0, 3)), ("read", None)])
                running[process] = f, amount, lower
                will_fail = f == "add" and number in failing
                upper += 0 if will_fail else amount or 0
                history.append((process, "invoke", f, amount))
                if will_fail:
                    history.append((process, "fail", f, amount))
                    del running[process]
                continue
            f, amount, low = running.pop(process)
            if f == "add":
                lower += amount or 0
                history.append((process, "ok", f, amount))
            else:
                value = rng.randint(max(0, low - 1), upper + 1)
                errors += not low <= value <= upper
                history.append((process, "ok", f, value))
        found = violations(judge("counter-bounds", history))
        assert found == ({"out-of-bounds": errors} if errors else {}), (seed, history)
        wrong += bool(errors)
    assert 1000 < wrong < 9000


def test_queues_are_counted_as_jepsen_defines_it() -> None:
    for seed in range(3000):
        rng = random.Random(seed)
        history: list[Entry] = []
        tried, sure, out = Counter[int](), Counter[int](), Counter[int]()
        for process in range(rng.randint(1, 8)):
            value = rng.randrange(4)
            if rng.random() < 0.6:
                kind = rng.choice(["ok", "info", "fail"])
                history += [(process, "invoke", "enqueue", value), (process, kind, "enqueue", value)]
                tried[value] += 1
                sure[value] += kind == "ok"
            else:
                history += [(process, "invoke", "dequeue", None), (process, "ok", "dequeue", value)]
                out[value] += 1
        lost = sum((sure - out).values())
        unexpected = sum(count for value, count in out.items() if not tried[value])
        wanted = {kind: count for kind, count in (("unexpected", unexpected), ("lost", lost)) if count}
        assert violations(judge("total-queue", history)) == wanted, (seed, history)


def test_a_fork_is_two_reads_of_which_each_saw_what_the_other_did_not() -> None:
    forks = 0
    for seed in range(3000):
        rng = random.Random(seed)
        history: list[Entry] = []
        reads = []
        for process in range(rng.randint(1, 5)):
            seen = [rng.choice([None, 1]) for _ in range(3)]
            reads.append(seen)
            keys = rng.sample(range(3), 3)
            history.append((process, "invoke", "read", tuple(("r", key, None) for key in keys)))
            history.append((process, "ok", "read", tuple(("r", key, seen[key]) for key in keys)))
        forked = any(
            any(x and not y for x, y in zip(a, b, strict=True)) and any(y and not x for x, y in zip(a, b, strict=True))
            for a, b in combinations(reads, 2)
        )
        found = judge("long-fork", history)
        assert (found.verdict is Validity.INVALID) == forked, (seed, history)
        forks += forked
    assert 300 < forks < 2700
