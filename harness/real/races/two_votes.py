"""KIP-595 on real processes: a voter that votes twice in one epoch."""

from __future__ import annotations

from typing import Literal

from nemesis.races.asked import quorum_leader
from nemesis.races.conditions import Condition, Eyes, Sighting, answers, held
from nemesis.races.race import cluster, race, topic
from nemesis.races.stage import Stage

Variant = Literal["restarted", "goes-on", "power-loss"]


@race(
    "two-votes",
    cluster=lambda given: cluster(
        given,
        brokers=1,
        controllers=3,
        topics=[topic("t", [1])],
        config={
            "controller.quorum.fetch.timeout.ms": "4000",  # the first leader is still one when the second is elected
            "controller.quorum.election.timeout.ms": "8000",  # who has voted waits so long before it stands itself
        },
    ),
    affected="the reference cluster without `one-vote-in-an-epoch` (goes-on), `vote-persisted` (restarted) or `fsync-on-vote` (power-loss)",
    fixed="KIP-595, Vote Request Handling",
    references=("KIP-595",),
    expects=(),
)
async def two_votes(on: Stage, variant: Variant = "restarted", records: int = 20) -> None:
    """Two controllers stand for election in one epoch, and the third votes for both.

    The active controller's answers to its standbys are late, and one of them is paused: the other stands, and has the former leader's
    vote. It leads, and nobody else hears of it. Then the one that was paused wakes up and stands in the same epoch.

    Variants:
      goes-on     the voter is asked twice
      restarted   the voter is killed between one's request and the other's
      power-loss  it loses power there, and with it what it had not synced
    """
    await on.produce("t", 0, records)
    voter, first, second = await on.controllers()
    await on.write_back(voter)
    unheard = await on.hold("Fetch", source=second, destination=voter, response=True)
    await on.until(held(unheard))
    await on.pause(second)
    await on.hold("Fetch", source=first, destination=voter, response=True)
    await on.hold("BeginQuorumEpoch", source=first)
    await on.hold("Vote", source=first, destination=second)
    await on.hold("Vote", source=second, destination=first)
    await on.hold("Fetch", source=voter, destination=first, response=True)
    await on.hold("EndQuorumEpoch", source=voter, destination=first)  # whose answer would name the winner
    await on.until(quorum_leader(first) == first)
    if variant != "goes-on":
        await (on.kill(voter) if variant == "restarted" else on.lose_power(voter))
        await on.start(voter)
        await on.until(answers(voter))
    await on.resume(second)
    if await on.whether(_claimed_by(first, second), within=10):
        await on.say(f"{first} and {second} both lead", first, second)


def _claimed_by(*controllers: str) -> Condition:
    """All of them say that they are the active controller."""

    async def look(eyes: Eyes) -> Sighting:
        claims = (await eyes.view()).claims
        said = ", ".join(f"{name} (epoch {epoch})" for name, epoch in sorted(claims.items())) or "nobody"
        return Sighting(set(controllers) <= claims.keys(), f"active by their own word: {said}")

    return Condition(text=f"{' and '.join(controllers)} say that they are active", look=look, nodes=controllers)
