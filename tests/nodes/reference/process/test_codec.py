from __future__ import annotations

from typing import Any

import pytest

from nodes.reference.process.codec import BadFrame, Codec
from nodes.reference.server.handlers import Api, Handlers

# librdkafka 2.16 asks for all topics: Metadata v12 with three bytes behind it
ALL_TOPICS = bytes.fromhex("0003000c00000003000772646b61666b610000000000010000")


async def nothing(caller: object, request: object) -> None:
    raise AssertionError("only decoded")


def handlers() -> Handlers:
    table = Handlers()
    table.add(Api.METADATA, 0, 12, nothing)
    return table


def test_what_librdkafka_sends_beyond_its_request_is_ignored() -> None:
    incoming = Codec("k").read_request(ALL_TOPICS, handlers())
    request: Any = incoming.request
    assert request.topics is None
    assert (incoming.client_id, incoming.correlation_id) == ("rdkafka", 3)


def test_more_than_that_is_junk() -> None:
    with pytest.raises(BadFrame, match="4 bytes too many"):
        Codec("k").read_request(ALL_TOPICS + b"\x00", handlers())


@pytest.mark.parametrize(
    "frame",
    [
        "0003000c00000003000772646b61666b6101637f" + "00" * 127 + "01000000",
        "0003000c00000003000772646b61666b61000100000263000a026162",
        "0003000c00000003000772646b61666b610002" + "00" * 16 + "026301630161000000",
    ],
    ids=["in the header", "in the request", "in one of its topics"],
)
def test_a_client_that_knows_more_tagged_fields_than_we_do_is_served(frame: str) -> None:
    """KIP-482: a Metadata request with fields of tag 99 and 10."""
    incoming = Codec("k").read_request(bytes.fromhex(frame), handlers())
    request: Any = incoming.request
    assert (incoming.correlation_id, incoming.client_id) == (3, "rdkafka")
    assert request.allow_auto_topic_creation is False
