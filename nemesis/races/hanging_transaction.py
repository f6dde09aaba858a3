"""KAFKA-14402, as scripts. Facts: the bug report, KIP-890, and `krash race show hanging-transaction`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from nemesis.races.actors import Producer
from nemesis.races.asked import end_offset, stable_offset, transaction_state
from nemesis.races.books import NotReached
from nemesis.races.cells import Cell
from nemesis.races.conditions import answered, elapsed, held, log_line
from nemesis.races.expectation import VALID, Expectation
from nemesis.races.hold import Hold
from nemesis.races.race import Given, cluster, race, topic
from nemesis.races.raw import RawClient, RawTransaction
from nemesis.races.stage import Stage
from nodes.topology import Topology

Variant = Literal["hang", "aborted-read", "after-add", "librdkafka", "no-gate", "nothing-held"]
ID = "krash-hang"
BATCH = 5
MARKER = 1
LANDS_WITHIN = 15.0  # seconds for the kernel to send again what was never acknowledged
ASKS_AGAIN = 1.0  # seconds, amply, after which librdkafka has asked once more who coordinates
REQUESTS = "kafka.request.logger"
ARRIVED = r'"clientId":"w1\.x","requestApiKeyName":"PRODUCE"'  # in a line of it, whatever the answer was
VERIFICATION = "transaction.partition.verification.enable"


def _cluster(given: Given) -> Topology:
    config = {} if given.parameters.verification else {VERIFICATION: "false"}
    if given.parameters.variant == "no-gate":  # who coordinates is known later, and the topic is to be led by the other
        return replace(cluster(given, brokers=2, config=config), debug=(REQUESTS,))
    return cluster(given, brokers=1, topics=[topic("t", [1])], config=config)


def _needs_gate(parameters: Any) -> bool:
    return parameters.variant not in ("no-gate", "nothing-held")


def _late(outcome: str, because: str, **more: Any) -> tuple[Expectation, ...]:
    """What a late batch that was taken does: to whoever stops after the abort, and to whoever goes on."""
    where = more.pop("where", {})
    return (
        Expectation(outcome="hanging-transaction", where={"variant": "hang", **where}, because=because, **more),
        Expectation(outcome=outcome, where=where, because=because, **more),
    )


@race(
    "hanging-transaction",
    cluster=_cluster,
    affected="up to 3.5; later releases with transaction.partition.verification.enable=false; and every release, for "
    "clients before transaction.version 2, in one order of events",
    fixed="3.6 (KIP-890 part 1); altogether by transaction.version 2 (part 2, 4.0)",
    references=("KAFKA-14402", "KIP-890"),
    gate=_needs_gate,
    client_links=_needs_gate,
    transactional=True,
    quotes=("Initialized transactionalId", "[Vv]erif", "INVALID_TXN_STATE|InvalidTxnState"),
    expects=(
        Expectation(outcome=VALID, where={"variant": "nothing-held"}, because="nothing was late"),
        Expectation(
            outcome="aborted-read",
            where={"variant": "after-add"},
            because="the batch is late for one transaction and in time for the next, of the same producer and epoch",
        ),
        *_late(
            "aborted-read",
            "a leader takes a batch of a transaction without asking whether there is one",
            versions="< 3.6",
        ),
        *_late("aborted-read", "the leader was told not to ask", where={"verification": False}),
        Expectation(
            outcome=VALID, because="the leader asks the coordinator, and refuses the batch (INVALID_TXN_STATE)"
        ),
    ),
    systems=("kafka:3.4.1", "kafka:3.9.2", "kafka:4.3.1"),
    also=tuple(
        Cell(system=system, settings={"verification": False, "variant": variant})
        for system in ("kafka:3.9.2", "kafka:4.3.1")
        for variant in ("hang", "aborted-read", "librdkafka")
    ),
)
async def hanging_transaction(
    on: Stage, variant: Variant = "hang", verification: bool = True, before: int = 10, socket_timeout_ms: int = 6000
) -> None:
    """One late Produce blocks read_committed consumers for ever, or shows them what was aborted.

    A client sends a batch in a transaction; the batch is late, and the client aborts. The markers that end the transaction are
    written, then the batch arrives. The leader takes it and counts a transaction as open that no coordinator knows of, so
    nothing will ever end it: neither its timeout nor the producer's return. Consumers with read_committed stop in front of
    it. If the same producer goes on instead, its next commit makes the aborted batch readable.

    Variants, by what the client does and what makes the batch late:
      hang           raw requests; it stops after the abort
      aborted-read   raw requests; it commits another transaction on the partition
      after-add      as aborted-read, but the batch arrives when the next transaction has begun: no leader can tell, in any
                     release, unless epochs end with transactions (transaction.version 2)
      librdkafka     an ordinary client whose records time out, which aborts, and commits another transaction
      no-gate        the same, and nothing is held: a partition between the client and the leader
      nothing-held   the control: an abort and a commit

    What a reader sees: a last stable offset that never moves again although the high watermark does (hang), or records of a
    transaction whose abort succeeded in a read_committed consumer. Where it is fixed the late Produce is refused:
    INVALID_TXN_STATE (48), or INVALID_PRODUCER_EPOCH (47) for librdkafka, which goes on with a new epoch after records that
    timed out; up to 3.5 that epoch does not help, because the leader has not heard of it.

    verification: transaction.partition.verification.enable of the brokers (3.6 and newer). before: records without a
    transaction that come first. socket_timeout_ms: of librdkafka.
    """
    match variant:
        case "hang" | "aborted-read" | "after-add":
            await on.produce("t", 0, before)
            await _raw(on, variant)
        case "librdkafka":
            await on.produce("t", 0, before)
            await _held(on, await _writer(on, socket_timeout_ms))
        case "no-gate":
            await _partitioned(on, before, socket_timeout_ms)
        case _:
            await on.produce("t", 0, before)
            writer = await _writer(on, socket_timeout_ms)
            await writer.begin()
            await writer.send("t", 0, BATCH)
            await writer.abort()
            await _commit(on, writer)


async def _raw(on: Stage, variant: str) -> None:
    raw = await on.raw("x")
    mine = await raw.begin_transaction(ID)
    await _add(on, raw, mine)
    late = await on.hold("Produce", source="w1", first=1)
    on.meanwhile(raw.produce("b1", "t", 0, BATCH, transaction=mine, connection="slow"))
    await on.until(held(late))
    await raw.end_transaction(mine, commit=False)
    await on.until(transaction_state(ID) == "CompleteAbort")
    if variant == "hang":
        await _let_go(on, late)
        after = await on.produce("t", 0, BATCH)
        if await on.whether(stable_offset("t", 0) >= max(after.offsets) + 1, within=LANDS_WITHIN):
            await on.say("consumers with read_committed read on", "b1")
        else:
            await on.say("a transaction is open in t-0 that its coordinator has ended", "b1")
        return
    if variant == "aborted-read":
        await _let_go(on, late)
    raw.next_transaction(mine)
    await _add(on, raw, mine)
    if variant == "after-add":
        await _let_go(on, late)
    sent = await raw.produce("b1", "t", 0, BATCH, transaction=mine)
    if sent.error != "NONE":
        raise NotReached("the leader takes the next transaction's records", sent.error)
    await raw.end_transaction(mine, commit=True)
    await on.until(transaction_state(ID) == "CompleteCommit")


async def _held(on: Stage, writer: Producer) -> None:
    await writer.begin()
    await writer.send("t", 0, 1)
    late = await on.hold("Produce", source="w1")
    await writer.send("t", 0, BATCH, need="nothing")
    await on.until(held(late))
    await writer.flush(need="any")
    await _aborted(writer)
    await _let_go(on, late)
    await on.lift(late)
    await _commit(on, writer)


async def _partitioned(on: Stage, before: int, socket_timeout_ms: int) -> None:
    coordinator = await on.cluster.coordinator_of(ID)
    leader = "b1" if coordinator == "b2" else "b2"
    await on.say(f"{coordinator} coordinates; {leader} leads t", coordinator, leader)
    await on.topic(topic("t", [on.id_of(leader)]))
    await on.produce("t", 0, before)
    writer = await _writer(on, socket_timeout_ms)
    await writer.begin()
    await writer.send("t", 0, 1)
    await on.lines(leader)
    await on.until(elapsed(ASKS_AGAIN))  # or that request stands before the batch, and its answer resets the connection
    await on.cut("w1", leader, one_way=True)
    await writer.send("t", 0, BATCH, need="nothing")
    await writer.flush(need="any")
    await _aborted(writer)
    before_heal = await on.lines(leader)
    await on.heal()
    await on.until(log_line(leader, ARRIVED, after=before_heal), within=LANDS_WITHIN)
    taken = await on.whether(end_offset("t", 0, on=leader) >= before + 1 + MARKER + BATCH, within=1)
    await on.say(f"the leader {'took' if taken else 'refused'} the late batch", leader)
    await _commit(on, writer)


async def _writer(on: Stage, socket_timeout_ms: int) -> Producer:
    settings = {
        "delivery_timeout_ms": 2000,
        "socket_timeout_ms": socket_timeout_ms,
        "request_timeout_ms": min(5000, socket_timeout_ms - 500),
    }
    return await on.producer("x", transactional_id=ID, settings=settings)


async def _add(on: Stage, raw: RawClient, mine: RawTransaction) -> None:
    """Markers of the transaction before may still be on their way to the coordinator's own log."""
    while (error := await raw.add_partitions(mine, [("t", 0)])) == "CONCURRENT_TRANSACTIONS":
        await on.until(transaction_state(ID) != "PrepareAbort")
    if error != "NONE":
        raise NotReached("t-0 is part of the transaction", error)


async def _let_go(on: Stage, late: Hold) -> None:
    await on.release(late)
    await on.until(answered(late))
    error = late.answer.error if late.answer else None
    said = "took the late batch" if error == "NONE" else f"refused the late batch: {error}"
    await on.say(f"the leader {said}", "b1", "w1")


async def _aborted(writer: Producer) -> None:
    error = await writer.abort()
    if error is not None:
        raise NotReached("the abort succeeds", error)


async def _commit(on: Stage, writer: Producer) -> None:
    await writer.begin()
    await writer.send("t", 0, BATCH)
    error = await writer.commit()
    await on.say(f"the client was told of its second transaction: {error or 'committed'}", "w1")
