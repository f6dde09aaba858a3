"""KIP-497 on real processes: a leader that counts with an ISR before the controller has agreed to it."""

from __future__ import annotations

from nemesis.races.conditions import held, isr, leader_of
from nemesis.races.race import cluster, race, topic
from nemesis.races.stage import Stage


@race(
    "isr-committed-first",
    cluster=lambda given: cluster(
        given, brokers=2, topics=[topic("t", [1, 2])], config={"replica.lag.time.max.ms": "1500"}
    ),
    affected="the reference cluster without `isr-committed-first`",
    fixed="KIP-497, Proposed Changes",
    references=("KIP-497",),
    expects=(),
)
async def isr_committed_first(on: Stage, records: int = 20, alone_s: float = 4.0) -> None:
    """The leader hears nothing of a follower, its request to drop it from the ISR is late, and the leader dies first."""
    await on.produce("t", 0, records)
    await on.until(isr("t", 0) == {"b1", "b2"})
    writer = await on.producer("x")
    late = await on.hold("AlterPartition", source="b1")
    await on.cut("b1", "b2")
    await writer.send("t", 0, records, need="nothing")  # a follower that lacks nothing is in sync however silent it is
    await on.until(held(late))
    await writer.flush(within=alone_s, need="any")
    await on.kill("b1")
    await on.until(leader_of("t", 0) == "b2")
