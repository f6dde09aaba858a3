"""The slot sweep against brute force over all pairs, and against the definition of linearizability itself."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.checker import log_pieces
from harness.checker.linearizability.log import NEVER, OPEN, inversions

small = st.integers(0, 9)
point = st.tuples(
    st.integers(0, 2),
    small,
    st.one_of(small, st.just(NEVER)),
    st.one_of(small, st.just(OPEN)),
    st.one_of(small, st.just(OPEN)),
)


def test_the_driver_means_the_same_times_as_the_kernel() -> None:
    assert (log_pieces.OPEN, log_pieces.NEVER) == (OPEN, NEVER)


def sweep(points: list[tuple[int, int, int, int, int]]) -> dict[int, tuple[int, int]]:
    """x -> (y, completed)"""
    columns = np.array(points, np.int64).reshape(-1, 5).T
    log, slot, invoked, completed, beyond = columns
    found = inversions(log, slot, invoked, completed, beyond)
    return dict(zip(found.x.tolist(), zip(found.y.tolist(), found.completed.tolist(), strict=True), strict=True))


def test_the_example_of_the_module() -> None:
    assert sweep([(0, 1, 0, 4, OPEN), (0, 3, 5, 9, OPEN), (0, 5, 1, 3, OPEN)]) == {1: (2, 3)}


def test_the_earliest_of_all_above_counts_in_each_log() -> None:
    points = [(0, 9, 0, 1, OPEN), (1, 1, 8, 9, OPEN), (1, 3, 5, 7, OPEN), (1, 5, 1, 3, OPEN)]
    assert sweep(points) == {1: (3, 3), 2: (3, 3)}


@given(st.lists(point, max_size=12))
@settings(max_examples=400, deadline=None)
def test_it_finds_every_row_that_was_invoked_after_something_above_it_had_completed(
    points: list[tuple[int, int, int, int, int]],
) -> None:
    wanted = {}
    for x, (log, slot, invoked, _, later) in enumerate(points):
        above = [completed for other, higher, _, completed, _ in points if other == log and higher > slot]
        earliest = min([*above, later])
        if earliest < invoked:
            wanted[x] = earliest
    found = sweep(points)
    assert {x: completed for x, (_, completed) in found.items()} == wanted
    for x, (y, completed) in found.items():
        if y < 0:
            assert completed == points[x][4]
        else:
            assert points[y][0] == points[x][0]
            assert points[y][1] > points[x][1]
            assert points[y][3] == completed


interval = st.tuples(small, st.integers(0, 5)).map(lambda drawn: (drawn[0], drawn[0] + drawn[1]))


@given(st.lists(interval, max_size=4), st.lists(st.tuples(interval, st.integers(0, 3)), max_size=2))
@settings(max_examples=300, deadline=None)
def test_no_inversion_means_that_some_order_in_time_explains_every_answer(
    appends: list[tuple[int, int]], reads: list[tuple[tuple[int, int], int]]
) -> None:
    """By the definition: try all orders that respect real time on a log that starts empty. Append i was told offset i."""
    ops = [(times, "append", offset) for offset, times in enumerate(appends)]
    ops += [(times, "read", offset) for times, offset in reads if offset < len(appends)]
    points = [(0, 2 * offset + 1, begin, end, OPEN) for (begin, end), kind, offset in ops if kind == "append"]
    points += [(0, 2 * offset + 2, NEVER, end, OPEN) for (_, end), kind, offset in ops if kind == "read"]
    assert (not sweep(points)) == any(_explains(order) for order in permutations(ops))


def _explains(order: tuple[tuple[tuple[int, int], str, int], ...]) -> bool:
    length = 0
    for place, ((begin, _), kind, offset) in enumerate(order):
        if any(later[0][1] < begin for later in order[place + 1 :]):
            return False
        if (kind == "append" and offset != length) or (kind == "read" and offset >= length):
            return False
        length += kind == "append"
    return True


@given(st.lists(point, max_size=12), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_the_order_of_rows_does_not_matter(points: list[tuple[int, int, int, int, int]], rng: object) -> None:
    shuffled = list(points)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert sorted((points[x], completed) for x, (_, completed) in sweep(points).items()) == sorted(
        (shuffled[x], completed) for x, (_, completed) in sweep(shuffled).items()
    )


@given(st.lists(point.map(lambda p: (0, *p[1:4], OPEN)), max_size=12), st.integers(0, 10))
@settings(max_examples=100, deadline=None)
def test_a_log_in_two_pieces_gives_what_the_whole_gives(points: list[tuple[int, int, int, int, int]], cut: int) -> None:
    low, high = ([p for p in points if (p[1] >= cut) is side] for side in (False, True))
    carried = min([p[3] for p in high], default=OPEN)
    pieces = {(p, done) for piece in ([(*p[:4], carried) for p in low], high) for p, done in _named(piece)}
    assert {(p[:4], done) for p, done in pieces} == {(p[:4], done) for p, done in _named(points)}


def _named(points: list[tuple[int, int, int, int, int]]) -> list[tuple[tuple[int, int, int, int, int], int]]:
    return [(points[x], completed) for x, (_, completed) in sweep(points).items()]


def test_equal_times_are_concurrent_and_nothing_gives_nothing() -> None:
    assert sweep([(0, 1, 5, 9, OPEN), (0, 3, 0, 5, OPEN)]) == {}
    assert sweep([]) == {}


def test_a_million_points_in_one_log() -> None:
    slot = np.random.default_rng(1).permutation(1_000_000)
    found = inversions(np.zeros_like(slot), slot, slot * 10, slot * 10 + 95)
    assert len(found.x) == 0
    late = slot * 10
    late[7] = OPEN - 1
    assert inversions(np.zeros_like(slot), slot, late, slot * 10 + 95).x.tolist() == [7]
