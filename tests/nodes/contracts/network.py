"""Contracts of the network between nodes. TCP is tried between the clients, which have Python."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from nodes.network import Action, Cut
from nodes.node import Command, Node, NodeError
from tests.nodes.contracts.stage import QUIET, SOON, Stage, until

ECHO = """
import socket, sys, threading
server = socket.create_server((sys.argv[1], 0))
print("port", server.getsockname()[1], flush=True)
def echo(peer):
    while got := peer.recv(100):
        peer.sendall(got)
while True:
    threading.Thread(target=echo, args=(server.accept()[0],), daemon=True).start()
"""
# Connect and talk; at each line of input talk again over the same connection. Says what happened and how long it took.
TALK = """
import json, socket, sys, time
peer, host, port, patience = None, sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
def attempt():
    global peer
    began = time.monotonic()
    try:
        peer = peer or socket.create_connection((host, port), timeout=patience)
        peer.sendall(b"hello")
        happened = "talked" if peer.recv(100) else "closed"
    except OSError as error:
        happened = type(error).__name__
    print(json.dumps({"happened": happened, "seconds": time.monotonic() - began}), flush=True)
attempt()
for line in sys.stdin:
    attempt()
"""
FAST = 8.0  # seconds; a refusal takes one on no machine
REFUSED = {"ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError"}


@dataclass(frozen=True, kw_only=True)
class Attempt:
    happened: str
    seconds: float


async def echo_port(node: Node) -> str:
    """Start an echo server as the main process of a client node; its port."""
    await node.write("echo.py", ECHO.encode())
    await node.start(Command(argv=(*node.python, "echo.py", node.address), log="log/echo.log"))
    return (await until(node, "port ", "log/echo.log")).split()[1]


async def talk(node: Node, to: Node, port: str, *, patience: float = SOON) -> Attempt:
    done = await node.run((*node.python, "-c", TALK, to.address, port, str(patience)), timeout=2 * SOON)
    assert done.code == 0, done.stderr.decode()
    return Attempt(**json.loads(done.stdout))


def cut(at: Node, source: Node, id: str = "cut-1", **rest: object) -> Cut:
    return Cut(id=id, at=at.name, sources=(source.name,), **rest)  # type: ignore[arg-type]


async def nodes_reach_each_other(on: Stage) -> None:
    for source in on.nodes:
        for destination in on.nodes:
            if source is not destination:
                assert await on.backend.network.reaches(source.name, destination.name)
    assert (await talk(on.w1, on.w2, await echo_port(on.w2))).happened == "talked"
    assert len({node.address for node in on.nodes}) == len(on.nodes)
    with pytest.raises(NodeError, match="b9"):
        await on.backend.network.reaches("b1", "b9")


async def a_one_way_cut_stops_one_way(on: Stage) -> None:
    network = on.backend.network
    await network.cut([cut(on.b2, on.b1)])
    assert not await network.reaches("b1", "b2")
    assert await network.reaches("b2", "b1")
    assert await network.reaches("w1", "b2")


async def a_two_way_cut_takes_two(on: Stage) -> None:
    network = on.backend.network
    await network.cut([cut(on.b1, on.b2), cut(on.b2, on.b1)])
    assert not await network.reaches("b1", "b2")
    assert not await network.reaches("b2", "b1")
    await network.heal(["cut-1"])
    assert await network.reaches("b1", "b2")
    assert await network.reaches("b2", "b1")


async def a_dropped_connection_times_out(on: Stage) -> None:
    port = await echo_port(on.w2)
    await on.backend.network.cut([cut(on.w2, on.w1)])
    attempt = await talk(on.w1, on.w2, port, patience=QUIET)
    assert attempt.happened == "TimeoutError"
    assert attempt.seconds >= QUIET
    (counter,) = await on.backend.network.counters()
    assert counter.packets > 0  # the cut did it, not a busy machine


async def a_reset_connection_fails_fast_from_both_sides(on: Stage) -> None:
    ports = {node.name: await echo_port(node) for node in (on.w1, on.w2)}
    both = [cut(at, source, action=Action.RESET) for at, source in ((on.w1, on.w2), (on.w2, on.w1))]
    await on.backend.network.cut(both)
    for source, destination in ((on.w1, on.w2), (on.w2, on.w1)):
        attempt = await talk(source, destination, ports[destination.name], patience=FAST)
        assert attempt.happened in REFUSED
        assert not await on.backend.network.reaches(source.name, destination.name)


async def counters_say_what_was_stopped(on: Stage) -> None:
    network = on.backend.network
    await network.cut([Cut(id="cut-1", at="b1", sources=("b2", "w1")), cut(on.w2, on.w1, "cut-2")])
    before = {(each.id, each.at, each.source): each.packets for each in await network.counters()}
    assert before == {("cut-1", "b1", "b2"): 0, ("cut-1", "b1", "w1"): 0, ("cut-2", "w2", "w1"): 0}
    assert not await network.reaches("b2", "b1")
    after = {(each.id, each.at, each.source): each.packets for each in await network.counters()}
    assert after.pop(("cut-1", "b1", "b2")) > 0
    assert set(after.values()) == {0}


async def a_reset_is_counted(on: Stage) -> None:
    port = await echo_port(on.w2)
    await on.backend.network.cut([cut(on.w2, on.w1, action=Action.RESET)])
    assert (await talk(on.w1, on.w2, port)).happened in REFUSED
    (counter,) = await on.backend.network.counters()
    assert (counter.id, counter.at, counter.source) == ("cut-1", "w2", "w1")
    assert counter.packets > 0


async def heal_removes_only_what_is_named(on: Stage) -> None:
    network = on.backend.network
    await network.cut([cut(on.b2, on.b1, "one"), cut(on.b1, on.b2, "two"), cut(on.b1, on.w1, "three")])
    await network.heal(["two", "never-there"])
    assert {each.id for each in await network.counters()} == {"one", "three"}
    assert await network.reaches("b2", "b1")
    assert not await network.reaches("b1", "b2")
    await network.heal()
    assert await network.counters() == []
    assert await network.reaches("b1", "b2")
    assert await network.reaches("w1", "b1")
    await network.heal()


async def overlapping_cuts_heal_one_by_one(on: Stage) -> None:
    network = on.backend.network
    await network.cut([cut(on.b2, on.b1, "one")])
    await network.cut([cut(on.b2, on.b1, "two")])
    await network.heal(["one"])
    assert not await network.reaches("b1", "b2")
    await network.heal(["two"])
    assert await network.reaches("b1", "b2")


async def bad_cuts_change_nothing(on: Stage) -> None:
    network = on.backend.network
    await network.cut([cut(on.b1, on.b2)])
    good = cut(on.b2, on.b1, "good")
    for bad in (
        cut(on.b1, on.w1),  # its id is active there
        cut(on.b2, on.w1, "good"),  # twice in one call
        Cut(id="unknown", at="b9", sources=("b1",)),
        Cut(id="unknown", at="b1", sources=("b9",)),
        Cut(id="nobody", at="b1", sources=()),
        cut(on.b1, on.b1, "self"),
        cut(on.b1, on.b2, 'quo"te'),
        cut(on.b1, on.b2, "line\nbreak"),
        cut(on.b1, on.b2, "x" * 41),
    ):
        with pytest.raises(NodeError):
            await network.cut([good, bad])
        assert [each.id for each in await network.counters()] == ["cut-1"]
    await network.cut([good])


async def an_id_can_be_used_again_after_healing(on: Stage) -> None:
    for _ in range(2):
        await on.backend.network.cut([cut(on.b2, on.b1)])
        assert not await on.backend.network.reaches("b1", "b2")
        await on.backend.network.heal(["cut-1"])


async def half_open_stops_old_connections_and_lets_new_ones_in(on: Stage) -> None:
    port = await echo_port(on.w2)
    await on.w1.write("talk.py", TALK.encode())
    await on.w1.run(("mkfifo", "again"), timeout=SOON)
    hold = f"exec {' '.join(on.w1.python)} talk.py {on.w2.address} {port} {QUIET} < again"
    await on.w1.start(Command(argv=("sh", "-c", f"sleep 1000 > again & {hold}"), log="log/old.log"))
    assert "talked" in await until(on.w1, "{", "log/old.log")
    await on.backend.network.cut([cut(on.w2, on.w1, established_only=True)])
    assert (await talk(on.w1, on.w2, port)).happened == "talked"
    await on.w1.run(("sh", "-c", "echo > again"), timeout=SOON)
    assert "TimeoutError" in await until(on.w1, "{", "log/old.log", nth=2)
    assert [each.packets > 0 for each in await on.backend.network.counters()] == [True]


async def half_open_can_reset(on: Stage) -> None:
    port = await echo_port(on.w2)
    await on.w1.write("talk.py", TALK.encode())
    await on.w1.run(("mkfifo", "again"), timeout=SOON)
    hold = f"exec {' '.join(on.w1.python)} talk.py {on.w2.address} {port} {SOON} < again"
    await on.w1.start(Command(argv=("sh", "-c", f"sleep 1000 > again & {hold}"), log="log/reset.log"))
    assert "talked" in await until(on.w1, "{", "log/reset.log")
    await on.backend.network.cut([cut(on.w2, on.w1, established_only=True, action=Action.RESET)])
    await on.w1.run(("sh", "-c", "echo > again"), timeout=SOON)
    assert "ConnectionResetError" in await until(on.w1, "{", "log/reset.log", nth=2)
    assert (await talk(on.w1, on.w2, port)).happened == "talked"
