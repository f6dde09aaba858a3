"""Batch headers: what is parsed, stamped and refused. Batches come from kio."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from nodes.reference.log.batch import (
    HEADER_SIZE,
    BatchRefused,
    Marker,
    batches,
    check_produced,
    intact,
    marker_batch,
    parse,
    read_marker,
    stamped,
)
from tests.nodes.reference.producing import produced, records, summed, with_attributes

ROOM = 1 << 20


def refusal(content: bytes, max_size: int = ROOM) -> ErrorCode:
    with pytest.raises(BatchRefused) as refused:
        check_produced(content, parse(content, 0), max_size=max_size)
    return refused.value.error


def changed(content: bytes, position: int, form: str, value: int) -> bytes:
    """One field of the header is another, and the checksum fits again."""
    other = bytearray(content)
    struct.pack_into(form, other, position, value)
    return summed(other)


def test_the_header_is_what_kio_wrote() -> None:
    content = produced(b"a", b"b", producer=7, epoch=2, sequence=40, transactional=True, timestamps=(1_000, 5_000))
    header = parse(content, 0)
    check_produced(content, header, max_size=ROOM)
    assert (header.base_offset, header.last_offset, header.records, header.size) == (0, 1, 2, len(content))
    assert (header.producer_id, header.producer_epoch) == (7, 2)
    assert (header.base_sequence, header.last_sequence) == (40, 41)
    assert (header.base_timestamp, header.max_timestamp) == (1_000, 5_000)
    assert header.transactional
    assert not header.control


def test_sequences_wrap_to_zero() -> None:
    assert parse(produced(b"a", b"b", b"c", producer=7, epoch=0, sequence=2**31 - 2), 0).last_sequence == 0


def test_what_the_leader_assigns_is_not_covered_by_the_checksum() -> None:
    content = produced(b"a", b"b")
    stored = bytes(stamped(content, parse(content, 0), base_offset=200, leader_epoch=3))
    header = parse(stored, 0)
    assert (header.base_offset, header.leader_epoch, header.last_offset) == (200, 3, 201)
    assert intact(stored, 0, header)
    assert [(record.offset, record.value) for record in records(stored)] == [(200, b"a"), (201, b"b")]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (produced(b"a") + produced(b"b"), ErrorCode.invalid_record),
        (produced(b"a")[:-1] + b"z", ErrorCode.corrupt_message),
        (with_attributes(produced(b"a"), 5), ErrorCode.unsupported_compression_type),
        (with_attributes(produced(b"a"), 0x20), ErrorCode.invalid_record),
        (with_attributes(produced(b"a"), 0x10), ErrorCode.invalid_record),
        (changed(produced(b"a"), 57, ">i", 2), ErrorCode.invalid_record),
        (changed(produced(b"a"), 23, ">i", 4), ErrorCode.invalid_record),
        (changed(changed(produced(b"a"), 57, ">i", 0), 23, ">i", -1), ErrorCode.invalid_record),
        (produced(b"a", producer=7, epoch=0, sequence=-1), ErrorCode.invalid_record),
    ],
    ids=["two", "checksum", "codec", "control", "transactional", "count", "delta", "empty", "sequence"],
)
def test_what_a_client_may_not_append(content: bytes, error: ErrorCode) -> None:
    assert refusal(content) is error


def test_a_batch_may_be_too_large() -> None:
    assert refusal(produced(b"a" * 200), max_size=100) is ErrorCode.message_too_large


@pytest.mark.parametrize("codec", range(5))
def test_every_codec_that_kafka_knows_passes(codec: int) -> None:
    content = with_attributes(produced(b"a"), codec)
    check_produced(content, parse(content, 0), max_size=ROOM)


def test_older_formats_are_named_for_what_they_are() -> None:
    old = bytearray(produced(b"a"))
    old[16] = 1
    with pytest.raises(BatchRefused, match="format 2") as refused:
        parse(bytes(old), 0)
    assert refused.value.error is ErrorCode.unsupported_for_message_format


@given(st.binary(max_size=200))
def test_junk_is_refused_and_nothing_worse(junk: bytes) -> None:
    with pytest.raises(BatchRefused):
        parse(junk, 0)


@given(st.integers(0, 400), st.integers(0, 255))
def test_a_changed_byte_is_noticed(position: int, byte: int) -> None:
    content = bytearray(produced(b"a" * 100))
    position %= len(content)
    was, content[position] = content[position], byte
    unnoticed = position < 8 or 12 <= position < 16 or was == byte  # the two fields of the leader
    try:
        check_produced(bytes(content), parse(bytes(content), 0), max_size=ROOM)
    except BatchRefused:
        assert not unnoticed
    else:
        assert unnoticed


def test_batches_follow_each_other() -> None:
    first, second = produced(b"a"), produced(b"b", b"c")
    assert [(at, header.records) for at, header in batches(first + second)] == [(0, 1), (len(first), 2)]
    with pytest.raises(BatchRefused):
        list(batches(first + second[:-1]))


@pytest.mark.parametrize("marker", Marker)
def test_a_marker_is_what_kafka_writes(marker: Marker) -> None:
    """kio decodes the record; version, type and coordinator epoch are where KIP-98 has them."""
    content = marker_batch(marker, producer_id=7, producer_epoch=3, coordinator_epoch=5, timestamp=1_000)
    header = parse(content, 0)
    assert intact(content, 0, header)
    assert read_marker(content, 0, header) == (marker, 5)
    (record,) = records(content)
    assert record.control
    assert record.transactional
    assert (record.key, record.value) == (struct.pack(">hh", 0, marker), struct.pack(">hi", 0, 5))
    assert (record.producer_id, record.epoch) == (7, 3)


def test_a_control_batch_that_does_not_decode_is_refused() -> None:
    cut = bytearray(marker_batch(Marker.ABORT, producer_id=7, producer_epoch=3, coordinator_epoch=5, timestamp=0))
    del cut[HEADER_SIZE + 3 :]
    with pytest.raises(BatchRefused, match="control batch"):
        read_marker(bytes(cut), 0, parse(produced(b"a"), 0))
