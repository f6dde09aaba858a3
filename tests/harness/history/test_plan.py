"""The merged choices of a run: order, comparison of two runs, damage."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.choices import Choices
from harness.history.errors import HistoryError
from harness.history.plan import CHOICES, client_actor, first_difference, recorded_choices
from harness.history.store import finish
from tests.harness.history.conftest import Run

PRODUCER = client_actor("w1", "main", "producer")


def recorded_run(run: Run, *, seed: int = 7, blocks: int = 5, faults: int = 3, leader: str = "b1") -> Path:
    """A client draws blocks as long as it runs; the nemesis plans its faults and resolves them."""
    nemesis, client = (Choices(seed, file=run.journal / f"{writer}.choices") for writer in (0, 1))
    for fault in range(faults):
        nemesis.stream("nemesis", fault).choice(["kill", "pause", "partition"])
    for _ in range(blocks):
        client.stream(PRODUCER, 0).choices(range(4), k=1024)
        client.stream(client_actor("w1", "main", "mix"), 0).random()
    for fault in range(faults):
        nemesis.resolved("nemesis", fault, "leader of log-0", [leader])
        nemesis.stream("nemesis", fault).uniform(1, 5)
    nemesis.close()
    client.close()
    finish(run.path)
    return run.path


def test_two_runs_of_one_seed_have_the_same_plan(new_run: Callable[[], Run]) -> None:
    a, b = recorded_run(new_run()), recorded_run(new_run())
    assert (a / CHOICES).read_bytes() == (b / CHOICES).read_bytes()
    assert first_difference(a, b) is None


def test_clients_may_run_longer_and_leaders_may_differ(new_run: Callable[[], Run]) -> None:
    a, b = recorded_run(new_run(), blocks=5), recorded_run(new_run(), blocks=8, leader="b3")
    none = recorded_run(new_run(), blocks=0)
    assert first_difference(a, b) is None
    assert first_difference(b, a) is None
    assert first_difference(a, none) is None


def test_a_nemesis_that_stopped_early_has_another_plan(new_run: Callable[[], Run]) -> None:
    a, b = recorded_run(new_run(), faults=2), recorded_run(new_run(), faults=3)
    difference, reverse = first_difference(a, b), first_difference(b, a)
    assert difference is not None
    assert reverse is not None
    assert difference.a is None
    assert difference.b is not None
    assert (difference.b.actor, difference.b.index, difference.b.n) == ("nemesis", 2, 0)
    assert "nothing more in one" in str(difference)
    assert (reverse.a, reverse.b) == (difference.b, None)


def test_another_seed_is_another_plan_from_the_first_choice_on(new_run: Callable[[], Run]) -> None:
    a, b = recorded_run(new_run(), faults=0), recorded_run(new_run(), faults=0, seed=8)
    difference = first_difference(a, b)
    assert difference is not None
    assert difference.a is not None
    assert difference.a.n == 0
    assert "in one" in str(difference)


def test_one_choice_that_differs_is_found(new_run: Callable[[], Run]) -> None:
    a, b = recorded_run(new_run()), recorded_run(new_run())
    lines = [json.loads(line) for line in (b / CHOICES).read_text().splitlines()]
    changed = next(line for line in lines if line["actor"] == PRODUCER and line["n"] == 3)
    changed["value"] = [0] * 1024
    (b / CHOICES).write_text("".join(json.dumps(line) + "\n" for line in lines))
    difference = first_difference(a, b)
    assert difference is not None
    assert difference.b is not None
    assert (difference.b.actor, difference.b.n) == (PRODUCER, 3)
    assert "choices 1024 of 4: [0, 0, 0, 0" in str(difference)
    assert len(str(difference)) < 300


def test_the_merged_file_is_ordered_and_has_everything(run: Run) -> None:
    path = recorded_run(run)
    lines = [json.loads(line) for line in (path / CHOICES).read_text().splitlines()]
    places = [(line["actor"], line["index"], "resolved" in line, line["n"]) for line in lines]
    assert places == sorted(places)
    assert len(places) == 2 * 5 + 2 * 3 + 3


def test_a_replay_reads_what_a_client_chose(run: Run) -> None:
    path = recorded_run(run)
    found = recorded_choices(path, "client/w1/")
    assert {key: len(choices) for key, choices in found.items()} == {
        (PRODUCER, 0): 5,
        (client_actor("w1", "main", "mix"), 0): 5,
    }
    original = Choices(7).stream(PRODUCER, 0)
    replayed = Choices(0, found).stream(PRODUCER, 0)
    assert [replayed.choices(range(4), k=1024) for _ in range(5)] == [
        original.choices(range(4), k=1024) for _ in range(5)
    ]


def test_a_torn_last_line_is_counted_and_left_out(run: Run) -> None:
    choices = Choices(7, file=run.journal / "0.choices")
    choices.stream("nemesis", 0).random()
    choices.close()
    with (run.journal / "0.choices").open("ab") as file:
        file.write(b'{"actor": "nem')
    assert finish(run.path).torn == {"choices": 14}
    assert [len(found) for found in recorded_choices(run.path).values()] == [1]


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b'{"actor": "a", "index": 0}', b'{"actor":1,"index":0,"n":0,"what":"","value":0}']
)
def test_a_damaged_line_is_named(run: Run, line: bytes) -> None:
    good = b'{"actor": "a", "index": 0, "n": 0, "what": "random", "value": 0.5}\n'
    (run.journal / "0.choices").write_bytes(good + line + b"\n" + good)
    with pytest.raises(HistoryError, match=r"0\.choices, line 2: not a choice"):
        finish(run.path)
    assert (run.journal / "0.choices").exists()


def test_a_run_without_choices_cannot_be_replayed(run: Run) -> None:
    with pytest.raises(HistoryError, match="krash recover"):
        recorded_choices(run.path)
