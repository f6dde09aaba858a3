"""Pieces of logs, one row per offset, against the definition: two points per offset (log.py)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from harness.checker.linearizability.log import NEVER, OPEN, inversions
from harness.checker.linearizability.pieces import sweep_pieces

COLUMNS = ("log", "offset", "invoked", "completed", "read", "later")


def piece(rng: np.random.Generator, rows: int, logs: int) -> dict[str, np.ndarray]:
    """Appends and reads at every offset of a few logs, close enough in time for many to be out of order; some of them are missing."""
    log, offset = np.unravel_index(rng.choice(logs * 3 * rows, rows, replace=False), (logs, 3 * rows))
    columns = [log - logs // 2, offset, *rng.integers(0, 12, (4, rows))]
    for column, nothing in ((2, NEVER), (3, OPEN), (4, OPEN), (5, OPEN)):
        columns[column] = np.where(rng.random(rows) < 0.5, nothing, columns[column])
    return dict(zip(COLUMNS, columns, strict=True))


@pytest.mark.parametrize("seed", range(300))
def test_one_row_per_offset_says_what_two_points_say(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(0, 12))
    log, offset, invoked, completed, read, later = piece(rng, rows, int(rng.integers(1, 4))).values()
    told = sweep_pieces(pa.table(dict(zip(COLUMNS, (log, offset, invoked, completed, read, later), strict=True))))
    expected = inversions(
        np.concatenate((log, log)),
        np.concatenate((2 * offset + 1, 2 * offset + 2)),
        np.concatenate((invoked, np.full(rows, NEVER))),
        np.concatenate((completed, read)),
        np.concatenate((later, later)),
    )
    wanted = zip(log[expected.x].tolist(), offset[expected.x].tolist(), expected.completed.tolist(), strict=True)
    assert sorted(zip(*(told[name].to_pylist() for name in ("log", "offset", "bound")), strict=True)) == sorted(wanted)


def test_the_pieces_that_are_compared_are_not_all_in_order() -> None:
    found = sum(sweep_pieces(pa.table(piece(np.random.default_rng(seed), 8, 2))).num_rows > 0 for seed in range(100))
    assert found > 30
