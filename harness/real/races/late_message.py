"""KIP-98 on real processes: what a producer or a coordinator that was replaced has on its way."""

from __future__ import annotations

from typing import Literal

from nemesis.races.asked import transaction_state
from nemesis.races.books import NotReached
from nemesis.races.conditions import answered, elapsed, held
from nemesis.races.race import Given, cluster, race, topic
from nemesis.races.raw import RawClient, RawTransaction
from nemesis.races.stage import Stage
from nodes.topology import Topology

Variant = Literal["produce", "marker"]
ID = "krash-late"
BATCH = 5
AGAIN_S = 0.3  # a marker of the transaction before may still be on its way


def _cluster(given: Given) -> Topology:
    config = {"transaction.state.log.replication.factor": "3"}
    return cluster(given, brokers=3, topics=[topic("t", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])], config=config)


@race(
    "late-message",
    cluster=_cluster,
    affected="the reference cluster without `producer-epoch-fenced` (produce) or `coordinator-epoch-fenced` (marker)",
    fixed="KIP-98, Fencing; WriteTxnMarkerRequest",
    references=("KIP-98",),
    client_links=lambda parameters: parameters.variant == "produce",
    transactional=True,
    expects=(),
)
async def late_message(on: Stage, variant: Variant = "produce") -> None:
    """A message of who was replaced arrives in the middle of its successor's transaction.

    Variants:
      produce   a Produce is late: its producer has been replaced meanwhile, whose successor has a transaction open in that partition.
                The zombie's records share the fate of that transaction, and it is committed
      marker    a coordinator dies, and its marker is late: its successor has ended that transaction, and the producer has begun
                another. The marker commits what that one has written by then, and it is aborted
    """
    coordinator = await on.cluster.coordinator_of(ID)
    leader = "b2" if coordinator == "b1" else "b1"
    place = on.id_of(leader) - 1  # the partition that it is to lead
    raw = await on.raw("x")
    if variant == "produce":
        await _late_produce(on, raw, leader, place)
    else:
        await _late_marker(on, raw, coordinator, leader, place)


async def _late_produce(on: Stage, raw: RawClient, leader: str, place: int) -> None:
    zombie = await raw.begin_transaction(ID)
    await _writes(on, raw, zombie, leader, place)
    late = await on.hold("Produce", source="w1", first=1)
    on.meanwhile(raw.produce(leader, "t", place, BATCH, transaction=zombie, connection="slow"))
    await on.until(held(late))
    heir = await raw.begin_transaction(ID)
    await _writes(on, raw, heir, leader, place)
    await on.release(late)
    await on.until(answered(late))
    await on.say(f"{leader} answers the zombie: {late.answer.error if late.answer else None}", leader)
    await raw.end_transaction(heir, commit=True)
    await on.until(transaction_state(ID) == "CompleteCommit")


async def _late_marker(on: Stage, raw: RawClient, coordinator: str, leader: str, place: int) -> None:
    mine = await raw.begin_transaction(ID)
    await _writes(on, raw, mine, leader, place)
    late = await on.hold("WriteTxnMarkers", source=coordinator, destination=leader)
    await raw.end_transaction(mine, commit=True)
    await on.until(held(late))
    await on.kill(coordinator)
    await on.until(transaction_state(ID) == "CompleteCommit")
    mine.coordinator = await on.cluster.coordinator_of(ID)
    raw.next_transaction(mine)
    await _writes(on, raw, mine, leader, place)
    await on.release(late)
    await on.until(elapsed(1))  # nobody is there to be answered
    await raw.end_transaction(mine, commit=False)
    await on.until(transaction_state(ID) == "CompleteAbort")


async def _writes(on: Stage, raw: RawClient, mine: RawTransaction, leader: str, place: int) -> None:
    while (error := await raw.add_partitions(mine, [("t", place)])) == "CONCURRENT_TRANSACTIONS":
        await on.until(elapsed(AGAIN_S))
    if error != "NONE":
        raise NotReached(f"t-{place} is part of the transaction", error)
    told = await raw.produce(leader, "t", place, BATCH, transaction=mine)
    if told.error != "NONE":
        raise NotReached(f"{leader} takes the records", told.error)
