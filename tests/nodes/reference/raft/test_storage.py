from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.reference.protections import ALL_ON
from nodes.reference.raft.events import Append, Durable, ElectionState, Persist, StoreSnapshot, Truncate
from nodes.reference.raft.log import Batch, LeaderChange, MetadataLog, OffsetAndEpoch, Snapshot, Voters
from nodes.reference.raft.records import CorruptBatch, decode, encode
from nodes.reference.raft.snapshots import decode as decode_snapshot
from nodes.reference.raft.snapshots import encode as encode_snapshot
from nodes.reference.raft.storage import DIRECTORY, QUORUM_STATE, Recovered, Storage
from nodes.reference.simulation.disk import SimulatedDisk
from nodes.reference.simulation.lockstep import prompt, promptly

VOTERS = Voters((1, 2, 3))


def recover(disk: SimulatedDisk) -> Recovered:
    return Storage.recover(prompt(disk), "k", VOTERS, ALL_ON)


def keep(storage: Storage, log: MetadataLog, *effects: Durable) -> None:
    """Carries effects out on disk and in memory, and syncs."""
    for effect in effects:
        storage.carry_out(effect)
        if isinstance(effect, Append):
            log.append(effect.batch)
        elif isinstance(effect, Truncate):
            log.truncate(effect.end_offset)
        elif isinstance(effect, StoreSnapshot):
            log.begin_at(effect.snapshot)
    promptly(storage.sync())


def batch(offset: int, epoch: int, *values: bytes) -> Batch:
    return Batch(offset, epoch, 7, values or (b"value",))


def test_what_was_synced_survives_a_power_loss() -> None:
    disk = SimulatedDisk(Random(1))
    log, election, storage = recover(disk)
    assert election == ElectionState()
    keep(
        storage,
        log,
        Persist(ElectionState(2, leader_id=1)),
        Append(Batch(0, 2, 0, control=LeaderChange(1, (1,), (1,)))),
    )
    keep(storage, log, Append(batch(1, 2, b"a", b"b")), Append(Batch(3, 2, 0, control=Voters((1, 2), (2, 3)))))
    disk.lose_power()
    again = recover(disk)
    assert again.log == log
    assert again.election == ElectionState(2, leader_id=1)
    assert again.log.voters == Voters((1, 2), (2, 3))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 5), st.integers(0, 4))
def test_a_torn_write_is_cut_off_at_a_batch(seed: int, synced: int, unsynced: int) -> None:
    disk = SimulatedDisk(Random(seed))
    log, _, storage = recover(disk)
    for offset in range(synced):
        keep(storage, log, Append(batch(offset, 1, b"x" * (offset * 10))))
    for offset in range(synced, synced + unsynced):
        storage.carry_out(Append(batch(offset, 1)))
    disk.lose_power()
    again = recover(disk)
    assert synced <= again.log.end_offset <= synced + unsynced
    keep(again.storage, again.log, Append(batch(again.log.end_offset, 2, b"later")))
    assert recover(disk).log == again.log, "what is appended behind the cut is found again"


def test_truncated_batches_do_not_come_back() -> None:
    disk = SimulatedDisk(Random(1))
    log, _, storage = recover(disk)
    keep(storage, log, *(Append(batch(offset, 1)) for offset in range(6)))
    keep(storage, log, Truncate(4), Append(batch(4, 2, b"other")))
    disk.lose_power()
    again = recover(disk).log
    assert again.end == OffsetAndEpoch(5, 2)
    assert [found.values for found in again.read(4)] == [(b"other",)]


def test_the_log_goes_on_behind_a_snapshot() -> None:
    disk = SimulatedDisk(Random(1))
    log, _, storage = recover(disk)
    keep(storage, log, *(Append(batch(offset, 1)) for offset in range(6)))
    keep(storage, log, StoreSnapshot(Snapshot(OffsetAndEpoch(4, 1), Voters((1, 2)), (b"state",)), whole=False))
    keep(storage, log, Append(batch(6, 1)))
    keep(storage, log, StoreSnapshot(Snapshot(OffsetAndEpoch(6, 1), Voters((1, 2)), (b"newer",)), whole=False))
    disk.lose_power()
    again = recover(disk).log
    assert (again.start_offset, again.end_offset) == (6, 7)
    assert again.snapshot == Snapshot(OffsetAndEpoch(6, 1), Voters((1, 2)), (b"newer",))
    names = sorted(disk.files)
    assert f"{DIRECTORY}/{0:020}.log" not in names, "what the snapshot stands for is gone"
    assert len([name for name in names if name.endswith(".checkpoint")]) == 1


def test_a_snapshot_from_the_leader_replaces_the_log() -> None:
    disk = SimulatedDisk(Random(1))
    log, _, storage = recover(disk)
    keep(storage, log, *(Append(batch(offset, 1)) for offset in range(6)))
    keep(
        storage,
        log,
        StoreSnapshot(Snapshot(OffsetAndEpoch(20, 3), None, (b"state",)), whole=True),
        Append(batch(20, 3)),
    )
    disk.lose_power()
    again = recover(disk).log
    assert (again.start_offset, again.end_offset, again.last_epoch) == (20, 21, 3)


def test_a_snapshot_without_its_footer_is_refused() -> None:
    snapshot = Snapshot(OffsetAndEpoch(9, 2), VOTERS, tuple(b"%d" % number for number in range(1200)))
    content = encode_snapshot(snapshot)
    assert decode_snapshot(content, snapshot.id) == snapshot
    _, footer = decode(content, 0)
    with pytest.raises(CorruptBatch, match="footer"):
        decode_snapshot(content[:footer] * 2, snapshot.id)
    with pytest.raises(CorruptBatch):
        decode_snapshot(content[:-3], snapshot.id)


def test_a_quorum_state_that_cannot_be_read_stops_the_node() -> None:
    disk = SimulatedDisk(Random(1))
    prompt(disk).replace(QUORUM_STATE, b'{"leaderId": 1}')
    with pytest.raises(ValueError, match="quorum-state cannot be read"):
        recover(disk)


@given(st.binary(max_size=200), st.integers(0, 200), st.integers(0, 255))
def test_no_bytes_upset_the_decoder(junk: bytes, position: int, byte: int) -> None:
    with pytest.raises(CorruptBatch):
        decode(junk, 0)
    content = bytearray(encode(batch(3, 1, b"value", b"other"), "k"))
    before = decode(bytes(content), 0)
    at = 12 + position % (len(content) - 12)
    if content[at] == byte or 12 <= at < 16:  # the leader epoch is not covered
        return
    content[at] = byte
    with pytest.raises(CorruptBatch):
        assert decode(bytes(content), 0) == before
