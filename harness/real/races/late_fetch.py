"""KIP-903 on real processes: a fetch that a follower sent before it lost its disk."""

from __future__ import annotations

from nemesis.races.asked import end_offset
from nemesis.races.conditions import all_of, fenced, held, isr, leader_of, unfenced
from nemesis.races.race import cluster, race, topic
from nemesis.races.stage import Stage


@race(
    "late-fetch",
    cluster=lambda given: cluster(
        given,
        brokers=3,
        topics=[topic("t", [1, 2, 3])],
        config={"replica.fetch.max.bytes": "1", "replica.lag.time.max.ms": "60000"},
    ),
    affected="the reference cluster without `broker-epoch-at-leader`",
    fixed="KIP-903, Leader",
    references=("KIP-903",),
    expects=(),
)
async def late_fetch(on: Stage, records: int = 20, more: int = 10, acknowledged_s: float = 6.0) -> None:
    """A follower's fetch is late, it has lost its disk meanwhile, and has not read so far again.

    b3 is slow, so that what is sent last is committed as soon as the leader b1 thinks that b2 has it. b2 had it, and was about to say
    so when it lost its disk. Its new life reads batch by batch and joins the ISR as soon as it has what is committed. Then the late
    fetch arrives: a leader that does not ask which life sent it, counts it for the new one. b3 gets the rest, the producers hear that
    all of it is stored, b1 dies, and b2 leads.

    Two producers send, so that there are two batches at least. kafka-14139's variant stale-fetch does not show this: there the new
    life has said nothing when the late fetch comes, and the controller refuses an ISR with an epoch of the old one.
    """
    await on.produce("t", 0, records)
    await on.until(all_of(end_offset("t", 0, on="b2") == records, end_offset("t", 0, on="b3") == records))
    slow = await on.hold("Fetch", source="b3", destination="b1")
    await on.until(held(slow))
    end = records + 2 * more
    producers = [await on.producer(name) for name in ("p1", "p2")]
    for producer in producers:
        await producer.send("t", 0, more, need="nothing")
    await on.until(end_offset("t", 0, on="b2") == end)
    late = await on.hold("Fetch", source="b2", destination="b1", where=f"fetchOffset >= {end}", first=1)
    await on.until(held(late))
    await on.kill("b2")
    await on.until(all_of(fenced("b2"), isr("t", 0).lacks("b2")))
    await on.wipe("b2")
    gate = await on.hold("Fetch", source="b2", destination="b1", where=f"fetchOffset >= {records}")
    await on.start("b2")
    await on.until(all_of(held(gate), unfenced("b2")))
    await on.release(gate)  # this one; what it asks for next is held again
    await on.until(isr("t", 0).contains("b2"))
    await on.release(late)
    await on.lift(slow)
    for producer in producers:
        await producer.flush(within=acknowledged_s, need="any")
    await on.kill("b1")
    await on.until(leader_of("t", 0) == "b2")
