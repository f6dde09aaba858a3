"""Random choices: independent substreams, each call one recorded choice, replayed as long as records last and fit."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.choices import Choice, Choices, unpacked

NODES = ["b1", "b2", "b3"]
DRAWS: dict[str, Callable[[random.Random], Any]] = {
    "random": lambda r: r.random(),
    "getrandbits": lambda r: r.getrandbits(17),
    "uniform": lambda r: r.uniform(1.0, 5.0),
    "expovariate": lambda r: r.expovariate(0.5),
    "randrange": lambda r: r.randrange(3, 90, 4),
    "randint": lambda r: r.randint(1, 6),
    "choice": lambda r: r.choice(NODES),
    "choices": lambda r: r.choices(range(4), k=1024),
    "weighted": lambda r: r.choices(NODES, weights=[5, 1, 1], k=4),
    "sample": lambda r: r.sample(range(500), 40),
    "counted": lambda r: r.sample(NODES, 2, counts=[1, 2, 3]),
    "shuffle": lambda r: shuffled(r, 300),
    "gauss": lambda r: r.gauss(0, 1),
    "triangular": lambda r: r.triangular(0, 1),
    "randbytes": lambda r: r.randbytes(5),
}


def shuffled(source: random.Random, size: int) -> list[int]:
    items = list(range(size))
    source.shuffle(items)
    return items


def recorded(path: Path) -> list[Choice]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [Choice(x["actor"], x["index"], x["n"], x["what"], x["value"]) for x in lines if "what" in x]


def draw_all(source: random.Random) -> list[Any]:
    return [draw(source) for draw in DRAWS.values()]


def test_the_same_seed_draws_the_same_in_every_process_and_release() -> None:
    """Literal values: a hash or generator that changes would break every recorded seed."""
    stream = Choices(7).stream("nemesis", 0)
    assert [stream.randrange(1000) for _ in range(4)] == [960, 715, 989, 910]


def test_substreams_do_not_disturb_each_other() -> None:
    alone = draw_all(Choices(7).stream("nemesis", 1))
    choices = Choices(7)
    others = [choices.stream("nemesis", 0), choices.stream("w1", 1)]
    for other in others:
        draw_all(other)
    assert draw_all(choices.stream("nemesis", 1)) == alone
    assert len({str(draw_all(stream)) for stream in (*others, Choices(8).stream("nemesis", 1))}) == 3


def test_a_stream_goes_on_where_it_was() -> None:
    choices = Choices(7)
    first = choices.stream("a", 0).random()
    assert choices.stream("a", 0).random() != first


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_replay_takes_the_recorded_choice_whatever_the_seed(
    draw: Callable[[random.Random], Any], tmp_path: Path
) -> None:
    choices = Choices(7, file=tmp_path / "choices")
    stream = choices.stream("a", 0)
    drawn = [draw(stream) for _ in range(3)]
    choices.close()
    key = ("a", 0)
    again = Choices(99, {key: recorded(tmp_path / "choices")})
    stream = again.stream(*key)
    assert [draw(stream) for _ in range(3)] == drawn
    assert again.misfits == []
    assert [draw(Choices(99).stream(*key)) for _ in range(3)] != drawn


@pytest.mark.parametrize("name", ["choice", "choices", "sample", "shuffle", "uniform", "randint", "expovariate"])
def test_one_call_is_one_choice(name: str, tmp_path: Path) -> None:
    choices = Choices(7, file=tmp_path / "choices")
    DRAWS[name](choices.stream("a", 0))
    (line,) = (tmp_path / "choices").read_text().splitlines()
    assert len(line) < 700
    choices.close()


def test_when_records_end_the_original_draws_go_on(tmp_path: Path) -> None:
    choices = Choices(7, file=tmp_path / "choices")
    stream = choices.stream("a", 0)
    drawn = [stream.randint(1, 1000) for _ in range(10)]
    choices.close()
    replay = Choices(7, {("a", 0): recorded(tmp_path / "choices")[:4]})
    stream = replay.stream("a", 0)
    assert [stream.randint(1, 1000) for _ in range(10)] == drawn


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("choice of 3", 3),
        ("choice of 3", -1),
        ("choice of 3", "b1"),
        ("choice of 3", None),
        ("choice of 4", 1),
        ("random", 0.5),
    ],
)
def test_what_does_not_fit_is_drawn_and_told(what: str, value: object) -> None:
    misfit = Choice("a", 0, 0, what, value)
    choices = Choices(7, {("a", 0): [misfit]})
    assert choices.stream("a", 0).choice(NODES) == Choices(7).stream("a", 0).choice(NODES)
    assert choices.misfits == [misfit]


@pytest.mark.parametrize("value", [[0, 1], [0, 0, 1], [0, 1, 3], "u1z:AAAA", "u1z:!", "u", "nonsense", [0, 1, "2"], {}])
def test_places_that_do_not_fit_are_drawn(value: object) -> None:
    choices = Choices(7, {("a", 0): [Choice("a", 0, 0, "order of 3", value)]})
    items = list(NODES)
    choices.stream("a", 0).shuffle(items)
    assert sorted(items) == NODES
    assert len(choices.misfits) == 1


def test_a_misfit_is_found_at_once_however_many_values_would_fit() -> None:
    choices = Choices(7, {("a", 0): [Choice("a", 0, 0, "60 bits", "many")]})
    assert choices.stream("a", 0).getrandbits(60) == Choices(7).stream("a", 0).getrandbits(60)


@given(st.integers(1, 70_000), st.integers(0, 300))
def test_long_lists_are_packed_and_come_back(size: int, k: int) -> None:
    stream = Choices(1).stream("a", 0)
    drawn = stream.choices(range(size), k=k)
    found: Sequence[int] | None = None

    class Caught(Choices):
        def _write(self, line: Any) -> None:
            nonlocal found
            found = unpacked(json.loads(json.dumps(line["value"])))

    Caught(1).stream("a", 0).choices(range(size), k=k)
    assert found == drawn


def test_lines_can_be_read_by_people(tmp_path: Path) -> None:
    choices = Choices(7, file=tmp_path / "choices")
    choices.stream("nemesis", 0).choice(["kill", "pause"])
    choices.resolved("nemesis", 0, "leader of log-0", ["b2"])
    choices.resolved("nemesis", 0, "leader of log-1", ["b3"])
    choices.close()
    first, *rest = (json.loads(line) for line in (tmp_path / "choices").read_text().splitlines())
    assert (first["what"], first["picked"] in ("kill", "pause")) == ("choice of 2", True)
    assert rest == [
        {"actor": "nemesis", "index": 0, "n": n, "resolved": f"leader of log-{n}", "value": [f"b{n + 2}"]}
        for n in range(2)
    ]
