"""The log: append, read, truncate, recover; what is derived from it comes back whichever way it is reached."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from nodes.reference.environment import SECOND
from nodes.reference.log import timestamps
from nodes.reference.log.batch import BatchRefused, Marker
from nodes.reference.log.checkpoint import (
    BadCheckpoint,
    read_offsets,
    write_offsets,
)
from nodes.reference.log.log import Log, LogSettings
from nodes.reference.protections import ALL_ON, Protection, Protections
from tests.nodes.reference.lone_disk import LoneDisk
from tests.nodes.reference.producing import gzipped, produced, records, values

ALL = 1 << 30


def opened(disk: LoneDisk, protections: Protections = ALL_ON, **settings: int) -> Log:
    return Log.open(disk, "data/t-0", LogSettings(**settings), protections)


def append(log: Log, *content: bytes, epoch: int = 0, now: int = 0, **producer: int) -> int:
    batch = produced(*content, **producer)  # type: ignore[arg-type]
    return log.append_as_leader(batch, leader_epoch=epoch, now=now).base_offset


def everything(log: Log) -> bytes:
    return log.read(log.log_start_offset, upper_bound=log.log_end_offset, max_bytes=ALL)


def derived(log: Log) -> object:
    """All that follows from the batches."""
    return log.log_end_offset, log.epochs.entries, log.producers.snapshot(), log.transactions.snapshot()


def mixed(log: Log) -> None:
    """Three epochs, two producers, a transaction that was aborted and one that is open."""
    append(log, b"a", b"b", producer=1, epoch=0, sequence=0)
    append(log, b"c", epoch=1)
    for sequence, value in enumerate((b"d", b"e")):
        batch = produced(value, producer=2, epoch=0, sequence=sequence, transactional=True)
        log.append_as_leader(batch, leader_epoch=1, now=0)
    log.append_marker(
        Marker.ABORT, producer_id=2, producer_epoch=0, coordinator_epoch=0, leader_epoch=2, timestamp=0, now=0
    )
    batch = produced(b"f", producer=2, epoch=0, sequence=2, transactional=True)
    log.append_as_leader(batch, leader_epoch=2, now=0)


def test_records_come_back_at_their_offsets() -> None:
    log = opened(LoneDisk())
    assert append(log, b"a", b"b") == 0
    assert append(log, b"c", epoch=4) == 2
    assert [(record.offset, record.value) for record in records(everything(log))] == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert log.log_end_offset == 3
    assert log.epochs.entries == [(0, 0), (4, 2)]


def test_a_read_has_whole_batches_below_its_bound_and_at_least_one() -> None:
    log = opened(LoneDisk())
    for value in (b"a", b"b", b"c"):
        append(log, value, value)
    size = len(everything(log)) // 3

    def read(offset: int, upper_bound: int, max_bytes: int) -> list[bytes | None]:
        return values(log.read(offset, upper_bound=upper_bound, max_bytes=max_bytes))

    assert read(2, 6, ALL) == [b"b", b"b", b"c", b"c"]
    assert read(3, 6, ALL) == [b"b", b"b", b"c", b"c"]  # the batch that holds it, as in Kafka
    assert read(2, 4, ALL) == [b"b", b"b"]
    assert read(0, 6, 2 * size) == [b"a", b"a", b"b", b"b"]
    assert read(2, 6, 1) == [b"b", b"b"]  # KIP-74
    assert read(4, 4, ALL) == []
    assert read(6, 6, ALL) == []


def test_reading_finds_its_place_in_a_long_log() -> None:
    """Over many entries of the sparse index, and with batches larger than its interval."""
    log, random = opened(LoneDisk()), Random(1)
    for number in range(300):
        append(log, b"%d" % number, bytes(random.choice([1, 100, 9_000])))
    for number in random.sample(range(300), 60):
        found = records(log.read(2 * number + 1, upper_bound=600, max_bytes=300))
        assert (found[0].offset, found[0].value) == (2 * number, b"%d" % number)
        assert values(log.read(2 * number, upper_bound=2 * number + 2, max_bytes=ALL))[0] == b"%d" % number
    assert len(records(everything(log))) == 600


def test_a_follower_has_the_same_bytes() -> None:
    leader, follower = opened(LoneDisk()), opened(LoneDisk())
    mixed(leader)
    while follower.log_end_offset < leader.log_end_offset:
        content = leader.read(follower.log_end_offset, upper_bound=leader.log_end_offset, max_bytes=200)
        follower.append_as_follower(content, now=0)
    assert everything(follower) == everything(leader)
    assert derived(follower) == derived(leader)


def test_a_follower_appends_nothing_that_does_not_go_on_or_is_damaged() -> None:
    leader, follower = opened(LoneDisk()), opened(LoneDisk())
    append(leader, b"a")
    append(leader, b"b")
    content = everything(leader)
    with pytest.raises(BatchRefused, match="the log ends at 0"):
        follower.append_as_follower(leader.read(1, upper_bound=2, max_bytes=ALL), now=0)
    with pytest.raises(BatchRefused) as refused:
        follower.append_as_follower(content[:-1] + b"z", now=0)
    assert refused.value.error is ErrorCode.corrupt_message
    assert (follower.log_end_offset, everything(follower)) == (0, b"")


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 8))
def test_after_a_truncation_everything_is_as_if_the_rest_had_never_been(offset: int) -> None:
    log = opened(LoneDisk())
    mixed(log)
    whole = everything(log)
    log.advance_high_watermark(log.log_end_offset)
    log.truncate(offset)
    assert log.log_end_offset == {1: 0, 8: 7}.get(offset, offset)  # offset 1 is inside a batch
    assert log.high_watermark <= log.log_end_offset
    assert whole.startswith(everything(log))
    again = opened(LoneDisk())
    again.append_as_follower(everything(log), now=0)
    assert derived(log) == derived(again)
    append(log, b"goes on", epoch=9)
    assert values(everything(log))[-1] == b"goes on"


def test_truncating_at_the_end_still_forgets_an_epoch_without_records() -> None:
    log = opened(LoneDisk())
    append(log, b"a")
    log.begin_epoch(5)
    assert not log.truncate(1)
    assert log.latest_epoch == 0


def test_a_restart_brings_everything_back() -> None:
    disk = LoneDisk()
    log = opened(disk)
    mixed(log)
    again = opened(disk)
    assert derived(again) == derived(log)
    assert everything(again) == everything(log)


def test_an_epoch_is_known_by_its_records_alone() -> None:
    """Power took a truncation and what came after it, but not the checkpoint: its epoch must not vouch for the old record."""
    disk = LoneDisk()
    log = opened(disk)
    append(log, b"old", epoch=1)
    log.flush()
    log.truncate(0)
    append(log, b"new", epoch=2)
    log.begin_epoch(4)
    disk.lose_all_unsynced()
    again = opened(disk)
    assert values(everything(again)) == [b"old"]
    assert again.epochs.entries == [(1, 0)]


def test_checkpoints_are_kept_within_the_log() -> None:
    disk = LoneDisk()
    append(opened(disk), b"a", b"b", b"c")
    assert Log.open(disk, "data/t-0", LogSettings(), ALL_ON, high_watermark=2).high_watermark == 2
    assert Log.open(disk, "data/t-0", LogSettings(), ALL_ON, high_watermark=9).high_watermark == 3


@pytest.mark.parametrize("seed", range(40))
def test_after_a_loss_of_power_what_was_synced_is_there_and_the_rest_is_whole_batches(seed: int) -> None:
    disk, random = LoneDisk(seed), Random(seed)
    log = opened(disk)
    for number in range(12):
        append(log, b"%d" % number * random.randint(1, 300))
        if number == 4:
            log.flush()
    sent = everything(log)
    disk.lose_power()
    again = opened(disk)
    assert 5 <= again.log_end_offset <= 12
    assert sent.startswith(everything(again))
    append(again, b"goes on")
    assert values(everything(opened(disk)))[-1] == b"goes on"


def test_without_the_checksum_a_torn_batch_is_served() -> None:
    """Protection CHECKSUM_AFTER_TORN_WRITE: the same disk with and without."""
    disk = LoneDisk()
    append(opened(disk), b"a" * 100)
    (path,) = (path for path in disk.files if path.endswith(".log"))
    disk.files[path].seen[-50:] = bytes(50)
    assert opened(disk, Protections([Protection.CHECKSUM_AFTER_TORN_WRITE])).log_end_offset == 1
    assert opened(disk).log_end_offset == 0


def test_flush_after_so_many_records() -> None:
    disk = LoneDisk()
    log = opened(disk, log_flush_interval_messages=3)
    append(log, b"a", b"b")
    before = disk.syncs
    append(log, b"c")
    assert disk.syncs == before + 1
    append(log, b"d", b"e")
    assert disk.syncs == before + 1


def test_flush_after_so_much_time() -> None:
    disk = LoneDisk()
    log = opened(disk, log_flush_interval_ms=1_000)
    append(log, b"a", now=5 * SECOND)
    append(log, b"b", now=6 * SECOND)
    before = disk.syncs
    log.flush_if_due(6 * SECOND - 1)
    assert disk.syncs == before
    log.flush_if_due(6 * SECOND)
    log.flush_if_due(9 * SECOND)
    assert disk.syncs == before + 1


def test_without_the_sync_power_loss_takes_what_the_policy_promised() -> None:
    """Protection FSYNC_ON_PRODUCE."""
    left = {}
    for protections in (ALL_ON, Protections([Protection.FSYNC_ON_PRODUCE])):
        disk = LoneDisk()
        append(opened(disk, protections, log_flush_interval_messages=1), b"a")
        disk.lose_all_unsynced()
        left[protections] = opened(disk).log_end_offset
    assert list(left.values()) == [1, 0]


@pytest.mark.parametrize("every", [None, 1, 4])
@pytest.mark.parametrize("seed", range(10))
def test_below_its_recovery_point_a_log_survives_any_loss_of_power(seed: int, every: int | None) -> None:
    disk, random = LoneDisk(seed), Random(seed)
    log = opened(disk, log_flush_interval_messages=every)
    for number in range(random.randint(1, 20)):
        append(log, b"%d" % number, epoch=number)
        if random.random() < 0.1:
            log.flush()
        if random.random() < 0.1:
            log.truncate(random.randint(0, log.log_end_offset))
    promised = log.recovery_point
    sent = log.read(0, upper_bound=promised, max_bytes=ALL)
    assert promised > log.log_end_offset - (every or ALL)
    disk.lose_all_unsynced()
    again = opened(disk)
    assert again.read(0, upper_bound=promised, max_bytes=ALL) == sent
    assert again.recovery_point == 0, "a log knows of none but the checkpoint's"
    kept = Log.open(disk, "data/t-0", LogSettings(), ALL_ON, recovery_point=promised + 100)
    assert kept.recovery_point == kept.log_end_offset


def test_without_the_sync_the_recovery_point_stays_where_it_is() -> None:
    log = opened(LoneDisk(), Protections([Protection.FSYNC_ON_PRODUCE]), log_flush_interval_messages=1)
    append(log, b"a")
    assert (log.log_end_offset, log.recovery_point) == (1, 0)


def test_a_full_disk_is_said() -> None:
    disk = LoneDisk()
    log = opened(disk)
    disk.fill()
    with pytest.raises(OSError, match="No space"):
        append(log, b"a")


def test_beginning_anew_further_on() -> None:
    disk = LoneDisk()
    log = opened(disk)
    append(log, b"a")
    log.truncate_fully_and_start_at(100)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (100, 100, 100)
    assert append(log, b"b", epoch=3) == 100
    again = opened(disk)
    assert (again.log_start_offset, again.log_end_offset) == (100, 101)
    assert disk.list("data/t-0") == ["00000000000000000100.log", "leader-epoch-checkpoint"]


def test_the_high_watermark_never_goes_back() -> None:
    log = opened(LoneDisk())
    append(log, b"a", b"b", b"c")
    assert log.advance_high_watermark(2)
    assert not log.advance_high_watermark(1)
    assert log.advance_high_watermark(99)
    assert log.high_watermark == 3


def test_offsets_by_time() -> None:
    log = opened(LoneDisk())
    append(log, b"a", b"b", timestamps=(1_000, 4_000))  # type: ignore[arg-type]
    append(log, b"c", b"d", timestamps=(3_000, 9_000), epoch=2)  # type: ignore[arg-type]
    append(log, b"e", timestamps=(6_000,))  # type: ignore[arg-type]
    assert [timestamps.first_at(log, at, 5) for at in (0, 1_001, 4_001, 9_000)] == [
        (0, 1_000, 0),
        (1, 4_000, 0),
        (3, 9_000, 2),
        (3, 9_000, 2),
    ]
    assert timestamps.first_at(log, 9_001, 5) is None
    assert timestamps.first_at(log, 4_001, 3) is None
    assert timestamps.latest(log, 5) == (3, 9_000, 2)
    assert timestamps.latest(log, 2) == (1, 4_000, 0)


def test_a_compressed_batch_answers_with_its_first_offset() -> None:
    log = opened(LoneDisk())
    append(log, b"a")
    batch = gzipped(produced(b"b", b"c", timestamps=(2_000, 8_000)))
    log.append_as_leader(batch, leader_epoch=0, now=0)
    assert timestamps.first_at(log, 5_000, 3) == (1, 8_000, 0)


def test_checkpoints_in_kafkas_format() -> None:
    disk = LoneDisk()
    log = opened(disk)
    append(log, b"a")
    append(log, b"b", epoch=4)
    log.begin_epoch(6)
    assert disk.read("data/t-0/leader-epoch-checkpoint") == b"0\n3\n0 0\n4 1\n6 2\n"
    write_offsets(disk, "data/replication-offset-checkpoint", {("t", 1): 7, ("a-b", 0): 9})
    assert disk.read("data/replication-offset-checkpoint") == b"0\n2\na-b 0 9\nt 1 7\n"
    assert read_offsets(disk, "data/replication-offset-checkpoint") == {("t", 1): 7, ("a-b", 0): 9}
    assert read_offsets(disk, "data/missing") == {}


@pytest.mark.parametrize(
    "content", [b"", b"0\n", b"1\n0\n", b"0\n2\nt 0 1\n", b"0\n1\nt 0\n", b"0\n1\nt x 1\n", b"\xff"]
)
def test_a_bad_checkpoint_is_named(content: bytes) -> None:
    disk = LoneDisk()
    disk.replace("data/offsets", content)
    with pytest.raises(BadCheckpoint, match="data/offsets"):
        read_offsets(disk, "data/offsets")
