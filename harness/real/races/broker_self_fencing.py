"""KIP-631 on real processes: a leader whose lease is over goes on serving."""

from __future__ import annotations

from nemesis.races.conditions import elapsed, isr, leader_of
from nemesis.races.race import cluster, race, topic
from nemesis.races.stage import Stage

LEASE_OVER_S = 2  # after the election: the lease is one and a half sessions of 2.5 s long


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

    acks=1 is a promise of the leader alone, so nothing but its lease keeps b1 from making it when it leads no more. A lease outlasts the
    session (KIP-343: the controllers declare a broker inactive before it fences itself), so b1 may still acknowledge for a while what is
    lost; it is asked when that is over.
    """
    await on.produce("t", 0, records)
    await on.until(isr("t", 0) == {"b1", "b2"})
    writer = await on.raw("x")
    await on.cut("b1", "c1")
    await on.until(leader_of("t", 0) == "b2")
    await on.until(elapsed(LEASE_OVER_S))
    told = await writer.produce("b1", "t", 0, records, acks=1)
    said = "acknowledges what the leader never sees" if told.error == "NONE" else f"refuses: {told.error}"
    await on.say(f"b1, whose lease is over, {said}", "b1", "w1")
