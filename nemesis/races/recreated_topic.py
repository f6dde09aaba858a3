"""KAFKA-14616: a topic that is deleted and made again while one of its brokers is away."""

from __future__ import annotations

from typing import Literal

from nemesis.races.conditions import all_of, fenced, isr, leader_of, unfenced
from nemesis.races.expectation import VALID, Expectation
from nemesis.races.race import cluster, race, topic
from nemesis.races.stage import Stage

Variant = Literal["left-alone", "restarted-again"]
REPLICAS = [1, 2]
REJOINS_WITHIN = 10.0  # seconds; where the bug is fixed it takes about two


@race(
    "recreated-topic",
    cluster=lambda given: cluster(given, brokers=2, topics=[topic("t", REPLICAS)]),
    affected="KRaft up to 3.6",
    fixed="3.7.0",
    references=("KAFKA-14616",),
    gate=False,
    recovery_s=15.0,  # with REJOINS_WITHIN more than the checker's rejoin_bound
    expects=(
        Expectation(
            outcome=VALID,
            where={"variant": "restarted-again"},
            because="the second start finds the old directory as stray",
        ),
        Expectation(
            outcome="under-replicated", versions="< 3.7", because="b2 takes the old directory for the new topic's"
        ),
        Expectation(
            outcome=VALID, versions=">= 3.7", because="the old directory is renamed, and the new replica is made"
        ),
    ),
    systems=("kafka:3.4.1", "kafka:3.6.2", "kafka:3.9.2", "kafka:4.3.1"),
)
async def recreated_topic(on: Stage, variant: Variant = "left-alone", records: int = 200) -> None:
    """A broker never rejoins a topic that was re-created while it was away.

    b2 has a replica of t. While it is down, t is deleted and made again under the same name on the same brokers. When b2
    comes back, a directory with the right name but of the old topic is in its way: it does not make the new replica, logs
    an error or nothing, and never fetches. b1 is alone with every record, and nothing in the cluster tries to change that:
    the next disk that fails is data loss, and with min.insync.replicas=2 nobody can write at all.

    Variants:
      left-alone        b2 is started once, and given time
      restarted-again   b2 is started a second time, which helps; the control

    What a reader sees: b2 up and unfenced, the ISR of t-0 is b1 alone for as long as anybody looks. Where it is fixed, b2
    renames the old directory to t-0.<id>-stray and is back in the ISR within two seconds.
    """
    await on.kill("b2")
    await on.until(all_of(fenced("b2"), isr("t", 0) == {"b1"}))
    await on.delete_topic("t")
    await on.topic(topic("t", REPLICAS), whole=False)
    await on.until(all_of(leader_of("t", 0) == "b1", isr("t", 0) == {"b1"}))
    await on.produce("t", 0, records)
    await on.start("b2")
    await on.until(unfenced("b2"))
    came_back = await on.whether(isr("t", 0).contains("b2"), within=REJOINS_WITHIN)
    if variant == "restarted-again":
        await on.stop("b2")
        await on.start("b2")
        await on.until(unfenced("b2"))
        came_back = await on.whether(isr("t", 0).contains("b2"), within=REJOINS_WITHIN)
    await on.say("b2 follows the new topic" if came_back else "b2 is up, and does not follow the new topic", "b1", "b2")
