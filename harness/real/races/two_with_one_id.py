"""KIP-631 on real processes: a second process with the id of a broker that lives."""

from __future__ import annotations

from typing import Literal

from nemesis.races.conditions import answers, isr, leader_of
from nemesis.races.race import cluster, race, topic
from nemesis.races.stage import Stage

Variant = Literal["first-dies", "second-dies"]


@race(
    "two-with-one-id",
    cluster=lambda given: cluster(given, brokers=3, topics=[topic("t", [1, 2], min_isr=1)]),
    affected="the reference cluster without `id-conflict-resolved` (first-dies) or `stale-epoch-in-heartbeat` (second-dies)",
    fixed="KIP-631, Broker ID Conflicts",
    references=("KIP-631",),
    expects=(),
    servers_may_die=True,  # who has lost its id ends
    gate=lambda given: False,
)
async def two_with_one_id(on: Stage, variant: Variant = "first-dies", records: int = 20, tries_s: float = 16.0) -> None:
    """The leader's broker id is given to a second process, and one of the two dies: does anybody lead afterwards?

    The new process wins (KIP-631): it gets an epoch of its own, the old one has lost the id, and its partitions go to others. Clients
    go on writing for as long as `tries_s`.

    Variants:
      first-dies    the old process dies. Where both were given one epoch, the new one's heartbeats speak for it, and nobody leads.
      second-dies   the new process has come to lead when it dies. Where stale epochs are accepted, the old one's heartbeats speak for it.
    """
    await on.produce("t", 0, records)
    await on.until(isr("t", 0) == {"b1", "b2"})
    writer = await on.producer("x")
    await on.kill("b3")
    await on.take_id("b3", "b1")
    await on.start("b3")
    if variant == "first-dies":
        await on.until(answers("b3"))
        await on.whether(leader_of("t", 0) == "b2", within=5)
        await on.kill("b1")
    else:
        await on.until(leader_of("t", 0) == "b2")
        await on.until(isr("t", 0) == {"b1", "b2"})
        await on.produce("t", 0, records)  # each fault until now has let writes through
        await on.kill("b2")
        await on.until(leader_of("t", 0) == "b1")
        await on.produce("t", 0, records)
        await on.start("b2")
        await on.until(isr("t", 0) == {"b1", "b2"})
        await on.kill("b3")
    for _ in range(4):
        await writer.send("t", 0, records // 4, within=tries_s / 4, need="any")
    await on.kill("b1")  # if it still goes on: afterwards there is one process for each id
