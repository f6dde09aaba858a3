"""KAFKA-17754, as scripts. Facts: the bug report, KIP-890, and `krash race show late-end-txn`."""

from __future__ import annotations

from typing import Any, Literal

from nemesis.races.actors import Producer
from nemesis.races.asked import transaction_state
from nemesis.races.books import NotReached
from nemesis.races.cells import Cell
from nemesis.races.conditions import answered, elapsed, held
from nemesis.races.expectation import CLIENT_ERROR, VALID, Expectation
from nemesis.races.race import Given, cluster, race, topic
from nemesis.races.stage import Stage
from nodes.protocol.logs import IMPLICIT, Produced
from nodes.topology import Topology

Variant = Literal["abort-then-commit", "commit-then-abort", "one-partition", "no-gate", "bumped-epochs", "nothing-held"]
ID = "krash-late"
LANDS_WITHIN = 15.0  # seconds for the kernel to send again what was never acknowledged
ENDS_WITHIN = 5.0  # seconds for what was answered to be seen
ENDED = "the coordinator took the late EndTxn for the second transaction's, and ended it"
BUMPS_EPOCH = 5  # the EndTxn version of transaction.version 2


def _cluster(given: Given) -> Topology:
    if given.parameters.variant == "no-gate":  # who coordinates is known later, and topics are to be led by the other
        return cluster(given, brokers=2)
    return cluster(given, brokers=1, topics=[topic("t", [1]), topic("u", [1])])


def _needs_gate(parameters: Any) -> bool:
    return parameters.variant not in ("no-gate", "nothing-held")


@race(
    "late-end-txn",
    cluster=_cluster,
    affected="every release, up to the current ones, while clients speak EndTxn 4 or lower: librdkafka and kafka-python "
    "today, the Java client before 4.0",
    fixed="transaction.version 2 (KIP-890 part 2) with a client that uses it: the Java client from 4.0",
    references=("KAFKA-17754", "KAFKA-14562", "KIP-890"),
    gate=_needs_gate,
    client_links=_needs_gate,
    transactional=True,
    quotes=("Initialized transactionalId", "[Ff]enced", "INVALID_TXN_STATE|InvalidTxnState"),
    expects=(
        Expectation(outcome=VALID, where={"variant": "nothing-held"}, because="nothing was late"),
        Expectation(
            outcome=VALID,
            versions=">= 4.0",
            where={"variant": "bumped-epochs"},
            because="every transaction has an epoch of its own: the late request is refused (PRODUCER_FENCED)",
        ),
        Expectation(
            outcome=CLIENT_ERROR,
            versions=">= 3.6",
            where={"variant": "one-partition"},
            because="half of it is committed, but the broker refuses the other half, and the client is told",
        ),
        Expectation(
            outcome="torn-transaction",
            where={"variant": ("abort-then-commit", "commit-then-abort", "one-partition", "no-gate")},
            because="an EndTxn names a producer and an epoch, and both transactions have the same",
        ),
    ),
    systems=("kafka:3.4.1", "kafka:3.9.2", "kafka:4.3.1", "kafka:4.4.0"),
    samples=(Cell(system="kafka:4.3.1"), Cell(system="kafka:4.3.1", settings={"variant": "bumped-epochs"})),
)
async def late_end_txn(
    on: Stage,
    variant: Variant = "abort-then-commit",
    half: int = 5,
    partition_s: float = 4.0,
    socket_timeout_ms: int = 1500,
) -> None:
    """A transaction that reports success keeps half of its records.

    A client ends its first transaction; the request is late, so it asks again, and is told of success. It goes on with the
    second transaction and writes the first half of it. Now the late request arrives. It names a producer and an epoch, both of
    which are still right, so the coordinator ends the transaction that happens to be open: the second one. The client
    learns nothing: it writes the second half, for which the coordinator silently begins a transaction again, and ends that.

    Variants, by how the two transactions end:
      abort-then-commit   the late abort takes the first half of a transaction whose commit succeeds: acknowledged, committed, gone
      commit-then-abort   the late commit makes the first half of an aborted transaction readable for ever
      one-partition       commit, commit, and both halves in one partition. Up to 3.5 the second half stays open and blocks
                          the partition for read_committed; from 3.6 the broker refuses it and the client is told
      no-gate             abort, commit, and nothing is held: a partition of 4 s between the client and the coordinator does it.
                          The client closes its connection; its kernel goes on sending what was never acknowledged
      bumped-epochs       the protocol's cure, by raw requests: EndTxn 5 ends the epoch with the transaction. Needs 4.0
      nothing-held        the control: both transactions, nothing late

    What a reader sees: two commits (or aborts) that returned success, and a consumer with read_committed that reads one
    half of one transaction. Where it is cured the late EndTxn is refused: PRODUCER_FENCED (90).

    half: records of each half. socket_timeout_ms: after which the client asks again; the partition must be longer than that,
    and shorter than the transaction's timeout.
    """
    match variant:
        case "bumped-epochs":
            await _bumped_epochs(on, half)
        case "no-gate":
            await _partitioned(on, half, partition_s, socket_timeout_ms)
        case "nothing-held":
            writer = await _writer(on, socket_timeout_ms)
            await _first(writer, half, commit=False)
            await writer.begin()
            await writer.send("t", 0, half)
            await _other_half(on, writer, half, "u", commit=True)
        case _:
            writer = await _writer(on, socket_timeout_ms)
            await _held(on, writer, half, variant)


