"""The wire gate in front of real Kafka: nothing changes until a rule says so, and then exactly that."""

from __future__ import annotations

import asyncio
import json

from nemesis.wire.message import Direction
from nemesis.wire.rule import Hold, Match, Rewrite, Rule, Watch
from nodes.topology import Topic, separate
from tests.kafka.conftest import Lab

SOON = 60.0
LOG = Topic(name="log", partitions=1, replication=2, assignment={0: (1, 2)}, config={"min.insync.replicas": "1"})


async def test_an_alter_partition_is_held_and_released(lab: Lab) -> None:
    cluster = await lab.deploy(
        separate(system="kafka", version="3.4.1", controllers=1, brokers=2, topics=(LOG,)), wire=True
    )
    assert cluster.gate is not None
    await cluster.kill("b2")
    await cluster.wait(lambda view: view.partitions["log", 0].isr == (1,), deadline=SOON, what="ISR of b1 alone")
    match = Match(source="b1", destination="c1", api="AlterPartition", where="newIsr contains 2")
    stale = await cluster.gate.arm(Rule(id="stale", match=match, act=Hold()))
    heartbeats = await cluster.gate.arm(Rule(id="heartbeats", match=Match(source="b1", api=63), act=Watch()))
    await cluster.start("b2")
    async with asyncio.timeout(SOON):
        (held, *_) = await stale.seen()
        before = heartbeats.counts.matched
        await heartbeats.seen(before + 2)  # on a connection of their own
    assert (held.source, held.destination, held.out_ns, held.action) == ("b1", "c1", None, "held")
    assert json.loads(held.fields or "")["newIsr"] == [1, 2]
    assert stale.counts.held == 1
    assert (await cluster.view()).partitions["log", 0].isr == (1,)
    await stale.release()
    async with asyncio.timeout(SOON):
        answer = await stale.answered()
    assert (answer.error, answer.answers, answer.source) == ("NONE", held.message, "c1")
    await cluster.recovered(SOON)
    assert (stale.counts.held, stale.counts.released) == (0, 1)
    await stale.disarm()
    rows = {row["message"]: row for row in await lab.messages()}
    assert list(rows) == sorted(rows)
    written = rows[held.message]
    assert (written["action"], written["rule"], written["api_name"]) == ("held", "stale", "AlterPartition")
    assert written["out_ns"] > written["in_ns"]
    assert rows[answer.message]["answers"] == held.message
    assert rows[answer.message]["in_ns"] > written["out_ns"]
    assert {row["api_name"] for row in rows.values()} >= {
        "ApiVersions",
        "Fetch",
        "BrokerHeartbeat",
        "BrokerRegistration",
    }


async def test_a_response_is_rewritten(lab: Lab) -> None:
    """A broker that is told NOT_CONTROLLER asks again; the first heartbeat's answer says so although it is not true."""
    cluster = await lab.deploy(separate(system="kafka", version="4.3.1", controllers=1, brokers=1), wire=True)
    assert cluster.gate is not None
    match = Match(source="b1", direction=Direction.RESPONSE, api="BrokerHeartbeat", nth=1)
    lie = await cluster.gate.arm(Rule(id="lie", match=match, act=Rewrite(error="NOT_CONTROLLER")))
    async with asyncio.timeout(SOON):
        await lie.seen()
    assert lie.counts.rewritten == 1
    await cluster.recovered(SOON)
