"""KIP-630 on real processes: a snapshot named by an offset that its content has not reached."""

from __future__ import annotations

import asyncio

from nemesis.races.asked import quorum_leader
from nemesis.races.conditions import held, isr, leader_of
from nemesis.races.race import ONLY_VOTES, cluster, race, topic
from nemesis.races.stage import Stage
from nodes.topology import Topic


@race(
    "snapshot-of-too-much",
    cluster=lambda given: cluster(
        given,
        brokers=2,
        controllers=3,
        topics=[topic("t", [1, 2], min_isr=1)],
        config={
            "replica.lag.time.max.ms": "1500",
            "controller.quorum.fetch.timeout.ms": "9000",
            "controller.quorum.request.timeout.ms": "9000",
            "krash.snapshot.records": "40",
            "krash.snapshot.records.lagging": "40",
        },
        of_nodes={"c3": ONLY_VOTES},
    ),
    affected="the reference cluster without `snapshot-has-all-committed`",
    fixed="KIP-630, Snapshot Format; KIP-631, Snapshot Implementation",
    references=("KIP-630", "KIP-631"),
    expects=(),
)
async def snapshot_of_too_much(on: Stage, records: int = 20, many: int = 300, leads_s: float = 20.0) -> None:
    """A standby has just heard of the newest committed record when it is told to take a snapshot; then it is the active controller.

    The record drops b2 from the ISR, and comes with `many` others, so that the standby knows that all of them are committed for a while
    before it has applied them. A snapshot that is named by what is committed, and holds what was applied, stands for the record without
    having it. The leader b1 acknowledges records alone, the active controller and b1 die, and the standby leads the quorum with that
    snapshot: b2 is in the ISR, for all it knows.
    """
    await on.produce("t", 0, records)
    await on.until(isr("t", 0) == {"b1", "b2"})
    writer = await on.producer("x")
    active, *standbys = await on.controllers()
    (standby,) = set(standbys) - {"c3"}
    orders = "startSnapshot = true"
    told = await on.hold("ControllerHeartbeat", source=standby, destination=active, where=orders, response=True)
    await on.topic(Topic(name="few", partitions=40, replication=1))
    await on.until(held(told))
    asked = await on.hold("Fetch", source=standby, destination=active)
    await on.until(held(asked))
    await on.topic(Topic(name="many", partitions=many, replication=1))
    await on.cut("b1", "b2")
    await writer.send("t", 0, records)
    await on.until(isr("t", 0) == {"b1"})
    news = await on.hold("Fetch", source=standby, destination=active, response=True)
    await on.release(asked, "one")
    await on.until(held(news))
    await on.until(held(told, len(told.messages) + 1))  # the newest: who waits too long for an answer asks anew
    await asyncio.gather(on.release(news), on.release(told))
    await on.lift(news)
    await on.lift(asked)
    await on.kill(active)
    await on.until(quorum_leader(standby) == standby)
    await on.kill("b1")
    await on.whether(leader_of("t", 0) == "b2", within=leads_s)
