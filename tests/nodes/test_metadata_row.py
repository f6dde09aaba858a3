"""Which records of the controllers' log were agreed on."""

from __future__ import annotations

import pytest

from nodes.metadata_row import ends_of_epochs

FOREVER = float("inf")


@pytest.mark.parametrize(
    ("places", "ends"),
    [
        ([], {}),
        ([(0, 1), (5, 1)], {1: FOREVER}),
        ([(0, 1), (5, 1), (6, 2)], {1: 6, 2: FOREVER}),
        ([(7, 1), (9, 1), (8, 3)], {1: 8, 3: FOREVER}),
        ([(0, 1), (4, 2), (4, 5), (9, 2)], {1: 4, 2: 4, 5: FOREVER}),
        ([(0, 1), (8, 2), (6, 5)], {1: 6, 2: 6, 5: FOREVER}),
    ],
)
def test_an_epoch_ends_where_a_later_one_begins(places: list[tuple[int, int]], ends: dict[int, float]) -> None:
    assert ends_of_epochs(places) == ends
    assert ends_of_epochs([*reversed(places), *places]) == ends
