"""Cutting streams into frames: the same whatever the chunks, and never a byte changed, whatever the bytes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemesis.wire.rule import Hold, Watch
from tests.nemesis.wire.rig import PRODUCE, RECORDED, Rig, request, response

TIMES = {"in_ns", "out_ns"}
REQUESTS = b"".join(bytes.fromhex(one["request"]) for one in RECORDED)
RESPONSES = b"".join(bytes.fromhex(one["response"]) for one in RECORDED)


def renumbered() -> tuple[bytes, bytes]:
    """The recorded exchanges as one connection: correlation ids count up, as a client's do."""
    requests = responses = b""
    for number, one in enumerate(RECORDED):
        there, back = bytes.fromhex(one["request"]), bytes.fromhex(one["response"])
        requests += there[:8] + number.to_bytes(4, "big") + there[12:]
        responses += back[:4] + number.to_bytes(4, "big") + back[8:]
    return requests, responses


def chunks(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    return [data[a:b] for a, b in pairwise(places)]


def passed(there: list[bytes], back: list[bytes], rig: Rig | None = None) -> tuple[Rig, bytes, bytes]:
    rig = rig or Rig()
    link = rig.link()
    for chunk in there:
        link.says(chunk)
    for chunk in back:
        link.answers(chunk)
    return rig, link.server.written, link.caller.written


def timeless(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


CUTS = st.lists(st.integers(0, 100_000), max_size=12)


@given(CUTS, CUTS)
def test_any_chunking_gives_the_same_frames(there: list[int], back: list[int]) -> None:
    requests, responses = renumbered()
    rig, server, caller = passed(chunks(requests, there), chunks(responses, back))
    assert (server, caller) == (requests, responses)
    whole, _, _ = passed([requests], [responses])
    assert timeless(rig.rows) == timeless(whole.rows)
    assert len(rig.rows) == 2 * len(RECORDED)
    assert all(row["out_ns"] >= row["in_ns"] for row in rig.rows)


@given(CUTS, CUTS)
def test_a_rule_that_looks_into_everything_changes_no_byte(there: list[int], back: list[int]) -> None:
    requests, responses = renumbered()
    rig = Rig()
    rig.arm(Watch())
    rig, server, caller = passed(chunks(requests, there), chunks(responses, back), rig)
    assert (server, caller) == (requests, responses)
    assert rig.rulebook.rules[0].matched == len(RECORDED)


def test_frames_of_real_releases_are_paired_named_and_decoded() -> None:
    requests, responses = renumbered()
    rig, _, _ = passed([requests], [responses])
    asked, answered = rig.rows[: len(RECORDED)], rig.rows[len(RECORDED) :]
    assert [row["answers"] for row in answered] == [row["message"] for row in asked]
    for one, ask, answer in zip(RECORDED, asked, answered, strict=True):
        assert (ask["api"], ask["version"]) == (answer["api"], answer["version"]) == (one["api"], one["version"])
        assert (ask["source"], answer["source"]) == ("b1", "c1")
        assert ask["size"] == len(bytes.fromhex(one["request"])) - 4
    by_name = {row["api_name"]: row for row in asked}
    assert '"newIsr": [1, 2]' in by_name["AlterPartition"]["fields"]
    assert by_name["Fetch"]["fields"] is None  # nobody asked
    assert {row["error"] for row in answered if row["api_name"] == "BrokerHeartbeat"} == {"NONE"}


@given(st.binary(max_size=400), CUTS)
def test_garbage_passes_untouched(data: bytes, cuts: list[int]) -> None:
    rig = Rig()
    rig.arm(Hold(), api="AlterPartition")
    link = rig.link()
    for chunk in chunks(data, cuts) if data else []:
        link.says(chunk)
    link.connection.caller_ended(None, gone=False)
    assert link.server.written == data
    assert link.server.ended
    assert len(rig.rows) <= 1 + data.count(b"\x00")


@given(st.binary(min_size=20, max_size=400), CUTS)
def test_an_answer_that_makes_no_sense_passes_untouched(data: bytes, cuts: list[int]) -> None:
    rig = Rig()
    link = rig.link()
    link.says(request(7))
    for chunk in chunks(b"\x16\x03\x01" + data, cuts):
        link.answers(chunk)
    assert link.caller.written == b"\x16\x03\x01" + data
    link.says(b"more")
    assert link.server.written == request(7) + b"more"
    assert (rig.engine.opaque, [row["api_name"] for row in rig.rows][1:]) == (1, ["opaque"])


def test_tls_is_opaque_counted_and_recorded_once() -> None:
    hello = bytes.fromhex("16030100a5010000a10303") + bytes(160)
    rig, server, caller = passed([hello, hello], [hello, hello])
    assert (server, caller) == (hello * 2, hello * 2)
    assert rig.engine.opaque == 1
    assert len(rig.rows) == 1
    assert [line["why"] for line in rig.said] == ["a frame of 369295616 bytes"]


def test_a_long_frame_goes_on_piece_by_piece_unless_somebody_looks_into_it() -> None:
    long = request(1, payload=bytes(500_000))
    rig = Rig()
    link = rig.link()
    link.says(long[:100_000])
    assert link.server.written == long[:100_000]
    assert rig.rows == []
    link.says(long[100_000:] + request(2))
    assert link.server.written == long + request(2)
    assert [row["size"] for row in rig.rows] == [len(long) - 4, len(request(2)) - 4]
    rig.arm(Watch())
    link.says(long[:100_000])
    assert link.server.written == long + request(2)
    link.says(long[100_000:])
    assert link.server.written == long + request(2) + long


def test_requests_without_a_response_are_forgotten() -> None:
    rig = Rig()
    link = rig.link()
    for number in range(5):
        link.says(request(number, api=PRODUCE))
    link.answers(response(3))
    assert rig.rows[-1]["answers"] == rig.rows[3]["message"]
    link.answers(response(4))
    assert rig.engine.opaque == 0


@pytest.mark.parametrize("client", [None, "", "broker-2-fetcher-0", "ü"])
def test_client_ids(client: str | None) -> None:
    rig = Rig()
    link = rig.link()
    for byte in request(1, client=client):
        link.says(bytes([byte]))
    assert [row["client_id"] for row in rig.rows] == [client]


def test_what_is_said_before_the_server_is_reached_waits() -> None:
    rig = Rig()
    link = rig.link(connected=False)
    link.says(request(1) + request(2)[:7])
    assert link.server.written == b""
    link.connect()
    link.says(request(2)[7:])
    assert link.server.written == request(1) + request(2)


def test_an_unreachable_server_is_a_reset_and_what_waited_is_told_as_lost() -> None:
    rig = Rig()
    link = rig.link(connected=False)
    link.says(request(1))
    link.connection.unreachable()
    assert link.caller.aborted
    assert [row["out_ns"] for row in rig.rows] == [None]
