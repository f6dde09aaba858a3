"""What consumers see: bounds, isolation, leader epochs, offsets by time."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.log.batch import Marker
from nodes.reference.log.epochs import UNKNOWN_END, EpochEnd
from nodes.reference.partition.requests import ClientFetch, Isolation, Timestamp, WriteMarker
from nodes.reference.protections import Protection, Protections
from nodes.reference.simulation.disk import OpenFile
from tests.nodes.reference.partition.stage import Stage, view
from tests.nodes.reference.producing import values

COMMITTED, UNCOMMITTED = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED


def three(high_watermark: int) -> Stage:
    """Three records; one follower has some of them."""
    stage = Stage(view(isr=(1, 2)))
    for value in (b"a", b"b", b"c"):
        stage.produce(value)
    stage.fetches((2, high_watermark))
    return stage


def end_transaction(stage: Stage, marker: Marker) -> None:
    request = WriteMarker(
        ticket="m",
        marker=marker,
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=0,
        deadline=1 << 60,
    )
    stage.partition.write_marker(request, stage.now)


def test_consumers_read_up_to_the_high_watermark() -> None:
    stage = three(2)
    answer = stage.partition.client_fetch(ClientFetch(offset=0))
    assert values(answer.records) == [b"a", b"b"]
    assert (answer.error, answer.high_watermark, answer.log_start_offset) == (ErrorCode.none, 2, 0)
    assert answer.aborted is None


@pytest.mark.parametrize(
    ("offset", "error"),
    [
        (2, ErrorCode.none),
        (3, ErrorCode.none),
        (4, ErrorCode.offset_out_of_range),
        (-1, ErrorCode.offset_out_of_range),
    ],
)
def test_between_high_watermark_and_end_is_nothing_yet(offset: int, error: ErrorCode) -> None:
    answer = three(2).partition.client_fetch(ClientFetch(offset=offset))
    assert (answer.error, answer.records) == (error, b"")


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (-1, ErrorCode.none),
        (3, ErrorCode.none),
        (2, ErrorCode.fenced_leader_epoch),
        (4, ErrorCode.unknown_leader_epoch),
    ],
)
def test_kip_320_leader_epochs(asked: int, error: ErrorCode) -> None:
    stage = Stage(view(epoch=3))
    assert stage.partition.client_fetch(ClientFetch(offset=0, leader_epoch=asked)).error is error
    assert stage.partition.list_offset(Timestamp.LATEST, UNCOMMITTED, asked).error is error
    assert stage.partition.end_of_epoch(asked, 3) == (
        error,
        EpochEnd(3, 0) if error is ErrorCode.none else UNKNOWN_END,
    )


def test_who_does_not_lead_serves_nobody() -> None:
    stage = Stage(view(2))
    answer = ErrorCode.not_leader_or_follower
    assert stage.partition.client_fetch(ClientFetch(offset=0)).error is answer
    assert stage.partition.list_offset(Timestamp.LATEST, UNCOMMITTED).error is answer
    assert stage.partition.end_of_epoch(0, 0) == (answer, UNKNOWN_END)
    assert stage.fetch(3, 0)[0].error is answer


def test_a_consumer_learns_that_its_log_diverged() -> None:
    """KIP-320 with Fetch 12: the records that it read last are not there any more."""
    stage = Stage(view(isr=(1,)))
    stage.produce(b"a")
    stage.metadata(view(isr=(1,), epoch=2, partition_epoch=1))
    stage.produce(b"b")
    answer = stage.partition.client_fetch(ClientFetch(offset=2, last_fetched_epoch=1))
    assert (answer.diverging, answer.records) == (EpochEnd(0, 1), b"")


def transactional(protections: Protections) -> Stage:
    """before, open, after: all committed, the transaction is open."""
    stage = Stage(view(isr=(1,)), protections=protections)
    stage.produce(b"before")
    stage.produce(b"open", producer=7, epoch=0, sequence=0, transactional=True)
    stage.produce(b"after")
    return stage


def test_read_committed_stops_at_the_last_stable_offset() -> None:
    """Protection STABLE_OFFSET."""
    for protections, seen in (
        (Protections(), [b"before"]),
        (Protections([Protection.STABLE_OFFSET]), [b"before", b"open", b"after"]),
    ):
        stage = transactional(protections)
        answer = stage.partition.client_fetch(ClientFetch(offset=0, isolation=COMMITTED))
        assert values(answer.records) == seen
        assert (answer.last_stable_offset, answer.high_watermark) == (1, 3)
        assert stage.partition.list_offset(Timestamp.LATEST, COMMITTED).offset == len(seen)
        assert len(values(stage.partition.client_fetch(ClientFetch(offset=0)).records)) == 3


def test_aborted_transactions_are_told_as_far_as_records_are() -> None:
    stage = transactional(Protections())
    end_transaction(stage, Marker.ABORT)
    answer = stage.partition.client_fetch(ClientFetch(offset=0, isolation=COMMITTED))
    assert values(answer.records) == [b"before", b"open", b"after"]
    assert answer.aborted == ((7, 1, 3),)
    few = stage.partition.client_fetch(ClientFetch(offset=0, isolation=COMMITTED, max_bytes=1))
    assert (values(few.records), few.aborted) == ([b"before"], ())


def test_kip_207_the_end_is_not_told_before_it_is_known() -> None:
    """Protection END_OFFSET_AFTER_EPOCH_START: a new leader whose high watermark lags behind its predecessor's."""
    for protections, error in (
        (Protections(), ErrorCode.offset_not_available),
        (Protections([Protection.END_OFFSET_AFTER_EPOCH_START]), ErrorCode.none),
    ):
        stage = Stage(view(isr=(1, 2)), protections=protections)
        stage.produce(b"a", timestamps=(5_000,))
        stage.metadata(view(2, isr=(1, 2), epoch=1, partition_epoch=1))
        stage.metadata(view(1, isr=(1, 2), epoch=2, partition_epoch=2))
        told = stage.partition.list_offset(Timestamp.LATEST, UNCOMMITTED)
        assert told.error is error
        assert stage.partition.list_offset(5_000, UNCOMMITTED).error is error
        assert stage.partition.list_offset(Timestamp.EARLIEST, UNCOMMITTED).offset == 0
        assert stage.partition.list_offset(Timestamp.LATEST, None).offset == 1
        stage.fetches((2, 1), epoch=2)
        assert stage.partition.list_offset(Timestamp.LATEST, UNCOMMITTED).offset == 1


