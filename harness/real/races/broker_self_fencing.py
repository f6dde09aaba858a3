"""KIP-631 on real processes: a leader whose lease is over goes on serving."""

from __future__ import annotations

from nemesis.races.conditions import isr, leader_of
from nemesis.races.race import cluster, race, topic
from nemesis.races.stage import Stage


@race(
    "broker-self-fencing",
    cluster=lambda given: cluster(given, brokers=2, topics=[topic("t", [1, 2])]),
    affected="the reference cluster without `broker-self-fencing`",
    fixed="KIP-631, Fencing; KIP-343, Broker-Side Heartbeat Timeout",
    references=("KIP-631", "KIP-343"),
    gate=False,
    acks="1",
    expects=(),
)
async def broker_self_fencing(on: Stage, records: int = 20) -> None:
    """No controller reaches the leader, another one is elected, and clients still reach the first.

    acks=1 is a promise of the leader alone, so nothing but its lease keeps b1 from making it when it leads no more. The lease ends before
    the controllers may elect another: who goes by it has acknowledged nothing by then that its successor lacks.
    """
    await on.produce("t", 0, records)
    await on.until(isr("t", 0) == {"b1", "b2"})
    writer = await on.raw("x")
    await on.cut("b1", "c1")
    await on.until(leader_of("t", 0) == "b2")
    told = await writer.produce("b1", "t", 0, records, acks=1)
    said = "acknowledges what the leader never sees" if told.error == "NONE" else f"refuses: {told.error}"
    await on.say(f"b1, whose lease is over, {said}", "b1", "w1")
