"""Raft's Figure 8 on real processes: an entry of an older epoch that counts as committed once a majority has it."""

from __future__ import annotations

from nemesis.races.asked import quorum_epoch, quorum_leader
from nemesis.races.conditions import all_of, held, isr, leader_of
from nemesis.races.race import ONLY_VOTES, cluster, race, topic
from nemesis.races.stage import Stage


@race(
    "commit-in-own-epoch",
    cluster=lambda given: cluster(
        given,
        brokers=2,
        controllers=3,
        topics=[topic("t", [1, 2], min_isr=1)],
        config={
            "replica.lag.time.max.ms": "1500",
            "controller.quorum.fetch.timeout.ms": "3000",
            "controller.quorum.fetch.max.bytes": "1",  # a batch in each answer
            "broker.session.timeout.ms": "15000",  # longer than nobody is active
        },
        of_nodes={"c3": ONLY_VOTES},
    ),
    affected="the reference cluster without `commit-in-own-epoch`",
    fixed="KIP-595, Fetch Request Handling; Raft, 5.4.2",
    references=("KIP-595",),
    expects=(),
)
async def commit_in_own_epoch(on: Stage, records: int = 20, alone_s: float = 3.0) -> None:
    """An entry gets to a majority under a later leader, whose own entry does not, and one that lacks both leads next.

    The entry drops b2 from the ISR. The first active controller writes it while nobody fetches from it; a rival is elected, writes an
    entry of its own there, and dies. The first one leads again, in a later epoch, and the third has the old entry from it, and not the
    new one: a majority. Whoever counts that as committed tells b1, which acknowledges records alone. Then b1 and the first controller
    die, the rival comes back, and its entry of the later epoch replaces the one that was counted (Raft, Figure 8).
    """
    await on.produce("t", 0, records)
    await on.until(isr("t", 0) == {"b1", "b2"})
    writer = await on.producer("x")
    first, *others = await on.controllers()
    voter = "c3"
    (rival,) = set(others) - {voter}
    late = await on.hold("AlterPartition", source="b1")
    await on.cut("b1", "b2")
    await writer.send("t", 0, records, need="nothing")
    await on.until(held(late))
    unread = await on.hold("Fetch", source=voter, destination=rival)
    # b2 would end if what it knows to be committed were replaced
    news = await on.drop("Fetch", source="b2", destination="c*", response=True)
    apart = await on.cut(first, rival)
    alone = await on.cut(first, voter)
    await on.release(late)
    await on.until(quorum_leader(rival) == rival)
    await on.kill(rival)
    await on.lift(unread)
    answers = await on.hold("Fetch", source=voter, destination=first, response=True)
    await on.heal(alone)
    await on.until(all_of(quorum_leader(first) == first, quorum_epoch(first) >= 3))
    await on.until(held(answers))
    await on.release(answers)  # the old entry; the new one, in the next answer, is held again
    await writer.flush(within=alone_s, need="any")
    await on.kill("b1", first)
    await on.heal(apart)
    await on.start(rival)
    await on.lift(news)
    await on.whether(leader_of("t", 0) == "b2", within=45)
