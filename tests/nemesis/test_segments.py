"""Where record batches begin, and what goes when the end of a log is thrown away."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemesis.segments import batches, flushed_to, recovery_points, truncation, unsynced_segments
from tests.nemesis.fake import batch

sizes = st.lists(st.integers(1, 20), min_size=1, max_size=12)


def segment(counts: list[int], base: int = 0) -> bytes:
    content = b""
    for count in counts:
        content += batch(base, count, payload=count * 3)
        base += count
    return content


@given(sizes)
def test_batches_follow_each_other_without_gaps(counts: list[int]) -> None:
    found = list(batches(segment(counts)))
    assert [one.next_offset - one.base_offset for one in found] == counts
    assert [one.position for one in found[1:]] == [one.end for one in found[:-1]]
    assert found[-1].end == len(segment(counts))


@given(sizes, st.integers(1, 40))
def test_a_torn_batch_is_not_counted(counts: list[int], torn: int) -> None:
    whole = segment(counts)
    last = list(batches(whole))[-1]
    assert list(batches(whole[: -min(torn, last.end - last.position)])) == list(batches(whole))[:-1]


@given(sizes, st.integers(0, 60))
def test_what_is_kept_ends_at_the_first_batch_beyond(counts: list[int], keep_to: int) -> None:
    content = segment(counts)
    cut = truncation({"00000000000000000000.log": content}, keep_to)
    kept = content if cut.segment is None else content[: cut.size]
    assert all(one.base_offset < keep_to for one in batches(kept))
    assert cut.lost_bytes == len(content) - len(kept)
    if cut.segment is not None:
        assert cut.next_offset == sum(counts)


def test_later_segments_and_their_indexes_go_too() -> None:
    names = {
        f"{base:020d}{ending}": None for base in (0, 10, 20) for ending in (".log", ".index", ".timeindex", ".snapshot")
    }
    files: dict[str, bytes | None] = {**names, "leader-epoch-checkpoint": None, "partition.metadata": None}
    files[f"{10:020d}.log"], files[f"{20:020d}.log"] = segment([5, 5], 10), segment([5], 20)
    cut = truncation(files, 15)
    assert (cut.segment, cut.first_lost, cut.next_offset) == (f"{10:020d}.log", 15, 25)
    assert set(cut.delete) == {
        f"{10:020d}.index",
        f"{10:020d}.timeindex",
        *(f"{20:020d}{ending}" for ending in (".log", ".index", ".timeindex", ".snapshot")),
    }


def test_only_segments_at_or_above_the_recovery_point_are_read() -> None:
    names = [f"{base:020d}.log" for base in (0, 10, 20)] + ["partition.metadata"]
    assert unsynced_segments(names, 12) == [f"{10:020d}.log", f"{20:020d}.log"]
    assert unsynced_segments(names, 0) == names[:3]
    assert unsynced_segments(names, 30) == [f"{20:020d}.log"]


@given(sizes, st.integers(1, 40))
def test_a_flush_policy_vouches_for_no_more_than_was_flushed(counts: list[int], every: int) -> None:
    flushed = end = 0
    for count in counts:
        end += count
        flushed = end if end - flushed >= every else flushed
    said = flushed_to({"00000000000000000000.log": segment(counts), "partition.metadata": None}, every)
    assert end - every < said <= flushed


def test_without_a_flush_policy_nothing_is_vouched_for() -> None:
    assert flushed_to({"00000000000000000000.log": segment([3])}, None) == 0
    assert flushed_to({"00000000000000000000.log": b""}, 1) == 0


def test_a_checkpoint_is_read_and_a_foreign_file_named() -> None:
    assert recovery_points("0\n2\nlog 0 12\nmy topic 3 0\n") == {("log", 0): 12, ("my topic", 3): 0}
    assert recovery_points("") == {}
    with pytest.raises(ValueError, match="not an offset checkpoint"):
        recovery_points("hello\n")
    with pytest.raises(ValueError, match="not an offset checkpoint"):
        recovery_points("0\n3\nlog 0 12\n")
