"""KIP-101 and KIP-279: where epochs end, by the table in the proposal."""

from __future__ import annotations

import pytest

from nodes.reference.log.epochs import UNKNOWN_END, EpochCache, EpochEnd, EpochStart


def cache() -> EpochCache:
    return EpochCache([EpochStart(2, 0), EpochStart(5, 100), EpochStart(6, 150)])


@pytest.mark.parametrize(
    ("epoch", "end"),
    [
        (6, EpochEnd(6, 180)),
        (5, EpochEnd(5, 150)),
        (4, EpochEnd(2, 100)),
        (2, EpochEnd(2, 100)),
        (1, EpochEnd(1, 0)),
        (7, UNKNOWN_END),
        (-1, UNKNOWN_END),
    ],
    ids=["newest", "known", "between", "oldest", "before all", "not reached", "none"],
)
def test_where_an_epoch_ends(epoch: int, end: EpochEnd) -> None:
    assert cache().end_of(epoch, 180) == end


def test_an_empty_cache_knows_nothing() -> None:
    assert EpochCache().end_of(0, 10) == UNKNOWN_END
    assert EpochCache().latest == -1


def test_an_epoch_begins_once() -> None:
    known = cache()
    assert known.assign(7, 180)
    assert not known.assign(7, 200)
    assert known.entries[-1] == (7, 180)


def test_what_contradicts_a_new_epoch_goes() -> None:
    known = cache()
    known.assign(7, 100)
    assert known.entries == [(2, 0), (7, 100)]
    known.assign(3, 200)
    assert known.entries == [(2, 0), (3, 200)]


def test_truncation_forgets_epochs_that_began_there() -> None:
    known = cache()
    assert known.truncate_from_end(150)
    assert known.entries == [(2, 0), (5, 100)]
    assert not known.truncate_from_end(101)


def test_the_epoch_of_an_offset() -> None:
    assert [cache().epoch_of(offset) for offset in (0, 99, 100, 149, 150, 900)] == [2, 2, 5, 5, 6, 6]
    assert EpochCache([EpochStart(3, 10)]).epoch_of(9) == -1
