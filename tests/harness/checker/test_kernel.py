"""The slot sweep against brute force over all pairs, and against the definition of linearizability itself."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.checker.linearizability.log import NEVER, OPEN, inversions

small = st.integers(0, 9)
point = st.tuples(
    st.integers(0, 2),
    small,
    st.one_of(small, st.just(NEVER)),
    st.one_of(small, st.just(OPEN)),
    st.one_of(small, st.just(OPEN)),
)


def sweep(points: list[tuple[int, int, int, int, int]], *, later: bool = True) -> dict[int, tuple[int, int]]:
    """x -> (y, completed)"""
    columns = np.array(points, np.int64).reshape(-1, 5).T
    found = inversions(*columns[:4], columns[4] if later else None)
    return dict(zip(found.x.tolist(), zip(found.y.tolist(), found.completed.tolist(), strict=True), strict=True))


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


@given(st.lists(st.tuples(small, st.integers(0, 5)), min_size=1, max_size=5))
@settings(max_examples=200, deadline=None)
def test_no_inversion_means_that_some_order_of_all_appends_explains_the_offsets(ops: list[tuple[int, int]]) -> None:
    """Append number i is at offset i: linearizable iff that very order respects real time; any search over orders finds no other."""
    intervals = [(begin, begin + length) for begin, length in ops]
    orders = [
        order for order in permutations(range(len(ops)))
        if all(not intervals[b][1] < intervals[a][0] for place, a in enumerate(order) for b in order[place + 1 :]) and
        list(order) == sorted(order)
    ]  # fmt: skip
    points = [(0, 2 * offset + 1, begin, end, OPEN) for offset, (begin, end) in enumerate(intervals)]
    assert bool(sweep(points)) == (not orders)


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


def test_the_example_of_the_module() -> None:
    assert sweep([(0, 1, 0, 4, OPEN), (0, 3, 5, 9, OPEN), (0, 5, 1, 3, OPEN)]) == {1: (2, 3)}


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
