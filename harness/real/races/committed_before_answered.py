"""KIP-631 on real processes: a controller that answers what it has not committed."""

from __future__ import annotations

from nemesis.races.conditions import held, isr, leader_of
from nemesis.races.race import cluster, race, topic
from nemesis.races.stage import Stage


@race(
    "committed-before-answered",
    cluster=lambda given: cluster(
        given,
        brokers=2,
        controllers=3,
        topics=[topic("t", [1, 2])],
        config={
            "replica.lag.time.max.ms": "1500",
            "controller.quorum.fetch.timeout.ms": "8000",
        },  # to be cut off takes a while
    ),
    affected="the reference cluster without `committed-before-answered`",
    fixed="KIP-631, Persistence and Visibility",
    references=("KIP-631",),
    expects=(),
)
async def committed_before_answered(on: Stage, records: int = 20, alone_s: float = 2.0) -> None:
    """A controller that has just lost its quorum is asked to drop a follower from the ISR, and the leader dies soon after.

    What it answers reaches the leader, and the change reaches nobody else. With that answer the leader acknowledges records alone;
    the next controller knows nothing of it, and elects the follower. Where the answer waits for the commit it never comes.
    """
    await on.produce("t", 0, records)
    await on.until(isr("t", 0) == {"b1", "b2"})
    writer = await on.producer("x")
    late = await on.hold("AlterPartition", source="b1")
    await on.cut("b1", "b2")
    await writer.send("t", 0, records, need="nothing")  # a follower that lacks nothing is in sync however silent it is
    await on.until(held(late))
    active, *others = await on.controllers()
    await on.cut(active, others)
    await on.release(late)
    await writer.flush(within=alone_s, need="any")
    await on.kill("b1")
    await on.whether(leader_of("t", 0) == "b2", within=40)
