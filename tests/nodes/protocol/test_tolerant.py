"""Tagged fields that nobody here knows are skipped, wherever they are (KIP-482)."""

from __future__ import annotations

import io
from random import Random
from typing import Any

import pytest
from kio.schema.metadata.v12 import MetadataResponse
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32

from nodes.protocol.framing import decode_response
from nodes.protocol.tolerant import read_entity
from nodes.reference.server.schema import response_class
from tests.nodes.reference.process.generated import body, entity, newer, request_classes

FLEXIBLE = [known for known in request_classes() if known.__flexible__]
MESSAGES = [*FLEXIBLE, *(response_class(request) for request in FLEXIBLE)]
HEADERS: list[Any] = [
    RequestHeader(request_api_key=i16(3), request_api_version=i16(12), correlation_id=i32(1), client_id="me"),
    RequestHeader(request_api_key=i16(3), request_api_version=i16(12), correlation_id=i32(1), client_id=None),
    ResponseHeader(correlation_id=i32(1)),
]


def test_every_message_of_newer_software_is_read_as_if_it_were_ours() -> None:
    random, unknown = Random(1), 0
    for message in MESSAGES:
        for _ in range(3):
            sent = entity(random, message)
            with newer(random):
                content = body(sent)
            unknown += content != body(sent)
            read, end = read_entity(message, b"junk" + content + b"more", 4)
            assert (body(read), end) == (body(sent), 4 + len(content)), message
    assert unknown > 2 * len(MESSAGES)


def test_kio_alone_would_not_read_them() -> None:
    """What `read_entity` is for; when this fails, it can go."""
    header = ResponseHeader(correlation_id=i32(1))
    with pytest.raises(KeyError, match="Unknown tagged field tag: 99"):
        entity_reader(ResponseHeader)(written(header)[:-1] + b"\x01\x63\x02ab", 0)


@pytest.mark.parametrize("header", HEADERS)
def test_headers_have_tagged_fields_too(header: Any) -> None:
    content = written(header)
    assert read_entity(type(header), content[:-1] + b"\x01\x63\x02ab", 0) == (header, len(content) + 4)


def test_a_response_of_newer_software() -> None:
    random = Random(2)
    response = entity(random, MetadataResponse)
    with newer(random):
        content = written(ResponseHeader(correlation_id=i32(7))) + body(response)
    correlation_id, read = decode_response(content, MetadataResponse)
    assert (correlation_id, body(read)) == (7, body(response))


def written(header: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(header))(buffer, header)
    return buffer.getvalue()
