"""What rules do to frames, in memory."""

from __future__ import annotations

from typing import Any

import pytest

from nemesis.wire.connection import LINGER
from nemesis.wire.message import Direction
from nemesis.wire.rule import (
    BadRule,
    Close,
    Delay,
    Drop,
    Duplicate,
    Hold,
    Match,
    Rewrite,
    Rule,
    Watch,
    as_json,
    from_json,
)
from nemesis.wire.stream import BOUND
from tests.nemesis.wire.rig import FETCH, METADATA, PRODUCE, Link, Rig, recorded, request, response

ALTER_PARTITION = 56


def test_a_held_frame_holds_what_is_behind_it_on_its_connection_and_direction_and_nothing_else() -> None:
    rig = Rig()
    rule = rig.arm(Hold(), api="Fetch")
    link, other = rig.link(), rig.link()
    link.says(request(1, METADATA) + request(2, FETCH) + request(3, METADATA))
    other.says(request(1, METADATA))
    assert link.server.written == other.server.written == request(1, METADATA)
    link.answers(response(1))
    assert link.caller.written == response(1)
    assert (rule.counts().held, rule.counts().matched) == (1, 1)
    rig.engine.release("rule", "all", "as held")
    assert link.server.written == request(1, METADATA) + request(2, FETCH) + request(3, METADATA)
    assert [row["action"] for row in rig.rows] == ["passed", "held", "passed", "passed", "passed"]
    assert (rule.counts().held, rule.counts().released) == (0, 1)
    assert all(row["out_ns"] for row in rig.rows)


def test_released_one_by_one_all_or_in_reverse() -> None:
    def held() -> tuple[Rig, list[Link]]:
        rig = Rig()
        rig.arm(Hold())
        links = [rig.link() for _ in range(3)]
        for link in links:
            link.says(request(1))
        return rig, links

    rig, links = held()
    rig.engine.release("rule", "one", "as held")
    assert [bool(link.server.written) for link in links] == [True, False, False]
    rig.engine.release("rule", "one", "reversed")
    assert [bool(link.server.written) for link in links] == [True, False, True]
    rig, links = held()
    rig.engine.release("rule", "all", "reversed")
    out = {row["connection"]: row["out_ns"] for row in rig.rows}
    assert out[3] <= out[2] <= out[1]
    assert [row["connection"] for row in rig.recorder.rows] == [3, 2, 1]


def test_what_comes_after_a_release_is_held_again() -> None:
    rig = Rig()
    rule = rig.arm(Hold())
    link = rig.link()
    link.says(request(1))
    rig.engine.release("rule", "all", "as held")
    link.says(request(2))
    assert link.server.written == request(1)
    assert rule.counts().matched == 2


def test_only_the_first_are_held() -> None:
    rig = Rig()
    rule = rig.arm(Hold(first=1), api="EndTxn")
    link, retry = rig.link(), rig.link()
    link.says(request(1, 26))
    retry.says(request(1, 26))
    assert (link.server.written, retry.server.written) == (b"", request(1, 26))
    assert [row["rule"] for row in rig.rows] == [None]
    assert rule.counts().matched == 2


def test_a_held_request_of_a_dead_caller_still_arrives_and_its_answer_is_told() -> None:
    rig = Rig()
    there, back = recorded(ALTER_PARTITION)
    rule = rig.arm(Hold(), api="AlterPartition", where="newIsr contains 2")
    link = rig.link()
    link.says(there)
    link.caller_dies()
    assert not link.server.ended
    assert not link.server.closing
    rig.engine.release("rule", "all", "as held")
    assert link.server.written == there
    rig.loop.advance(LINGER / 2)
    assert not link.server.closing
    link.answers(back)
    (told,) = [line for line in rig.said if "answered" in line]
    assert told["message"]["error"] == "NONE"
    rig.loop.advance(LINGER)
    assert link.server.closing
    assert rule.counts().released == 1
    assert [row["out_ns"] is None for row in rig.rows] == [False, True]


