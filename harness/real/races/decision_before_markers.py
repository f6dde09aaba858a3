"""KIP-98 on real processes: partitions hear of an outcome that the coordinator's log does not have."""

from __future__ import annotations

from nemesis.races.asked import high_watermark, transaction_state
from nemesis.races.books import NotReached
from nemesis.races.race import Given, cluster, race, topic
from nemesis.races.stage import Stage
from nodes.topology import Topology

ID = "krash-decides"
BATCH = 5
MARKER = 1
BROKERS = ("b1", "b2", "b3")


def _cluster(given: Given) -> Topology:
    config = {
        "transaction.state.log.replication.factor": "3",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    }
    return cluster(given, brokers=3, topics=[topic("t", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])], config=config)


@race(
    "decision-before-markers",
    cluster=_cluster,
    affected="the reference cluster without `decision-before-markers`",
    fixed="KIP-98, EndTxnRequest",
    references=("KIP-98",),
    transactional=True,
    expects=(),
)
async def decision_before_markers(on: Stage, timeout_s: float = 8.0, reaches_s: float = 4.0) -> None:
    """A commit is asked for; its coordinator, whose log nobody replicates, reaches one of two partitions and dies.

    What the next coordinator finds is an open transaction, which it aborts when its time is over.
    """
    coordinator = await on.cluster.coordinator_of(ID)
    near, far = (name for name in BROKERS if name != coordinator)
    places = {name: on.id_of(name) - 1 for name in (near, far)}
    await on.produce("t", places[near], BATCH)  # there is something to be read whatever becomes of the transaction
    raw = await on.raw("x")
    mine = await raw.begin_transaction(ID, transaction_timeout=timeout_s)
    if (error := await raw.add_partitions(mine, [("t", place) for place in places.values()])) != "NONE":
        raise NotReached("both partitions are part of the transaction", error)
    for name, place in places.items():
        if (told := await raw.produce(name, "t", place, BATCH, transaction=mine)).error != "NONE":
            raise NotReached(f"{name} takes the records", told.error)
    for name in (near, far):
        await on.hold("Fetch", source=name, destination=coordinator, response=True)
    await on.hold("WriteTxnMarkers", source=coordinator, destination=far)
    on.meanwhile(raw.end_transaction(mine, commit=True))
    if await on.whether(high_watermark("t", places[near]) == 2 * BATCH + MARKER, within=reaches_s):
        await on.say(f"{near} has heard that the transaction is committed", coordinator, near)
    await on.kill(coordinator)
    await on.until(transaction_state(ID) == "CompleteAbort", within=timeout_s + 40)
