"""KIP-98: sequences, duplicates, fencing, and up to where a log with transactions is stable."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.log.batch import BatchRefused, Marker
from nodes.reference.log.log import Appended, Log, LogSettings
from nodes.reference.protections import ALL_ON, Protection, Protections
from tests.nodes.reference.lone_disk import LoneDisk
from tests.nodes.reference.producing import produced


def opened(protections: Protections = ALL_ON) -> Log:
    return Log.open(LoneDisk(), "t-0", LogSettings(), protections)


def send(
    log: Log, sequence: int, *, epoch: int = 0, records: int = 1, transactional: bool = False, id: int = 7
) -> Appended:
    values = [b"x"] * records
    batch = produced(*values, producer=id, epoch=epoch, sequence=sequence, transactional=transactional)
    return log.append_as_leader(batch, leader_epoch=0, now=0)


def end(log: Log, marker: Marker, *, epoch: int = 0, coordinator: int = 0, id: int = 7) -> None:
    log.append_marker(
        marker,
        producer_id=id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator,
        leader_epoch=0,
        timestamp=0,
        now=0,
    )


def refusal(log: Log, sequence: int, *, epoch: int = 0, transactional: bool = False) -> ErrorCode:
    before = log.log_end_offset
    with pytest.raises(BatchRefused) as refused:
        send(log, sequence, epoch=epoch, transactional=transactional)
    assert log.log_end_offset == before
    return refused.value.error


def test_a_retry_is_answered_with_the_offsets_of_then() -> None:
    log = opened()
    send(log, 0, records=3)
    send(log, 3)
    assert send(log, 0, records=3) == Appended(0, 2, duplicate=True)
    assert send(log, 3) == Appended(3, 3, duplicate=True)
    assert log.log_end_offset == 4


def test_the_last_five_batches_are_known_and_older_ones_are_out_of_order() -> None:
    log = opened()
    for sequence in range(6):
        send(log, sequence)
    assert send(log, 1).duplicate
    assert refusal(log, 0) is ErrorCode.out_of_order_sequence_number


def test_a_gap_is_out_of_order() -> None:
    log = opened()
    send(log, 0, records=2)
    assert refusal(log, 3) is ErrorCode.out_of_order_sequence_number
    assert send(log, 2).base_offset == 2


def test_sequences_go_on_at_zero_after_the_last_one() -> None:
    log = opened()
    send(log, 2**31 - 2, records=2)
    assert refusal(log, 5) is ErrorCode.out_of_order_sequence_number
    assert not send(log, 0).duplicate


def test_an_unknown_producer_begins_anywhere() -> None:
    """KIP-360: its records may have been deleted."""
    assert send(opened(), 40).base_offset == 0


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one() -> None:
    log = opened()
    send(log, 0)
    assert refusal(log, 1, epoch=1) is ErrorCode.out_of_order_sequence_number
    send(log, 0, epoch=1)
    assert refusal(log, 1, epoch=0) is ErrorCode.invalid_producer_epoch


def test_without_fencing_a_zombie_writes() -> None:
    """Protection PRODUCER_EPOCH_FENCED."""
    log = opened(Protections([Protection.PRODUCER_EPOCH_FENCED]))
    send(log, 0)
    send(log, 0, epoch=1)
    assert send(log, 1, epoch=0).base_offset == 2
    assert send(log, 1, epoch=1).base_offset == 3


def test_a_marker_with_a_newer_epoch_fences() -> None:
    log = opened()
    send(log, 0, transactional=True)
    end(log, Marker.ABORT, epoch=1)
    assert refusal(log, 1, transactional=True) is ErrorCode.invalid_producer_epoch
    assert send(log, 0, epoch=1, transactional=True).base_offset == 2


def test_sequences_go_on_after_a_marker_of_the_same_epoch() -> None:
    log = opened()
    send(log, 0, transactional=True)
    end(log, Marker.COMMIT)
    assert refusal(log, 0 + 2, transactional=True) is ErrorCode.out_of_order_sequence_number
    assert send(log, 1, transactional=True).base_offset == 2
    assert send(log, 0, transactional=True).duplicate


def test_a_marker_of_an_old_epoch_or_coordinator_is_refused() -> None:
    log = opened()
    end(log, Marker.COMMIT, epoch=2, coordinator=5)
    with pytest.raises(BatchRefused) as refused:
        end(log, Marker.COMMIT, epoch=1, coordinator=5)
    assert refused.value.error is ErrorCode.invalid_producer_epoch
    with pytest.raises(BatchRefused) as refused:
        end(log, Marker.COMMIT, epoch=2, coordinator=4)
    assert refused.value.error is ErrorCode.transaction_coordinator_fenced


def test_nobody_writes_beside_an_open_transaction_of_its_own() -> None:
    log = opened()
    send(log, 0, transactional=True)
    assert refusal(log, 1) is ErrorCode.invalid_txn_state


def test_the_last_stable_offset() -> None:
    """The oldest open transaction holds it; a marker above the high watermark does so as well (KIP-98)."""
    log = opened()
    send(log, 0)
    send(log, 0, id=8, transactional=True)  # offset 1
    send(log, 0, id=9, transactional=True)
    end(log, Marker.COMMIT, id=8)  # offset 3
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 1
    log.advance_high_watermark(4)
    assert log.last_stable_offset == 2
    end(log, Marker.ABORT, id=9)
    log.advance_high_watermark(5)
    assert log.last_stable_offset == 5


def test_aborted_transactions_that_reach_into_a_range() -> None:
    log = opened()
    send(log, 0, transactional=True)
    end(log, Marker.ABORT)  # 0 to 1
    send(log, 1, transactional=True)
    end(log, Marker.COMMIT)
    send(log, 2, transactional=True)
    end(log, Marker.ABORT)  # 4 to 5
    assert log.aborted_between(0, 6) == [(7, 0, 1), (7, 4, 5)]
    assert log.aborted_between(2, 6) == [(7, 4, 5)]
    assert log.aborted_between(0, 4) == [(7, 0, 1)]


def test_a_transaction_that_wrote_nothing_here_leaves_nothing() -> None:
    log = opened()
    end(log, Marker.ABORT)
    assert log.aborted_between(0, 9) == []
    log.advance_high_watermark(1)
    assert log.last_stable_offset == 1


def test_without_fencing_a_former_coordinator_ends_a_transaction() -> None:
    log = opened(Protections([Protection.COORDINATOR_EPOCH_FENCED]))
    send(log, 0, epoch=2, transactional=True)
    end(log, Marker.COMMIT, epoch=2, coordinator=5)
    send(log, 1, epoch=2, transactional=True)
    end(log, Marker.ABORT, epoch=2, coordinator=4)
    assert log.aborted_between(0, log.log_end_offset)
    assert log.producers.get(7).coordinator_epoch == 5


def test_a_coordinator_writes_for_a_producer_without_its_sequences() -> None:
    """Kafka's AppendOrigin.COORDINATOR: TxnOffsetCommit, again and again with sequence 0. A zombie is refused all the same."""
    log = opened()
    batch = produced(b"x", producer=7, epoch=1, sequence=0, transactional=True)
    first, second = (log.append_as_leader(batch, leader_epoch=0, now=0, in_sequence=False) for _ in range(2))
    assert (first, second) == (Appended(0, 0), Appended(1, 1))
    old = produced(b"x", producer=7, epoch=0, sequence=0, transactional=True)
    with pytest.raises(BatchRefused) as refused:
        log.append_as_leader(old, leader_epoch=0, now=0, in_sequence=False)
    assert refused.value.error is ErrorCode.invalid_producer_epoch