def test_a_caller_that_ends_while_nothing_is_held_ends_at_the_server_at_once() -> None:
    rig = Rig()
    link = rig.link()
    link.says(request(1))
    link.connection.caller_ended(None, gone=False)
    assert link.server.ended
    link.answers(response(1))
    link.connection.server_ended(None, gone=False)
    assert link.caller.written == response(1)
    assert link.caller.closing
    assert link.server.closing


def test_what_is_held_when_its_server_goes_is_lost_and_not_called_released() -> None:
    rig = Rig()
    rule = rig.arm(Hold())
    link = rig.link()
    link.says(request(1))
    link.connection.server_ended(None, gone=False)
    assert rig.engine.release("rule", "all", "as held") == 0
    assert (rule.counts().held, rule.counts().released) == (0, 0)
    assert [(row["action"], row["out_ns"]) for row in rig.rows] == [("held", None)]


def test_a_held_response_keeps_its_caller_waiting_even_when_the_server_has_gone() -> None:
    rig = Rig()
    rig.arm(Hold(), direction=Direction.RESPONSE)
    link = rig.link()
    link.says(request(1))
    link.answers(response(1))
    link.connection.server_ended(None, gone=False)
    link.connection.server_ended(None, gone=True)
    assert not link.caller.closing
    rig.engine.release("rule", "all", "as held")
    assert link.caller.written == response(1)
    assert link.caller.closing


