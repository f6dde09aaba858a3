"""The log against a list: whatever is appended, cut, restarted and lost, it holds what the list says, and derives what a copy does."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.reference.log import derived
from nodes.reference.log.batch import BatchRefused, Marker, batches
from nodes.reference.log.log import Log, LogSettings
from nodes.reference.protections import ALL_ON
from tests.nodes.reference.lone_disk import LoneDisk
from tests.nodes.reference.producing import produced

ALL = 1 << 30


class Step(NamedTuple):
    what: str
    number: int  # producer, offset, records: what the step makes of it


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(
            ["append", "append", "append", "transaction", "marker", "epoch", "truncate", "restart", "power"]
        ),
        st.integers(0, 30),
    ),
    max_size=40,
)


class Subject:
    """The log under test, its disk, and every batch that it should hold."""

    def __init__(self) -> None:
        self.disk = LoneDisk()
        self.batches: list[bytes] = []
        self.epoch = 0
        self.open()

    def open(self) -> None:
        self.log = Log.open(self.disk, "t-0", LogSettings(log_flush_interval_messages=1), ALL_ON)

    def take(self, step: Step) -> None:
        match step.what:
            case "append":
                self._produce(step.number % 3, 1 + step.number % 4, transactional=False)
            case "transaction":
                self._produce(10 + step.number % 2, 1, transactional=True)
            case "marker":
                self._end(10 + step.number % 2, Marker(step.number % 2))
            case "epoch":
                self.epoch += 1
                self.log.begin_epoch(self.epoch)
            case "truncate":
                self._truncate(step.number)
            case "restart":
                self.open()
            case "power":
                self.log.flush()
                self.disk.lose_power()
                self.open()

    def _produce(self, producer: int, count: int, *, transactional: bool) -> None:
        known = self.log.producers.get(producer)
        sequence = known.batches[-1].last_sequence + 1 if known.batches else 0
        content = produced(
            *[b"%d" % sequence] * count, producer=producer, epoch=0, sequence=sequence, transactional=transactional
        )
        before = self.log.log_end_offset
        self.log.append_as_leader(content, leader_epoch=self.epoch, now=0)
        self.batches.append(self.log.read(before, upper_bound=self.log.log_end_offset, max_bytes=ALL))
        with pytest.raises(BatchRefused):
            self.log.append_as_leader(
                produced(
                    b"gap", producer=producer, epoch=0, sequence=sequence + count + 1, transactional=transactional
                ),
                leader_epoch=self.epoch,
                now=0,
            )

    def _end(self, producer: int, marker: Marker) -> None:
        before = self.log.log_end_offset
        self.log.append_marker(
            marker,
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=0,
            leader_epoch=self.epoch,
            timestamp=0,
            now=0,
        )
        self.batches.append(self.log.read(before, upper_bound=before + 1, max_bytes=ALL))

    def _truncate(self, offset: int) -> None:
        self.log.truncate(offset)
        while self.batches and next(batches(self.batches[-1]))[1].last_offset >= offset:
            self.batches.pop()

    def check(self) -> None:
        content = b"".join(self.batches)
        assert self.log.read(0, upper_bound=self.log.log_end_offset, max_bytes=ALL) == content
        copy = Log.open(LoneDisk(), "t-0", LogSettings(), ALL_ON)
        copy.append_as_follower(content, now=0)
        assert self.log.log_end_offset == copy.log_end_offset
        assert self.log.producers.snapshot() == copy.producers.snapshot()
        for high_watermark in range(0, copy.log_end_offset + 1, 3):
            assert self.log.transactions.first_unstable(high_watermark) == _unstable(content, high_watermark)
        assert self.log.aborted_between(0, ALL) == copy.aborted_between(0, ALL)
        with_records = [entry for entry in self.log.epochs.entries if entry.offset < copy.log_end_offset]
        assert with_records == copy.epochs.entries


def _unstable(content: bytes, high_watermark: int) -> int | None:
    copy = Log.open(LoneDisk(), "t-0", LogSettings(), ALL_ON)
    copy.append_as_follower(content, now=0)
    return copy.transactions.first_unstable(high_watermark)


@pytest.mark.parametrize("interval", [1, 300, derived.SNAPSHOT_INTERVAL])
def test_the_log_is_the_list_and_what_follows_from_it(interval: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """interval: bytes between two snapshots of what is derived, from which a truncation starts."""
    monkeypatch.setattr(derived, "SNAPSHOT_INTERVAL", interval)

    @settings(max_examples=60, deadline=None)
    @given(STEPS)
    def property_holds(steps: list[Step]) -> None:
        subject = Subject()
        for step in steps:
            subject.take(step)
        subject.check()

    property_holds()
