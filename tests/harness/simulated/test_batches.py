"""Batches of simulated clients against kio's reading of them, and read_committed as Kafka's consumer does it."""

from __future__ import annotations

from harness.simulated.batches import Writer, batch, readable
from nodes.protocol import logs
from nodes.reference.log.batch import Marker, marker_batch, parse, stamped

WRITER = Writer(producer_id=7, epoch=2, transactional=True)


def at(offset: int, content: bytes) -> bytes:
    """As the leader stores it."""
    return bytes(stamped(content, parse(content, 0), base_offset=offset, leader_epoch=1))


def test_a_batch_is_what_kafka_s_format_says() -> None:
    values = ["a", "log/0/3/12", "x" * 300]
    content = at(5, batch(values, WRITER, base_sequence=9, timestamp=1_000))
    read = logs.read(content)
    assert [(record.offset, record.value) for record in read] == [
        (5 + number, value.encode()) for number, value in enumerate(values)
    ]
    assert {(record.producer_id, record.epoch, record.transactional) for record in read} == {(7, 2, True)}
    assert readable(content, 6).records == [(6, values[1]), (7, values[2])]
    assert readable(content, 6).next_offset == 8


def test_aborted_records_are_left_out_up_to_their_marker_and_no_further() -> None:
    other = Writer(producer_id=8, epoch=0, transactional=True)
    content = b"".join(
        [
            at(0, batch(["aborted"], WRITER, base_sequence=0, timestamp=1)),
            at(1, batch(["of another"], other, base_sequence=0, timestamp=1)),
            at(2, marker_batch(Marker.ABORT, producer_id=7, producer_epoch=2, coordinator_epoch=0, timestamp=1)),
            at(3, batch(["later"], WRITER, base_sequence=1, timestamp=1)),
        ]
    )
    assert readable(content, 0, [(7, 0)]).records == [(1, "of another"), (3, "later")]
    assert readable(content, 0, [(7, 0)]).next_offset == 4
    assert [value for _, value in readable(content, 0).records] == ["aborted", "of another", "later"]
