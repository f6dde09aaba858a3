"""KIP-497 on real processes: what the leader counts as its ISR while a change is on its way."""

from __future__ import annotations

from nemesis.races.conditions import all_of, fenced, held, isr, leader_of
from nemesis.races.race import cluster, race, topic
from nemesis.races.stage import Stage


@race(
    "maximal-isr",
    cluster=lambda given: cluster(
        given,
        brokers=2,
        topics=[topic("t", [1, 2])],
        config={"broker.session.timeout.ms": "9000"},  # heartbeats are answered behind what is held
    ),
    affected="the reference cluster without `maximal-isr`",
    fixed="KIP-497, Proposed Changes",
    references=("KIP-497",),
    expects=(),
)
async def maximal_isr(on: Stage, records: int = 20, alone_s: float = 4.0) -> None:
    """The controller adds a follower to the ISR, which the leader does not hear; then the two are cut off from each other.

    The leader b1 asks for b2 in the ISR. The controller agrees, and neither its answer nor its metadata reach b1. From that moment on
    b2 may be elected. A leader that waits only for the ISR that it knows to be committed acknowledges what b2 never gets.
    """
    await on.kill("b2")
    await on.until(all_of(fenced("b2"), isr("t", 0) == {"b1"}))
    await on.produce("t", 0, records)
    asked = await on.hold("AlterPartition", source="b1", where="newIsr contains 2")
    await on.start("b2")
    await on.until(held(asked))
    unheard = await on.hold("AlterPartition", source="b1", response=True)
    await on.hold("Fetch", source="b1", destination="c1", response=True)
    await on.release(asked)
    await on.until(held(unheard))  # it is committed; b1, who is believed about its ISR, says otherwise
    await on.cut("b1", "b2")
    await on.produce("t", 0, records, within=alone_s, need="any")
    await on.kill("b1")
    await on.until(leader_of("t", 0) == "b2")