def test_a_sender_is_no_longer_read_when_much_waits() -> None:
    rig = Rig()
    rig.arm(Hold(), nth=1)
    link = rig.link()
    frame = request(1, payload=bytes(BOUND // 4))
    for _ in range(3):
        link.says(frame)
    assert link.caller.reading
    link.says(frame)
    assert not link.caller.reading
    rig.engine.release("rule", "all", "as held")
    assert link.caller.reading
    assert link.server.written == frame * 4


def test_a_full_sink_stops_the_source() -> None:
    link = Rig().link()
    link.connection.requests.sink_full = True
    link.connection.requests.regulate()
    assert not link.caller.reading
    assert link.server.reading


def test_a_dropped_request_vanishes_and_nothing_is_answered_behind_the_gap() -> None:
    rig = Rig()
    rule = rig.arm(Drop(), api="Fetch")
    link = rig.link()
    link.says(request(1, METADATA) + request(2, FETCH) + request(3, METADATA))
    assert link.server.written == request(1, METADATA) + request(3, METADATA)
    link.answers(response(1) + response(3))
    assert link.caller.written == response(1)
    assert not link.caller.closing
    assert rule.counts().dropped == 1
    assert [(row["action"], row["out_ns"] is None) for row in rig.rows] == [
        ("passed", False),
        ("dropped", True),
        ("passed", False),
        ("passed", False),
        ("dropped", True),
    ]


def test_a_dropped_response_closes_its_connection() -> None:
    rig = Rig()
    rig.arm(Drop(), direction=Direction.RESPONSE, api="Fetch")
    link = rig.link()
    link.says(request(1))
    link.answers(response(1))
    assert (link.caller.written, link.caller.aborted, link.server.aborted) == (b"", True, True)


def test_delays_keep_order() -> None:
    rig = Rig()
    rule = rig.arm(Delay(mean_s=2.0), nth=1)
    link = rig.link()
    link.says(request(1) + request(2))
    rig.loop.advance(1.9)
    assert link.server.written == b""
    rig.loop.advance(0.2)
    assert link.server.written == request(1) + request(2)
    assert (rule.counts().delayed, [row["action"] for row in rig.rows]) == (1, ["delayed", "passed"])


def test_delays_are_drawn_from_their_seed() -> None:
    def delays(seed: int) -> list[float]:
        rule = Rig().arm(Delay(mean_s=0.1, jitter_s=0.2, seed=seed))
        return [rule.delay_s() for _ in range(50)]

    assert delays(1) == delays(1) != delays(2)
    assert min(delays(1)) == 0.0


def test_a_pipelined_stream_under_delay_is_not_serialised() -> None:
    rig = Rig()
    rig.arm(Delay(mean_s=0.5))
    link = rig.link()
    for number in range(10):
        link.says(request(number))
        rig.loop.advance(0.01)
    rig.loop.advance(0.5)
    assert link.server.written == b"".join(map(request, range(10)))


def test_a_duplicated_request_is_sent_twice_and_answered_once() -> None:
    rig = Rig()
    rig.arm(Duplicate(), nth=1)
    link = rig.link()
    link.says(request(1) + request(2))
    assert link.server.written == request(1) * 2 + request(2)
    link.answers(response(1) + response(1, b"again") + response(2))
    assert link.caller.written == response(1) + response(2)
    assert [row["action"] for row in rig.rows] == ["duplicated", "passed", "passed", "dropped", "passed"]


@pytest.mark.parametrize(("when", "arrived"), [("before", b""), ("after", request(1))])
def test_a_connection_is_closed_before_or_after_a_frame(when: Any, arrived: bytes) -> None:
    rig = Rig()
    rule = rig.arm(Close(when=when))
    link = rig.link()
    link.says(request(1))
    rig.loop.advance(0)
    assert link.server.written == arrived
    assert link.caller.closing
    assert link.server.closing
    assert rule.counts().closed == 1
    assert [(row["action"], row["out_ns"] is None) for row in rig.rows] == [("closed", when == "before")]


def test_lossy_connections_close_at_random_from_their_seed() -> None:
    def closed(seed: int) -> list[bool]:
        rig = Rig()
        rig.arm(Close(chance=0.2, seed=seed))
        links = [rig.link() for _ in range(100)]
        for link in links:
            link.says(request(1))
        return [link.caller.aborted for link in links]

    assert closed(1) == closed(1) != closed(2)
    assert 5 < sum(closed(1)) < 40


def test_an_error_is_rewritten_wherever_the_response_has_one() -> None:
    rig = Rig()
    rig.arm(Rewrite(error="NOT_CONTROLLER"), direction=Direction.RESPONSE, api="BrokerHeartbeat")
    there, back = recorded(63)
    link = rig.link()
    link.says(there)
    link.answers(back)
    assert len(link.caller.written) == len(back)
    assert link.caller.written != back
    plain = Rig()
    again = plain.link()
    again.says(there)
    again.answers(link.caller.written)
    assert [row["error"] for row in plain.rows] == [None, "NOT_CONTROLLER"]


def test_a_response_without_an_error_of_its_own_goes_on() -> None:
    rig = Rig()
    rule = rig.arm(Rewrite(error="NOT_CONTROLLER"), direction=Direction.RESPONSE)
    link = rig.link()
    link.says(request(1, 999))
    link.answers(response(1))
    assert (link.caller.written, rule.counts().rewritten, rule.counts().matched) == (response(1), 0, 1)


def test_matching_narrows_step_by_step() -> None:
    rig = Rig()
    rule = rig.arm(Watch(), source="b*", destination="c1", api="Fetch", versions=(4, 12), client_id="broker-2-*", nth=2)
    yes = {"client": "broker-2-fetcher-0"}
    for link, frame in (
        (rig.link("c1", "c1"), request(1, **yes)),
        (rig.link("b1", "b2"), request(1, **yes)),
        (rig.link(), request(1, METADATA, **yes)),
        (rig.link(), request(1, version=13, **yes)),
        (rig.link(), request(1, client="broker-1-fetcher-0")),
        (rig.link(), request(1, **yes)),
    ):
        link.says(frame)
        assert rule.counts().matched == 0
    rig.link("b2").says(request(1, **yes) + request(2, **yes))
    assert rule.counts().matched == 1


def test_fields_are_asked_for() -> None:
    there, _ = recorded(ALTER_PARTITION)
    for where, held in (("newIsr contains 2", True), ("newIsr contains 3", False), ("leaderEpoch >= 5", False)):
        rig = Rig()
        rig.arm(Hold(), where=where)
        link = rig.link()
        link.says(there)
        assert (link.server.written == b"") is held


def test_the_first_rule_decides_and_watchers_see_all() -> None:
    rig = Rig()
    watch, hold, drop, late = (
        rig.arm(act, id) for act, id in ((Watch(), "w"), (Hold(), "h"), (Drop(), "d"), (Watch(), "late"))
    )
    rig.link().says(request(1))
    assert [rule.counts().matched for rule in (watch, hold, drop, late)] == [1, 1, 0, 1]


def test_rules_hold_from_the_frame_after_they_were_armed_until_they_are_disarmed() -> None:
    rig = Rig()
    link = rig.link()
    link.says(request(1) + request(2)[:9])
    rig.arm(Hold())
    link.says(request(2)[9:] + request(3))
    assert link.server.written == request(1)
    rig.engine.disarm("rule")
    link.says(request(4))
    assert link.server.written == b"".join(map(request, (1, 2, 3, 4)))


def test_clients_are_matched_only_when_named() -> None:
    rig = Rig(with_clients=True)
    anybody = rig.arm(Watch(), id="any")
    clients = rig.arm(Watch(), id="w", source="w*")
    everybody = rig.arm(Watch(), id="all", source="*")
    rig.link("w1", "b1").says(request(1, PRODUCE))
    rig.link("b2", "b1").says(request(1))
    assert [rule.counts().matched for rule in (anybody, clients, everybody)] == [1, 1, 2]


@pytest.mark.parametrize(
    ("match", "act", "why"),
    [
        ({"api": "AlterIsr"}, Hold(), "no api 'AlterIsr'"),
        ({"api": "alterpartition"}, Hold(), "did you mean AlterPartition"),
        ({"source": "b7"}, Hold(), "source 'b7' is no node"),
        ({"destination": "w1"}, Hold(), "is no server"),
        ({"source": "w1"}, Hold(), "wire_clients"),
        ({"where": "newIsr has 2"}, Hold(), "expected one of"),
        ({"nth": 0}, Hold(), "counts from 1"),
        ({"versions": (3, 2)}, Hold(), "lowest first"),
        ({"direction": Direction.RESPONSE}, Duplicate(), "only requests"),
        ({}, Rewrite(error="NOT_CONTROLLER"), "only responses"),
        ({"direction": Direction.RESPONSE}, Rewrite(error="NO_SUCH"), "no error 'NO_SUCH'"),
        ({}, Close(chance=2), "chance is 2"),
        ({}, Delay(mean_s=-1), "not negative"),
        ({}, Hold(first=0), "first 0"),
    ],
)
def test_rules_that_cannot_work_are_refused(match: dict[str, Any], act: Any, why: str) -> None:
    with pytest.raises(BadRule, match=why):
        Rig().arm(act, **match)


def test_an_id_is_armed_once() -> None:
    rig = Rig()
    rig.arm(Hold())
    with pytest.raises(BadRule, match="armed already"):
        rig.arm(Hold())
    with pytest.raises(BadRule, match="its id"):
        rig.arm(Hold(), id="a b")


@pytest.mark.parametrize(
    "act",
    [
        Watch(),
        Hold(first=2),
        Drop(),
        Delay(mean_s=1.5, jitter_s=0.5, seed=3),
        Duplicate(),
        Close(when="after", chance=0.5),
        Rewrite(error="NONE"),
    ],
)
def test_rules_survive_json(act: Any) -> None:
    match = Match(source="b1", api="Fetch", direction=Direction.RESPONSE, versions=(1, 2), where="a = 1", nth=3)
    rule = Rule(id="r", match=match, act=act)
    assert from_json(as_json(rule)) == rule


def test_a_flood_is_counted_but_not_told_frame_by_frame() -> None:
    rig = Rig()
    rule = rig.arm(Watch())
    link = rig.link()
    for number in range(3000):
        link.says(request(number))
    told = [line for line in rig.said if "matched" in line]
    assert 1000 <= len(told) < 1100
    rig.engine.tick()
    assert rig.said[-1]["counts"]["rule"]["matched"] == 3000 == rule.counts().matched
    link.says(request(3000))
    assert len([line for line in rig.said if "matched" in line]) == len(told) + 1


def test_what_is_still_held_at_the_end_is_written_down() -> None:
    rig = Rig()
    rig.arm(Hold())
    rig.link().says(request(1) + request(2))
    rig.engine.finish()
    assert [(row["action"], row["out_ns"]) for row in rig.rows] == [("held", None), ("held", None)]
