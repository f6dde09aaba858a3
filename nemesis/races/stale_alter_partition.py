"""KAFKA-14139, as scripts. Facts and recipe: the bug report, KIP-903, and `krash race show kafka-14139`."""

from __future__ import annotations

from typing import Any, Literal

from nemesis.races.books import NotReached
from nemesis.races.cells import Cell
from nemesis.races.conditions import (
    active_controller,
    all_of,
    answered,
    any_of,
    fenced,
    held,
    isr,
    leader_of,
    log_line,
    unfenced,
)
from nemesis.races.expectation import VALID, Expectation
from nemesis.races.race import Given, cluster, race, topic
from nemesis.races.stage import Stage
from nodes.topology import Topology

Variant = Literal["kill-leader", "preferred-election", "min-isr-2", "stale-fetch", "no-gate", "nothing-held"]
SENT = r"Sending AlterPartition to controller .*newIsr(WithEpochs)?=\[.*\b2\b"  # DEBUG, of the leader
REFUSED = "Failed to alter partition to PendingExpandIsr"  # INFO, of the leader
LANDS_WITHIN = 30.0  # seconds beyond the socket timeout for the request to reach the other controller


def _cluster(given: Given) -> Topology:
    wanted = given.parameters
    replicas = {"min-isr-2": [1, 2, 3], "preferred-election": [2, 1]}.get(wanted.variant, [1, 2])
    min_isr = 2 if wanted.variant == "min-isr-2" else 1
    config = {"broker.session.timeout.ms": str(wanted.session_ms)}
    if wanted.variant == "no-gate":  # the leader must outlive the pause of its controller
        config |= {
            "broker.session.timeout.ms": str(max(6000, wanted.session_ms)),
            "broker.heartbeat.interval.ms": "500",
            "controller.socket.timeout.ms": str(wanted.socket_timeout_ms),
        }
    return cluster(
        given,
        brokers=len(replicas),
        controllers=3 if wanted.variant == "no-gate" else 1,
        topics=[topic("t", replicas, min_isr=min_isr)],
        config=config,
    )


def _needs_gate(parameters: Any) -> bool:
    return parameters.variant not in ("no-gate", "nothing-held")


@race(
    "kafka-14139",
    cluster=_cluster,
    affected="3.3 and 3.4; any later release whose metadata.version is 3.5-IV0 or lower, also today",
    fixed="metadata.version 3.5-IV1 (KIP-903), with 3.5.0 or later",
    references=("KAFKA-14139", "KIP-903"),
    quotes=(
        "Sending AlterPartition to controller",
        "Rejecting AlterPartition request",
        "Failed to alter partition to PendingExpandIsr",
        "ISR updated to",
        "[Tt]runcating .*offset 0",
    ),
    gate=_needs_gate,
    rolls_to=lambda parameters: [parameters.roll_to] if parameters.roll_to else [],
    expects=(
        Expectation(outcome=VALID, where={"variant": "nothing-held"}, because="nothing was late"),
        Expectation(
            outcome="lost-write",
            metadata="<= 3.5-IV0",
            because="AlterPartition does not say which incarnation is meant",
        ),
        Expectation(outcome=VALID, because="KIP-903: AlterPartition and Fetch carry the broker's epoch"),
    ),
    systems=(
        "kafka:3.3.2",
        "kafka:3.4.1",
        "kafka:3.9.2@3.4",
        "kafka:3.9.2",
        "kafka:4.3.1@3.5-IV0",
        "kafka:4.3.1@3.5-IV1",
        "kafka:4.3.1",
        "kafka:4.4.0@3.4",
        "kafka:4.4.0",
    ),
    also=(Cell(system="kafka:3.4.1", settings={"roll_to": "4.3.1"}),),
    samples=(Cell(system="kafka:3.4.1"), Cell(system="kafka:4.3.1")),
    tries=20,
)
async def stale_alter_partition(
    on: Stage,
    variant: Variant = "kill-leader",
    records: int = 200,
    keep_directory_id: bool = True,
    session_ms: int = 2500,
    socket_timeout_ms: int = 20_000,
    roll_to: str = "",
) -> None:
    """A replaced disk and one delayed AlterPartition lose every acknowledged record.

    The leader b1 asks the controller to add its follower b2 to the ISR. Before that request arrives b2 dies, loses its disk
    and comes back empty. Nothing in the request says which incarnation of b2 was meant, so the controller lets the empty one
    in. As soon as b2 is elected its empty log is the truth, and every other copy is truncated to it: all that producers were
    told is stored is gone, with acks=all and unclean election off.

    Variants, by what is late and what elects b2:
      kill-leader          AlterPartition is held; then b1 is killed
      preferred-election   AlterPartition is held; b2 is the preferred leader, and nobody else dies
      min-isr-2            three replicas, min.insync.replicas=2: b1 is killed, b3 has every record and must throw them away
      stale-fetch          a Fetch of b2's first incarnation is held instead; the leader itself is fooled by it
      no-gate              nothing is held: the active controller is paused, and b1 asks the next one after its socket timeout
      nothing-held         the control: same deaths, same wipe, nothing late; nothing is lost

    What a reader sees: 200 records acknowledged, b2 in the ISR with an empty log, b2 elected, every log ends at offset 0.
    Where the bug is fixed the controller refuses the late request (INELIGIBLE_REPLICA, 107; with a new directory id also
    INVALID_UPDATE_VERSION, 95) and nothing is lost, though the partition may have no leader until b1 is back.

    roll_to: before anything else every node is rolled to this version, and metadata.version is left as it was.
    """
    if roll_to:
        await _roll(on, roll_to, variant)
    await on.kill("b2")
    await on.until(all_of(fenced("b2"), isr("t", 0) == _others(variant), leader_of("t", 0) == "b1"))
    await on.produce("t", 0, records)
    match variant:
        case "no-gate":
            await _paused_controller(on, keep_directory_id, socket_timeout_ms / 1000)
        case "stale-fetch":
            await _stale_fetch(on, records, keep_directory_id)
        case "nothing-held":
            await _nothing_late(on, keep_directory_id)
        case _:
            await _stale_request(on, keep_directory_id)
    if variant == "preferred-election":
        await on.elect("t", 0)
    else:
        await on.kill("b1")
        await on.until(leader_of("t", 0) != "b1")


