"""Requests that lead out of their frame: refused before kio's reader makes room for what they announce."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import pytest
from kio.serial import entity_reader

from nodes.protocol.bounds import MAX_ELEMENTS, BadBounds, walked
from nodes.reference.process.codec import BadFrame, Codec
from nodes.reference.server.handlers import Api, Handlers
from nodes.reference.server.schema import request_class
from tests.nodes.reference.process.generated import body, damaged, entity, request_classes

METADATA = Api.METADATA
CLASSES = list(request_classes())
MANY_TOPICS = b"\xff\xff\xff\xff\x0f"  # 2^32 - 2 of them, as a compact length


def end_of(entity_type: Any, content: bytes, position: int) -> int:
    return walked(entity_type, content, position).end


async def nothing(caller: object, request: object) -> None:
    raise AssertionError("only decoded")


def test_every_request_ends_where_kio_ends_it() -> None:
    random = Random(1)
    for entity_type in CLASSES:
        for _ in range(5):
            content = body(entity(random, entity_type))
            assert end_of(entity_type, b"junk" + content, 4) == 4 + len(content), entity_type
            assert entity_reader(entity_type)(content, 0)[1] == len(content)


def test_a_request_that_is_cut_off_is_not_read() -> None:
    random = Random(2)
    for entity_type in CLASSES:
        content = body(entity(random, entity_type))
        for size in {0, len(content) // 2, len(content) - 1} - {len(content), -1}:
            with pytest.raises(BadBounds):
                end_of(entity_type, content[:size], 0)


def test_what_is_within_its_frame_is_for_kio_to_read_or_to_refuse() -> None:
    """Some hundred damaged requests, many of which announce gigabytes: none of them ends this process."""
    random, within = Random(3), 0
    for entity_type in CLASSES:
        for _ in range(20):
            content = damaged(random, body(entity(random, entity_type)))
            try:
                after = end_of(entity_type, content, 0)
            except BadBounds:
                continue
            within += 1
            try:
                _, size = entity_reader(entity_type)(content, 0)
            except Exception:  # noqa: BLE001 - any exception closes a connection; what would not is an abort
                continue
            assert size == after, (entity_type, content.hex())
    assert within > len(CLASSES)


@pytest.mark.parametrize(
    ("version", "content", "said"),
    [
        (12, MANY_TOPICS, "an array of 4294967294 at 5 of a frame of 5"),
        (12, b"\xff" * 10, "more than 5 bytes"),
        (1, struct.pack(">i", 0x7FFF_FFFF), "an array of 2147483647 at 4 of a frame of 4"),
        (1, struct.pack(">ih", 1, -2), "a length of -2 at 6"),
        (1, struct.pack(">ih", 1, 9) + b"eight---", "a frame of 14 bytes would have 15"),
        (12, b"\x01\0\0" + MANY_TOPICS, "4294967295 tagged fields at 8"),
        (12, b"\x01\0\0\x01\x00" + MANY_TOPICS, "would have 4294967305"),
    ],
)
def test_what_is_said_of_it(version: int, content: bytes, said: str) -> None:
    with pytest.raises(BadBounds, match=said):
        end_of(request_class(METADATA, version), content, 0)


def test_many_small_elements_take_no_room() -> None:
    def topics(count: int) -> bytes:
        return struct.pack(">i", count) + b"\0\0" * count + b"\0"

    classic: Any = request_class(METADATA, 4)
    assert end_of(classic, topics(MAX_ELEMENTS), 0) == 5 + 2 * MAX_ELEMENTS
    with pytest.raises(BadBounds, match="an array of 100001"):
        end_of(classic, topics(MAX_ELEMENTS + 1), 0)


def test_the_decoder_asks() -> None:
    """Without that this frame ends the process."""
    table = Handlers()
    table.add(METADATA, 0, 12, nothing)
    frame = struct.pack(">hhih", METADATA, 12, 1, -1) + b"\0" + MANY_TOPICS
    with pytest.raises(BadFrame, match="an array of 4294967294"):
        Codec("k").read_request(frame, table)
