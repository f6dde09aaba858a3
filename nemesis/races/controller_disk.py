"""A controller that lost its disk forgets its vote, as scripts. Facts: KIP-853, and `krash race show controller-disk`."""

from __future__ import annotations

from typing import Literal

from nemesis.races.cells import Cell
from nemesis.races.conditions import active_controller, all_of, answers, any_of, behind, gone, log_line
from nemesis.races.expectation import VALID, Expectation
from nemesis.races.race import Given, cluster, race, topic
from nemesis.races.stage import Stage
from nodes.topology import QuorumKind, Topology

Variant = Literal["static", "leader-wiped", "dynamic-same-id", "dynamic-new-id", "nothing-wiped"]
GIVEN_UP = r"Completed transition to (CandidateState|ProspectiveState)"
ELECTED_WITHIN = 8.0  # seconds for the empty controller and the one that lags to elect one of them, if they can


def _cluster(given: Given) -> Topology:
    dynamic = given.parameters.variant.startswith("dynamic")
    return cluster(
        given,
        brokers=2,
        controllers=3,
        topics=[topic("t1", [1, 2], min_isr=2)],
        config={"broker.session.timeout.ms": "4000"},
        quorum=QuorumKind.DYNAMIC if dynamic else QuorumKind.STATIC,
    )


_VOTES = "the empty controller votes for one that missed what was committed"


@race(
    "controller-disk",
    cluster=_cluster,
    affected="every release with a static quorum (controller.quorum.voters); a dynamic one if the directory id is kept",
    fixed="3.9 with a dynamic quorum: a voter is its id and its directory id (KIP-853)",
    references=("KIP-853", "KAFKA-12460"),
    gate=False,
    servers_may_die=True,
    expects=(
        Expectation(
            outcome=VALID,
            where={"variant": "nothing-wiped"},
            because="the follower has its log and its vote, and is elected",
        ),
        Expectation(
            outcome=VALID,
            versions=">= 3.9",
            where={"variant": "dynamic-new-id"},
            because="KIP-853: the empty disk is no voter, so nobody is elected until a full one is back",
        ),
        Expectation(
            outcome=VALID,
            versions=">= 4.0",
            where={"variant": "leader-wiped"},
            because="told that it leads an epoch that it has forgotten, the empty controller dies before it votes",
        ),
        Expectation(outcome="lost-write", where={"variant": ("static", "leader-wiped")}, because=_VOTES),
        Expectation(outcome="lost-write", versions=">= 3.9", where={"variant": "dynamic-same-id"}, because=_VOTES),
    ),
    systems=("kafka:3.4.1", "kafka:3.9.2", "kafka:4.3.1"),
    samples=(Cell(system="kafka:4.3.1"), Cell(system="kafka:4.3.1", settings={"variant": "dynamic-new-id"})),
)
async def controller_disk(on: Stage, variant: Variant = "static", records: int = 200) -> None:
    """A controller with a new disk forgets its vote, and a topic that was committed vanishes with all its records.

    Three controllers. One follower is paused; the leader and the other follower commit a topic, t2, and brokers store
    records in it: a majority has it on disk. Then both die, and the follower comes back with an empty disk while the
    leader stays away. It has forgotten the log and that it ever voted, so it elects the one that was paused and has never
    heard of t2. Two of three have spoken: the topic does not exist any more. Brokers that know better are told to truncate
    below what they know as committed, and die; started again, they put the records aside as strays.

    Variants:
      static             controller.quorum.voters names voters by id only
      leader-wiped       the same, but it is the old leader that gets the empty disk, and the follower that stays away
      dynamic-same-id    voters are named by id and directory id, but the new disk was given the old directory id
      dynamic-new-id     the new disk has an id of its own: nobody is elected until the old leader is back; nothing is lost
      nothing-wiped      the control, a static quorum: the follower has its log, and is elected itself

    What a reader sees: t2 with 200 acknowledged records, an election, both brokers dead, and no t2.
    """
    await on.produce("t1", 0, records)
    leader, follower, lagging = await on.controllers()
    await on.pause(lagging)
    await on.until(behind(lagging) >= 2)  # the response to its last fetch is on its way, without t2
    await on.topic(topic("t2", [2, 1], min_isr=2))
    await on.produce("t2", 0, records)
    await on.kill(leader, follower)
    back, away = (leader, follower) if variant == "leader-wiped" else (follower, leader)
    if variant != "nothing-wiped":
        await on.wipe(back, keep_directory_id=variant == "dynamic-same-id")
    if variant == "leader-wiped":
        await _until_it_gives_the_leader_up(on, lagging)
        await on.start(back)
    else:
        await on.start(back)
        await on.resume(lagging)
    elected, dead = active_controller().is_one_of(back, lagging), all_of(gone("b1"), gone("b2"))
    match variant:
        case "nothing-wiped":
            await on.until(elected)
        case "static" | "dynamic-same-id":
            await on.until(elected)
            await on.until(dead)
        case "leader-wiped" | "dynamic-new-id":
            await on.until(any_of(answers(back), gone(back)))
            if await on.whether(elected, within=ELECTED_WITHIN):
                await on.until(dead)
    await on.start(away)
    await on.controllers()


async def _until_it_gives_the_leader_up(on: Stage, lagging: str) -> None:
    """A voter that still follows the old leader tells it so when it comes back empty, and from 3.9 on it dies of that: whether it does
    would depend on how long `lagging` was paused (its fetch timeout is 2 s).
    """
    before = await on.lines(lagging)
    await on.resume(lagging)
    await on.until(log_line(lagging, GIVEN_UP, after=before))
