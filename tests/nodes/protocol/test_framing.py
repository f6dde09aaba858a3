from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.api_versions.v3 import ApiVersionsRequest, ApiVersionsResponse
from kio.schema.metadata.v12 import MetadataResponse

from nodes.protocol.framing import BadFrame, RequestHead, decode_response, encode_request, request_head
from tests.nodes.protocol.servers import response, versions

REQUEST = ApiVersionsRequest(client_software_name="x", client_software_version="1")
RESPONSE = versions({3: (0, 12)})


@given(correlation=st.integers(0, 2**31 - 1), client=st.text(max_size=40))
def test_whoever_relays_a_frame_can_read_who_asks_what(correlation: int, client: str) -> None:
    frame = encode_request(REQUEST, correlation_id=correlation, client_id=client)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert request_head(frame[4:]) == RequestHead(
        api_key=18, api_version=3, correlation_id=correlation, client_id=client
    )


def test_a_header_without_client_id() -> None:
    head = request_head(bytes.fromhex("0003 000c 00000007 ffff"))
    assert head == RequestHead(api_key=3, api_version=12, correlation_id=7, client_id=None)


@pytest.mark.parametrize("raw", ["", "0003000c", "0003 000c 00000007 0009 6162"])
def test_a_cut_off_header_is_no_frame(raw: str) -> None:
    with pytest.raises(BadFrame):
        request_head(bytes.fromhex(raw))


def test_a_response_comes_back_with_its_correlation_id() -> None:
    assert decode_response(response(RESPONSE, 42)[4:], ApiVersionsResponse) == (42, RESPONSE)


def test_bytes_that_are_left_over_or_missing_are_an_error() -> None:
    frame = response(RESPONSE, 42)[4:]
    with pytest.raises(BadFrame, match="left 1 bytes unread"):
        decode_response(frame + b"\0", ApiVersionsResponse)
    with pytest.raises(BadFrame, match="not a ApiVersionsResponse v3"):
        decode_response(frame[:-3], ApiVersionsResponse)
    with pytest.raises(BadFrame):
        decode_response(b"\xff" * 64, MetadataResponse)
