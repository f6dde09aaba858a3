"""KAFKA-14296: a leader in controlled shutdown that is not told that it leads no more."""

from __future__ import annotations

from typing import Literal

from nemesis.races.conditions import held, leader_of
from nemesis.races.expectation import VALID, Expectation
from nemesis.races.race import cluster, race, topic
from nemesis.races.stage import Stage

Variant = Literal["shutting-down", "still-up"]
SESSION_MS = 20_000  # it must not be fenced while its heartbeats are held


@race(
    "undemoted-leader",
    cluster=lambda given: cluster(
        given, brokers=2, topics=[topic("t", [1, 2])], config={"broker.session.timeout.ms": str(SESSION_MS)}
    ),
    affected="3.3.0 and 3.3.1",
    fixed="3.3.2",
    references=("KAFKA-14296",),
    gate=True,
    acks="1",
    expects=(
        Expectation(outcome=VALID, where={"variant": "still-up"}, because="nobody is told to go"),
        Expectation(
            outcome="lost-write", versions="< 3.3.2", because="b1 ignores new leaders once it has begun to shut down"
        ),
        Expectation(outcome=VALID, because="b1 refuses: NOT_LEADER_OR_FOLLOWER"),
    ),
    systems=("kafka:3.3.1", "kafka:3.3.2", "kafka:3.4.1", "kafka:3.9.2", "kafka:4.3.1"),
)
async def undemoted_leader(on: Stage, variant: Variant = "shutting-down", records: int = 5) -> None:
    """A leader in controlled shutdown acknowledges writes that are gone.

    b1 is told to shut down. With its next heartbeat it says so, and the controller makes b2 the leader. b1 should step
    down when it learns of that, and stay up until the controller lets it go. Where the bug is, a broker that shuts down no
    longer applies changes of leaders: for as long as it has to wait, it goes on acting as the leader and acknowledges
    what producers with acks=1 send it. When it comes back it follows b2, and all of that is cut off.

    Losing what was written with acks=1 is nothing new where a leader dies; here none does, and the shutdown is a graceful one.

    Variants:
      shutting-down   the first heartbeat that asks for it passes, later ones are held: b1 waits to be let go
      still-up        the control: the same writes without a shutdown

    What a reader sees: b2 leads, b1 answers NONE and an offset to a Produce, and those records are nowhere in the final read,
    while those that were sent before the shutdown are.
    """
    await on.produce("t", 0, records)  # stored by both; these must survive whatever comes
    w = await on.raw("r")
    if variant == "still-up":
        await w.produce("b1", "t", 0, records, acks=1)
        return
    goodbyes = await on.hold("BrokerHeartbeat", source="b1", where="wantShutDown = true")
    stopping = on.meanwhile(on.stop("b1"))
    await on.until(held(goodbyes))
    await on.release(goodbyes, "one")
    await on.until(held(goodbyes, 2))
    await on.until(leader_of("t", 0) == "b2")
    told = await w.produce("b1", "t", 0, records, acks=1)
    said = "acknowledges what the leader never sees" if told.error == "NONE" else f"refuses: {told.error}"
    await on.say(f"b1, which leads no more, {said}", "b1", "w1")
    await on.lift(goodbyes)
    await stopping
