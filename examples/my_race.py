"""A race of your own, worked through in docs/races.md. Run it:

krash race run examples/my_race.py --system kafka:4.3.1
krash race run examples/my_race.py --system kafka:4.3.1 --variant in-step
"""

from typing import Literal

from nemesis.races.asked import end_offset
from nemesis.races.conditions import isr, leader_of
from nemesis.races.expectation import Expectation
from nemesis.races.race import cluster, race, topic
from nemesis.races.stage import Stage


@race(
    "acks-one",
    cluster=lambda given: cluster(given, brokers=2, topics=[topic("t", [1, 2])]),
    gate=False,  # nothing has to be held on the wire
    acks="1",  # what its clients ask for: the checker marks a loss as expected, and still calls it a loss
    affected="every release, for producers with acks=1",
    fixed="acks=all",
    expects=[
        Expectation(outcome="valid", where={"variant": "in-step"}, because="the follower has every record"),
        Expectation(outcome="lost-write", because="acks=1 is a promise of the leader alone"),
    ],
)
async def acks_one(on: Stage, variant: Literal["cut-off", "in-step"] = "cut-off", records: int = 50) -> None:
    """With acks=1 a follower that is in the ISR may be elected without the records that were acknowledged.

    For replica.lag.time.max.ms a follower that no longer fetches stays in the ISR, so it may be elected.
    A leader that answers acks=1 has not waited for it: what it acknowledged in that time dies with it.
    """
    producer = await on.producer("q", settings={"acks": "1", "idempotence": False})
    await on.until(isr("t", 0) == {"b1", "b2"})
    if variant == "cut-off":
        await on.cut("b1", "b2")
    await producer.send("t", 0, records)
    if variant == "in-step":
        await on.until(end_offset("t", 0, on="b2") == records)
    await on.kill("b1")
    await on.until(leader_of("t", 0) == "b2")
