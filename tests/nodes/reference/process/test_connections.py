"""What connections may cost together, rule by rule: in bytes, in number, in silence."""

from __future__ import annotations

import asyncio

from nodes.reference.environment import MILLISECOND
from nodes.reference.process.connections import Connected, Connections, ConnectionSettings


class Peers:
    """Connections by name, and which were ended."""

    def __init__(self, **settings: int) -> None:
        self.connections = Connections(ConnectionSettings(**settings))
        self.by_name: dict[str, Connected] = {}
        self.ended: list[tuple[str, str]] = []

    def open(self, name: str, now: int = 0) -> Connected:
        connected = self.connections.opened(lambda reason: self.ended.append((name, reason)), now)
        self.by_name[name] = connected
        return connected


def test_the_one_that_began_first_is_ended_when_all_hold_too_much() -> None:
    peers = Peers(queued_max_request_bytes=100)
    slow, quick = peers.open("slow"), peers.open("quick")
    peers.connections.hold(slow, 60)
    for _ in range(3):
        peers.connections.hold(quick, 40)
        peers.connections.done(quick, 1)
    peers.connections.hold(quick, 40)
    assert peers.ended == []
    peers.connections.hold(quick, 1)
    assert peers.ended == [("slow", "it holds 60 bytes, and all connections hold 101")]
    assert (peers.connections.held, len(peers.connections)) == (41, 1)
    peers.connections.hold(slow, 1_000)  # it has not noticed yet
    peers.connections.closed(slow)
    assert peers.connections.held == 41


def test_the_one_that_was_silent_longest_makes_room_for_a_new_one() -> None:
    peers = Peers(max_connections=2)
    first = peers.open("first")
    peers.open("second")
    peers.connections.done(first, 5)
    peers.open("third")
    assert peers.ended == [("second", "there are 2 connections")]
    assert len(peers.connections) == 2


def test_who_does_nothing_for_long_is_ended() -> None:
    peers = Peers(connections_max_idle_ms=10)
    for name in ("silent", "half a request", "busy"):
        peers.open(name)
    peers.connections.hold(peers.by_name["half a request"], 7)
    peers.connections.done(peers.by_name["busy"], 6 * MILLISECOND)
    peers.connections.sweep(9 * MILLISECOND)
    assert peers.ended == []
    peers.connections.sweep(10 * MILLISECOND)
    reason = "nothing was done for 10 ms"
    assert peers.ended == [("silent", reason), ("half a request", reason)]
    assert peers.connections.held == 0
    peers.connections.sweep(16 * MILLISECOND)
    assert len(peers.connections) == 0


def test_who_leaves_is_forgotten() -> None:
    peers = Peers()
    one = peers.open("one")
    peers.connections.hold(one, 7)
    peers.connections.closed(one)
    peers.connections.closed(one)
    peers.connections.done(one, 1)
    assert (peers.connections.held, len(peers.connections), peers.ended) == (0, 0, [])


def test_answers_wait_while_too_much_is_on_its_way_out() -> None:
    peers = Peers(queued_max_request_bytes=100)
    lazy = [peers.open(str(number)) for number in range(4)]

    async def waits() -> bool:
        waiting = asyncio.create_task(peers.connections.room())
        await asyncio.sleep(0)
        return not waiting.done() and waiting.cancel()

    for one in lazy[:3]:
        peers.connections.hold(one, 60)
    assert [name for name, _ in peers.ended] == ["0", "1"]
    assert asyncio.run(waits())  # for 120 bytes that nobody has given back
    peers.connections.gone(lazy[0])
    assert not asyncio.run(waits())
    peers.connections.gone(lazy[1])
    peers.connections.gone(lazy[1])
    peers.connections.hold(lazy[3], 90)
    assert not asyncio.run(waits())