async def _held(on: Stage, writer: Producer, half: int, variant: Variant) -> None:
    late = await on.hold("EndTxn", source="w1", first=1)
    await _first(writer, half, commit=variant != "abort-then-commit")
    await on.until(held(late))
    await writer.begin()
    await writer.send("t", 0, half)
    await on.release(late)
    await on.until(answered(late))
    await _ended_behind_its_back(on)
    last = "t" if variant == "one-partition" else "u"
    await _other_half(on, writer, half, last, commit=variant != "commit-then-abort")


async def _partitioned(on: Stage, half: int, partition_s: float, socket_timeout_ms: int) -> None:
    coordinator = await on.cluster.coordinator_of(ID)
    other = "b1" if coordinator == "b2" else "b2"
    await on.say(f"{coordinator} coordinates; {other} leads t and u", coordinator, other)
    for name in ("t", "u"):
        await on.topic(topic(name, [on.id_of(other)]))
    writer = await _writer(on, socket_timeout_ms)
    await writer.begin()
    await writer.send("t", 0, half)
    await on.cut("w1", coordinator, one_way=True)
    long_enough = elapsed(partition_s)
    ending = on.meanwhile(writer.abort())
    await on.until(long_enough)
    await on.heal()
    _told_of_success("abort", await ending)
    await writer.begin()
    await writer.send("t", 0, half)
    await on.until(transaction_state(ID) != "Ongoing", within=LANDS_WITHIN)
    await on.say(ENDED, coordinator, "w1")
    await _other_half(on, writer, half, "u", commit=True)


async def _bumped_epochs(on: Stage, half: int) -> None:
    raw = await on.raw("x")
    first = await raw.begin_transaction(ID)
    _taken(await raw.produce("b1", "t", 0, half, transaction=first, version=IMPLICIT))
    late = await on.hold("EndTxn", source="w1", first=1)
    on.meanwhile(raw.end_transaction(first, commit=False, version=BUMPS_EPOCH, connection="slow"))
    await on.until(held(late))
    again = await raw.end_transaction(first, commit=False, version=BUMPS_EPOCH, connection="again")
    _told_of_success("abort", None if again.error == "NONE" else again.error)
    await on.until(transaction_state(ID) == "CompleteAbort")
    second = raw.next_transaction(first)
    _taken(await raw.produce("b1", "t", 0, half, transaction=second, version=IMPLICIT))
    await on.release(late)
    await on.until(answered(late))
    await on.say(f"the coordinator answers the late EndTxn: {late.answer.error if late.answer else None}", "b1", "w1")
    _taken(await raw.produce("b1", "u", 0, half, transaction=second, version=IMPLICIT))
    done = await raw.end_transaction(second, commit=True, version=BUMPS_EPOCH, connection="again")
    _told_of_success("commit", None if done.error == "NONE" else done.error)


async def _writer(on: Stage, socket_timeout_ms: int) -> Producer:
    settings = {
        "socket_timeout_ms": socket_timeout_ms,
        "request_timeout_ms": socket_timeout_ms - 500,
        "delivery_timeout_ms": 20_000,
    }
    return await on.producer("x", transactional_id=ID, settings=settings)


async def _first(writer: Producer, half: int, *, commit: bool) -> None:
    await writer.begin()
    await writer.send("t", 0, half)
    _told_of_success("commit" if commit else "abort", await (writer.commit() if commit else writer.abort()))


async def _other_half(on: Stage, writer: Producer, half: int, topic: str, *, commit: bool) -> None:
    """What the client goes on with, unaware; when it is told of an error it aborts, as it should."""
    await writer.send(topic, 0, half, need="any")
    error = await (writer.commit() if commit else writer.abort())
    if error is None:
        await on.say(
            f"{writer.client_id} was told that its transaction is {'committed' if commit else 'aborted'}", "w1"
        )
    else:
        await on.say(f"{writer.client_id} was told that something is wrong ({error}), and aborts", "w1")
        await writer.abort()


async def _ended_behind_its_back(on: Stage) -> None:
    if await on.whether(transaction_state(ID) != "Ongoing", within=ENDS_WITHIN):
        await on.say(ENDED, "b1", "w1")


def _told_of_success(verb: str, error: str | None) -> None:
    if error is not None:
        raise NotReached(f"the {verb} succeeds", error)


def _taken(produced: Produced) -> None:
    if produced.error != "NONE":
        raise NotReached("the broker takes the records", produced.error)
