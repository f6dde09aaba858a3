"""A controller that was cut off deposes a healthy leader, as scripts. Facts: KIP-996, and `krash race show epoch-inflation`."""

from __future__ import annotations

from typing import Literal

from nemesis.races.asked import quorum_epoch
from nemesis.races.conditions import active_controller
from nemesis.races.expectation import VALID, Expectation
from nemesis.races.race import Given, cluster, race, topic
from nemesis.races.stage import Stage
from nodes.topology import Topology

Variant = Literal["isolated", "cut-from-leader"]


def _cluster(given: Given) -> Topology:
    return cluster(given, brokers=2, controllers=3, topics=[topic("t", [1, 2])])


@race(
    "epoch-inflation",
    cluster=_cluster,
    affected="3.3 to 3.9",
    fixed="4.0 (KIP-996, pre-vote: who could not win an election does not begin one)",
    references=("KIP-996",),
    gate=False,
    expects=(
        Expectation(
            outcome="epoch-inflation", versions="< 4.0", because="a candidate raises its epoch before it asks anybody"
        ),
        Expectation(outcome=VALID, because="KIP-996: without a majority's pre-vote there is no new epoch"),
    ),
    systems=("kafka:3.4.1", "kafka:3.9.2", "kafka:4.3.1"),
)
async def epoch_inflation(
    on: Stage, variant: Variant = "isolated", records: int = 200, elections: int = 3, patience_s: float = 12.0
) -> None:
    """A controller that nobody missed comes back and deposes a healthy leader.

    One of three controllers, a follower, cannot reach the leader. The two others have a majority and go on. The lonely one
    thinks that the leader is gone, makes itself a candidate in the next epoch, and in the next. When somebody hears of the
    higher epoch, everybody must follow it: the leader, which did nothing wrong, resigns, and until another is elected no
    topic can be created and no broker's heartbeat is answered.

    Variants, by whom the follower is cut off from:
      isolated           both others; after `elections` lost elections the cut is healed, and then the leader is deposed
      cut-from-leader    the leader only: the third hears of the higher epoch at once, although the leader is well

    patience_s: how long to wait for epochs to rise, and for the leader to be deposed. Where it is fixed neither happens.
    """
    await on.produce("t", 0, records)
    leader, lonely, third = await on.controllers()
    epoch = (await on.eyes.view()).claims.get(leader, 0)
    if variant == "isolated":
        await on.cut(lonely, [leader, third])
        await on.whether(quorum_epoch(lonely) >= epoch + elections, within=patience_s)
        await on.heal()
    else:
        await on.cut(lonely, leader)
    if await on.whether(active_controller().is_one_of(lonely, third), within=patience_s):
        await on.say(f"{leader} was deposed, although it was well", leader)
    else:
        await on.say(f"{leader} is still the active controller", leader)
    await on.heal()
    await on.produce("t", 0, records)
