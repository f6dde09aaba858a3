from __future__ import annotations

import pytest

from nodes.kafka.metadata_log import RECORDS, BadLog, Row, _data, rows

# bootstrap.checkpoint as Kafka 3.3.2 formats it: snapshot header, metadata.version at level 7, snapshot footer.
CHECKPOINT = bytes.fromhex(
    "0000000000000000000000470000000002f9841d38002000000000000001a1fca71739000001a1fca71739ffffffffffffffffffffffffffff00000001"
    "2a00000008000000031600000000000000000000000000000000000000010000004f0000000002badab748000000000000000001a1fca71759000001a1"
    "fca71759ffffffffffffffffffffffffffff000000013a000000012e010c00116d657461646174612e76657273696f6e00070000000000000000000200"
    "00003f00000000020b45c478002000000000000001a1fca7175a000001a1fca7175affffffffffffffffffffffffffff000000011a0000000800000004"
    "0600000000"
)
LEVEL = Row(
    offset=1,
    epoch=0,
    timestamp_ms=1795240171353,
    kind="feature-level",
    fields={"name": "metadata.version", "feature_level": 7},
)


def test_a_log_becomes_rows() -> None:
    assert list(rows(CHECKPOINT)) == [LEVEL]


@pytest.mark.parametrize("lost", [1, 60, 74])
def test_a_torn_last_batch_ends_the_log(lost: int) -> None:
    assert list(rows(CHECKPOINT[:-lost])) == [LEVEL]


def test_space_that_is_preallocated_ends_the_log() -> None:
    assert list(rows(CHECKPOINT + bytes(4096))) == [LEVEL]


def test_a_broken_batch_is_named_by_its_place() -> None:
    broken = bytearray(CHECKPOINT)
    broken[150] ^= 1
    with pytest.raises(BadLog, match="batch at byte 83: Checksum mismatch"):
        list(rows(bytes(broken)))


def test_fields_and_tags_that_a_later_release_added_are_passed_over() -> None:
    change = bytes.fromhex("01 05 03") + bytes.fromhex("00000004") + bytes(15) + b"\7"
    tags = (
        bytes.fromhex("03")
        + bytes.fromhex("00 05 02 00000009")
        + bytes.fromhex("01 04 00000009")
        + bytes.fromhex("3f 02 abcd")
    )
    assert _data(change + tags) == (
        "partition-change",
        {"partition_id": 4, "topic_id": "AAAAAAAAAAAAAAAAAAAABw", "isr": (9,), "leader": 9},
    )


def test_records_that_explain_nothing_are_left_out() -> None:
    assert 20 not in RECORDS
    assert _data(bytes.fromhex("01 14 00 00")) is None
