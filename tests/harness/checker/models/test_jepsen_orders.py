"""`comments` and `sequential`: one defect each, lawful neighbours, and the definition again, event by event, on random histories."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.harness.checker.models.judging import judged, ops, types
from tests.harness.checker.models.test_jepsen_rules import Entry, judge, violations

ONE_THEN_TWO = ("0 invoke write 1", "0 ok write 1", "0 invoke write 2", "0 ok write 2", "1 invoke read nil")
TOGETHER = ("0 invoke write 1", "1 invoke write 2", "0 ok write 1", "1 ok write 2", "1 invoke read nil")

ADDED = (
    '0 invoke add [7 "7_0"]', '0 ok add [7 "7_0"]', '0 invoke add [7 "7_1"]', '0 ok add [7 "7_1"]',
)  # fmt: skip


@pytest.mark.parametrize(
    ("model", "lines", "wanted"),
    [
        ("comments", (*ONE_THEN_TWO, "1 ok read #{1 2}"), []),
        ("comments", (*ONE_THEN_TWO, "1 ok read #{1}"), []),
        ("comments", (*ONE_THEN_TWO, "1 ok read #{}"), []),
        ("comments", (*ONE_THEN_TWO, "1 ok read #{2}"), ["causal-reverse"]),
        ("comments", (*ONE_THEN_TWO, "1 ok read [3 1]"), ["phantom-value"]),
        ("comments", (*TOGETHER, "1 ok read #{2}"), []),
        ("comments", ("0 invoke write 1", "0 info write 1", *ONE_THEN_TWO[2:], "1 ok read [2]"), []),
        ("sequential", ("0 invoke read 7", '0 ok read [7 ["7_2" "7_1" "7_0"]]'), []),
        ("sequential", ("0 invoke read 7", '0 ok read [7 [nil "7_1" "7_0"]]'), []),
        ("sequential", ("0 invoke read 7", "0 ok read [7 [nil nil nil]]"), []),
        ("sequential", ("0 invoke read 7", '0 ok read [7 [nil "7_1" nil]]'), ["causal-reverse"]),
        (
            "sequential",
            ("0 invoke write 7", "0 ok write 7", "0 invoke read 7", '0 ok read ["7_1" nil]'),
            ["causal-reverse"],
        ),
        ("sequential", ("0 invoke read 7", '0 info read [7 ["7_1" nil]]'), []),
        ("sequential", (*ADDED, "1 invoke read [7 nil]", '1 ok read [7 [nil "7_0"]]'), []),
        ("sequential", (*ADDED, "1 invoke read [7 nil]", '1 ok read [7 ["7_1" nil]]'), ["causal-reverse"]),
    ],
)
def test_a_defect_is_named_and_its_neighbours_are_not(
    tmp_path: Path, model: str, lines: tuple[str, ...], wanted: list[str]
) -> None:
    answer = judged(tmp_path / "history", ops(*lines), model=f"jepsen-{model}")
    assert (answer["model"], types(answer)) == (model, wanted)
    assert answer["verdict"] == ("invalid" if wanted else "valid")


def test_the_sentence_names_the_writes(tmp_path: Path) -> None:
    (told,) = judged(tmp_path / "history", ops(*ONE_THEN_TWO, "1 ok read #{2}"), model="comments")["anomalies"]
    assert told["sentence"] == (
        "read 4 has 2 but not 1, whose write (0) had been acknowledged before that of 2 (2) was invoked"
    )
    assert [op.partition(",")[0] for op in told["ops"]] == [
        "4: process 1 read -> ok #{2}",
        "0: process 0 write 1 -> ok",
        "2: process 0 write 2 -> ok",
    ]


@pytest.mark.parametrize(
    ("model", "lines", "verdict"),
    [
        ("comments", ("0 invoke write 1", "0 ok write 1", "0 invoke write 1", "0 ok write 1"), "unknown"),
        ("comments", ("0 invoke read nil", "0 ok read 3"), "unknown"),
        ("sequential", ("0 invoke read nil", "0 ok read 3"), "unknown"),
    ],
)
def test_what_cannot_be_judged_is_unknown(tmp_path: Path, model: str, lines: tuple[str, ...], verdict: str) -> None:
    assert judged(tmp_path / "history", ops(*lines), model=model)["verdict"] == verdict


def test_it_is_what_a_replay_of_the_events_finds() -> None:
    broken = 0
    for seed in range(300):
        history = visible_writes(random.Random(seed))
        wanted = replayed(history)
        broken += wanted > 0
        assert violations(judge("comments", history)) == ({"causal-reverse": wanted} if wanted else {}), seed
    assert 50 < broken < 250


def visible_writes(rng: random.Random) -> list[Entry]:
    """Writes and reads that overlap; a read has any of the writes that were invoked before it ended."""
    history: list[Entry] = []
    running: dict[int, tuple[str, int | None]] = {}
    written = 0
    for _ in range(rng.randint(4, 30)):
        process = rng.randrange(4)
        if process not in running:
            if rng.random() < 0.6:
                running[process] = ("write", written)
                written += 1
            else:
                running[process] = ("read", None)
            history.append((process, "invoke", *running[process]))
            continue
        f, value = running.pop(process)
        if f == "write":
            history.append((process, rng.choice(["ok", "ok", "fail"]), f, value))
        else:
            share = rng.choice([0.5, 0.9, 1.0])
            history.append((process, "ok", f, tuple(v for v in range(written) if rng.random() < share)))
    return history


def replayed(history: list[Entry]) -> int:
    """As the source has it: what had been acknowledged when a write was invoked is due to whoever sees the write."""
    acknowledged: set[int] = set()
    due: dict[int, set[int]] = {}
    wrong = 0
    for _, kind, f, value in history:
        if f == "write" and kind == "invoke":
            due[value] = set(acknowledged)
        elif f == "write" and kind == "ok":
            acknowledged.add(value)
        elif f == "read" and kind == "ok":
            wrong += bool(set().union(*(due[seen] for seen in value)) - set(value))
    return wrong
