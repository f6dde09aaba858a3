"""KIP-595 on real processes: controllers that forget what they had committed when they lose power."""

from __future__ import annotations

from nemesis.races.conditions import isr, leader_of
from nemesis.races.race import cluster, race, topic
from nemesis.races.stage import Stage


@race(
    "fsync-on-append",
    cluster=lambda given: cluster(
        given,
        brokers=2,
        controllers=3,
        topics=[topic("t", [1, 2], min_isr=1)],
        config={
            "replica.lag.time.max.ms": "1500",
            "broker.session.timeout.ms": "9000",  # the follower's outlasts that it hears of no metadata
        },
    ),
    affected="the reference cluster without `fsync-on-append`",
    fixed="KIP-595, Log Compaction and Flush; KIP-631, Persistence and Visibility",
    references=("KIP-595", "KIP-631"),
    expects=(),
)
async def fsync_on_append(on: Stage, records: int = 20) -> None:
    """A follower leaves the ISR, its leader acknowledges records alone, and all controllers lose power; then the leader dies.

    Everything before that is on the controllers' disks: only the change of the ISR is at stake. Controllers that have not synced it
    elect the follower, which lacks those records. The follower does not hear of the change either: a broker that finds what it knows
    to be committed gone would end.
    """
    await on.produce("t", 0, records)
    await on.until(isr("t", 0) == {"b1", "b2"})
    controllers = await on.controllers()
    writer = await on.producer("x")
    # not held, for that would arrive in the end; then written back, so that what b2 knows is on their disks
    news = await on.drop("Fetch", source="b2", destination="c*", response=True)
    await on.write_back(*controllers)
    await on.cut("b1", "b2")
    await writer.send("t", 0, records)
    await on.until(isr("t", 0) == {"b1"})
    await on.kill("b1")
    await on.lose_power(*controllers)
    await on.lift(news)
    for name in controllers:
        await on.start(name)
    await on.whether(leader_of("t", 0) == "b2", within=25)