async def _roll(on: Stage, version: str, variant: str) -> None:
    """As an upgrade does it: node by node, and nobody raises metadata.version afterwards."""
    brokers = {"b2"} | _others(variant)
    for node in ("c1", *sorted(brokers)):
        await on.roll(node, version)
        await on.until(isr("t", 0) == brokers)
    await on.elect("t", 0)


def _others(variant: str) -> set[str]:
    return {"b1", "b3"} if variant == "min-isr-2" else {"b1"}


async def _stale_request(on: Stage, keep_directory_id: bool) -> None:
    stale = await on.hold("AlterPartition", source="b1", where="newIsr contains 2")
    await on.start("b2")
    await on.until(held(stale))
    await _replace(on, keep_directory_id)
    await on.cut("b1", "b2")  # it must not catch up honestly
    await on.start("b2")
    await on.until(unfenced("b2"))
    await on.release(stale)
    await on.until(answered(stale))
    error = stale.answer.error if stale.answer else None
    if error == "NONE":
        await on.until(isr("t", 0).contains("b2"))
        await on.say("the controller accepted: b2 is in the ISR with an empty log", "c1", "b2")
    else:
        await on.say(f"the controller refused: {error}", "c1", "b1")


async def _stale_fetch(on: Stage, records: int, keep_directory_id: bool) -> None:
    stale = await on.hold("Fetch", source="b2", destination="b1", where=f"fetchOffset >= {records}", first=1)
    await on.start("b2")
    await on.until(all_of(held(stale), unfenced("b2")))  # or its unfencing is taken for that of the next incarnation
    await _replace(on, keep_directory_id)
    await on.hold("Fetch", source="b2", destination="b1")  # the new incarnation must not catch up honestly
    await on.start("b2")
    await on.until(unfenced("b2"))
    await on.release(stale)
    if await on.whether(isr("t", 0).contains("b2"), within=4):
        await on.say(
            "the leader took the dead incarnation's Fetch for the new one's: b2 is in the ISR, empty", "b1", "b2"
        )


async def _paused_controller(on: Stage, keep_directory_id: bool, socket_timeout: float) -> None:
    await on.cut("b1", "b2")
    await on.start("b2")
    await on.until(unfenced("b2"))
    paused = (await on.eyes.view()).controller or "c1"
    before = await on.lines("b1")
    await on.pause(paused)
    await on.heal()
    await on.until(log_line("b1", SENT, after=before), within=socket_timeout)
    await on.kill("b2")
    await on.cut("b1", "b2")
    await on.wipe("b2", keep_directory_id=keep_directory_id)
    await on.until(all_of(active_controller() != paused, fenced("b2")), within=socket_timeout)
    await on.start("b2")
    await on.until(unfenced("b2"), within=socket_timeout)
    if await on.whether(log_line("b1", REFUSED, after=before), within=0):
        raise NotReached("b2 is unfenced before b1 asks the next controller", "b1 had asked, and was refused")
    await on.until(
        any_of(isr("t", 0).contains("b2"), log_line("b1", REFUSED, after=before)), within=socket_timeout + LANDS_WITHIN
    )


async def _nothing_late(on: Stage, keep_directory_id: bool) -> None:
    await on.start("b2")
    await on.until(isr("t", 0).contains("b2"))
    await _replace(on, keep_directory_id)
    await on.start("b2")
    await on.until(all_of(unfenced("b2"), isr("t", 0).contains("b2")))


async def _replace(on: Stage, keep_directory_id: bool) -> None:
    """b2 dies and gets an empty disk, once the controllers have noticed."""
    await on.kill("b2")
    await on.until(all_of(fenced("b2"), isr("t", 0).lacks("b2")))
    await on.wipe("b2", keep_directory_id=keep_directory_id)