def test_offsets_by_time() -> None:
    stage = Stage(view(isr=(1, 2)))
    stage.produce(b"a", b"b", timestamps=(1_000, 7_000))
    stage.produce(b"c", timestamps=(3_000,))
    stage.produce(b"d", timestamps=(9_000,))
    stage.fetches((2, 3))
    told = stage.partition.list_offset(2_000, UNCOMMITTED)
    assert (told.error, told.offset, told.timestamp, told.leader_epoch) == (ErrorCode.none, 1, 7_000, 0)
    assert stage.partition.list_offset(Timestamp.MAX, UNCOMMITTED).offset == 1
    assert stage.partition.list_offset(8_000, UNCOMMITTED).offset == -1
    assert stage.partition.list_offset(8_000, None).offset == 3


def test_a_disk_that_cannot_be_read_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = three(3)

    def broken(file: OpenFile, position: int, size: int) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(OpenFile, "read", broken)
    assert stage.partition.client_fetch(ClientFetch(offset=0)).error is ErrorCode.kafka_storage_error
    assert stage.partition.list_offset(1, UNCOMMITTED).error is ErrorCode.kafka_storage_error
    assert stage.partition.leader is not None


def test_whoever_has_a_copy_tells_where_its_own_log_ends() -> None:
    stage = Stage(view(isr=(1, 2)))
    stage.produce(b"a")
    stage.produce(b"b")
    stage.metadata(view(2, isr=(1, 2), epoch=1, partition_epoch=1))
    assert stage.partition.list_offset(Timestamp.LATEST, None).error is ErrorCode.not_leader_or_follower
    assert stage.log.high_watermark == 0
    assert stage.partition.list_own_offset(Timestamp.LATEST).offset == 2
    assert stage.partition.list_own_offset(Timestamp.EARLIEST).offset == 0
