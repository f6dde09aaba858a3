"""Contracts of interception: what a node connects to is led to a port of its own, and knows where it was meant to go.

Tried with the wire gate itself, between a toy server and a toy client that speak Kafka's framing. A backend without
Capability.WIRE says so.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from nemesis.wire.driver import GateProcess
from nemesis.wire.gate import GateDied
from nemesis.wire.rule import Delay, Hold, Match, Rule, Watch
from nodes.backend import Capability
from nodes.network import Cut
from nodes.node import Command, NodeError
from nodes.topology import BROKER_PORT
from tests.nodes.contracts.stage import SOON, Stage, until

PACKAGES = str(Path(__file__).parents[3])
TOY = "tests.nemesis.wire.toy"


async def connections_go_through_the_gate(on: Stage) -> None:
    network = on.backend.network
    if Capability.WIRE not in on.backend.capabilities:
        with pytest.raises(NodeError, match="wire gate"):
            await network.intercept("w1", {"w2": [BROKER_PORT]}, port=7000, mark=7)
        with pytest.raises(NodeError, match="wire gate"):
            network.namespace("w1")
        return
    journal = on.scratch / "journal"
    journal.mkdir(parents=True)
    gate = await GateProcess.open(
        network,
        [on.w1, on.w2],
        [],
        with_clients=False,
        command=(sys.executable, "-m", "harness.gate"),
        about={"run": "contracts", "clock": on.backend.clock, "writer": 1, "journal": str(journal)},
        log=on.scratch / "gate.log",
    )
    toy = (*on.w2.python, "-m", TOY, "serve", on.w2.address, str(BROKER_PORT))
    await on.w2.start(Command(argv=toy, env={"PYTHONPATH": PACKAGES}, log="log/toy.log"))
    await until(on.w2, "serving", "log/toy.log")

    watch = await gate.arm(Rule(id="watch", match=Match(source="w1", destination="w2", api="Fetch"), act=Watch()))
    answered = await _talk(on)
    assert watch.counts.matched >= answered > 0
    assert {(seen.source, seen.destination) for seen in watch.messages} == {("w1", "w2")}

    await network.cut([Cut(id="cut-1", at="b1", sources=("b2",))])
    await network.heal()
    seen = watch.counts.matched
    await _talk(on)
    assert watch.counts.matched > seen, "healing cuts took the interception away"

    slow = await gate.arm(Rule(id="slow", match=Match(source="w1"), act=Delay(mean_s=0.2)))
    assert await _talk(on) <= 10  # one in flight for a second
    assert slow.counts.delayed > 0
    await slow.disarm()

    hold = await gate.arm(Rule(id="hold", match=Match(source="w1"), act=Hold()))
    talking = asyncio.create_task(_talk(on))
    async with asyncio.timeout(SOON):
        await hold.seen()
        await hold.release()
        assert (await hold.answered()).source == "w2"
        await hold.disarm()
    assert await talking > 0

    gate._process.kill()
    async with asyncio.timeout(SOON):
        await asyncio.wait([gate.died])
    with pytest.raises(GateDied, match="ended with code -9"):
        await gate.arm(Rule(id="late", act=Hold()))
    with pytest.raises(GateDied):
        await watch.seen(10**9)
    with pytest.raises(GateDied):
        await gate.end()


async def _talk(on: Stage) -> int:
    """Requests that were answered within a second, one at a time."""
    argv = ("env", f"PYTHONPATH={PACKAGES}", *on.w1.python, "-m", TOY, "drive", on.w2.address, str(BROKER_PORT))
    done = await on.w1.run(argv, timeout=SOON)
    assert done.code == 0, done.stderr.decode()
    return int(json.loads(done.stdout)["answers"])
