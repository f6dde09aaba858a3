"""Tries, counted: here, elsewhere, and both together."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.tally import Attempt, Tally

ATTEMPTS = st.builds(
    Attempt,
    key=st.just("k"),
    subject=st.just("toy"),
    at=st.integers(1, 28).map(lambda day: f"2026-11-{day:02}T00:00:00+00:00"),
    commit=st.sampled_from([None, "a", "b"]),
    machine=st.sampled_from(["m", "n"]),
    status=st.sampled_from(["judged", "not-reached", "hang", "crashed"]),
    verdict=st.just("valid"),
    reason=st.sampled_from([None, "why", "why not"]),
    anomalies=st.lists(st.sampled_from(["lost-write", "phantom"]), max_size=3),
    acknowledged=st.integers(0, 3),
    lost=st.integers(0, 3),
    seconds=st.sampled_from([10.0, 20.0, 30.0]),
    as_expected=st.sampled_from([None, True, False]),
    run_dir=st.none(),
)


@given(st.lists(ATTEMPTS), st.lists(ATTEMPTS), st.booleans())
def test_the_sum_of_two_tallies_counts_as_one_of_all_tries_would(
    here: list[Attempt], there: list[Attempt], safe: bool
) -> None:
    added = (Tally.of(here, safe=safe) + Tally.of(there, safe=safe)).as_json()
    whole = Tally.of([*here, *there], safe=safe).as_json()
    assert {**added, "seconds": None} == {**whole, "seconds": None}
    if whole["seconds"] is not None:
        assert 10.0 <= added["seconds"] <= 30.0


@given(st.lists(ATTEMPTS), st.booleans())
def test_a_tally_comes_back_from_json(attempts: list[Attempt], safe: bool) -> None:
    told = Tally.of(attempts, safe=safe).as_json()
    assert Tally.of_json(json.loads(json.dumps(told))).as_json() == told


@pytest.mark.parametrize("wrong", [{"tries": -1}, {"tries": 1, "failed": 2}, {"tries": "x"}, {"anomalies": 3}])
def test_a_tally_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError)):
        Tally.of_json({**Tally().as_json(), **wrong})
