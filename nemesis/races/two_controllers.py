"""Two active controllers at once, as scripts. Facts: KAFKA-15489, and `krash race show two-controllers`."""

from __future__ import annotations

from typing import Literal

from nemesis.races.conditions import active_controller, leader_of, resigned
from nemesis.races.expectation import VALID, Expectation
from nemesis.races.race import Given, cluster, race, topic
from nemesis.races.stage import Stage
from nodes.topology import Topology

Variant = Literal["partial-cut", "only-controllers"]


def _cluster(given: Given) -> Topology:
    return cluster(
        given,
        brokers=3,
        controllers=3,
        topics=[topic("t", [1, 2, 3], min_isr=2)],
        config={"controller.socket.timeout.ms": "3000"},  # brokers look for another controller soon
    )


@race(
    "two-controllers",
    cluster=_cluster,
    affected="3.3 to 3.6",
    fixed="3.7 (check-quorum: a leader that a majority no longer fetches from resigns)",
    references=("KAFKA-15489", "KIP-595"),
    gate=False,
    expects=(
        Expectation(
            outcome="two-active-controllers", versions="< 3.7", because="a leader without followers does not resign"
        ),
        Expectation(outcome=VALID, because="check-quorum: it resigns within 1.5 fetch timeouts"),
    ),
    systems=("kafka:3.4.1", "kafka:3.6.2", "kafka:3.9.2", "kafka:4.3.1"),
)
async def two_controllers(
    on: Stage, variant: Variant = "partial-cut", records: int = 200, overlap_s: float = 8.0
) -> None:
    """A controller that lost its quorum goes on ruling the brokers that still hear it.

    The active controller is cut off from the two others, which elect one of themselves. Nothing tells the old one: it can
    commit nothing any more, but goes on answering as the active controller until the cut is healed. Brokers that still hear
    it stay with it: what they know of the cluster is frozen, ISR changes and new topics hang there, while the others move on.

    Variants, by who else is cut off from the old controller:
      partial-cut         b2 and b3: they go over to the new controller; b1 stays, thinks that it leads, and is replaced
      only-controllers    nobody: all brokers stay with the old controller, and the new one rules over none

    overlap_s: how long the old one is watched for its resignation. What a reader sees: two controllers that both answer
    as the active one, for as long as the cut lasts. Where it is fixed the old one resigns about when the new one is elected.
    """
    await on.produce("t", 0, records)
    old, *others = await on.controllers()
    await on.cut(old, [*others, *(["b2", "b3"] if variant == "partial-cut" else [])])
    await on.until(active_controller().is_one_of(*others))
    if await on.whether(resigned(old), within=overlap_s):
        await on.say(f"{old} resigned", old)
    else:
        await on.say(f"{old} still says that it is the active controller", old)
        if variant == "partial-cut":
            await on.until(leader_of("t", 0) != "b1")
    await on.heal()
    await on.until(resigned(old))
    await on.produce("t", 0, records)
