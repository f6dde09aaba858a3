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
