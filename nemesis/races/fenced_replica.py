"""KAFKA-13916: the controller lets a broker into an ISR that it has fenced."""

from __future__ import annotations

from typing import Literal

from nemesis.races.conditions import all_of, answered, fenced, held, isr, leader_of, unfenced
from nemesis.races.expectation import VALID, Expectation
from nemesis.races.race import cluster, race, topic
from nemesis.races.stage import Stage

Variant = Literal["held", "nothing-held"]


@race(
    "fenced-replica",
    cluster=lambda given: cluster(given, brokers=2, topics=[topic("t", [1, 2])]),
    affected="KRaft up to 3.2",
    fixed="3.3.0 (KIP-841)",
    references=("KAFKA-13916", "KIP-841"),
    gate=lambda parameters: parameters.variant == "held",
    expects=(
        Expectation(outcome=VALID, where={"variant": "nothing-held"}, because="nothing was late"),
        Expectation(outcome="lost-write", versions="< 3.3", because="AlterPartition may add a fenced broker"),
        Expectation(outcome=VALID, versions=">= 3.3", because="KIP-841: INELIGIBLE_REPLICA"),
    ),
    systems=("kafka:3.2.3", "kafka:3.4.1", "kafka:3.9.2", "kafka:4.3.1"),
)
async def fenced_replica(
    on: Stage, variant: Variant = "held", records: int = 200, keep_directory_id: bool = True
) -> None:
    """A fenced broker joins the ISR, and takes every acknowledged record with it.

    The leader b1 asks the controller to add its follower b2 to the ISR. The request is late: b2 has died meanwhile, and the
    controller has fenced it. It lets it in all the same. From now on b1 counts a dead broker as in sync: the high watermark
    waits for it, and the controller holds its copy for a complete one. When b2 comes back with an empty disk and b1 dies,
    b2 is elected, as a member of the ISR, and every other copy is truncated to its empty log.

    Variants:
      held           AlterPartition arrives after b2 was fenced
      nothing-held   the control: the same deaths and the same wipe, and every broker is unfenced before it catches up.
                     Without that care 3.2.3 let a merely restarted broker in while fenced in 3 of 3 runs: this control was
                     first stated as valid without it, differed, and was changed

    What a reader sees: an ISR with a fenced broker in it, b2 elected, every log ends at offset 0. Where it is fixed the
    controller refuses (INELIGIBLE_REPLICA, 107), and nothing is lost.
    """
    await on.kill("b2")
    await on.until(all_of(fenced("b2"), isr("t", 0) == {"b1"}, leader_of("t", 0) == "b1"))
    await on.produce("t", 0, records)
    if variant == "held":
        await _late_request(on)
        await on.wipe("b2", keep_directory_id=keep_directory_id)
        await on.cut("b1", "b2")  # it must not catch up honestly
        await on.start("b2")
        await on.until(unfenced("b2"))
    else:
        await _comes_back(on, "b2")
        await on.kill("b2")
        await on.until(all_of(fenced("b2"), isr("t", 0) == {"b1"}))
        await on.wipe("b2", keep_directory_id=keep_directory_id)
        await _comes_back(on, "b2")
    await on.kill("b1")
    await on.until(leader_of("t", 0) != "b1")
    if variant == "nothing-held":
        await _comes_back(on, "b1")


async def _comes_back(on: Stage, name: str) -> None:
    """Unfenced first, and only then in sync: up to 3.2 a broker that is merely started again may be let in before."""
    cut = await on.cut("b1", "b2")
    await on.start(name)
    await on.until(unfenced(name))
    await on.heal(cut)
    await on.until(isr("t", 0).contains(name))


async def _late_request(on: Stage) -> None:
    late = await on.hold("AlterPartition", source="b1", where="newIsr contains 2")
    await on.start("b2")
    await on.until(all_of(held(late), unfenced("b2")))  # else its unfencing may come after its death, and be taken for its return
    await on.kill("b2")
    await on.until(fenced("b2"))
    await on.release(late)
    await on.until(answered(late))
    error = late.answer.error if late.answer else None
    if error == "NONE":
        await on.until(isr("t", 0).contains("b2"))
        await on.say("the controller accepted: b2 is in the ISR, and fenced", "c1", "b2")
    else:
        await on.say(f"the controller refused: {error}", "c1", "b1")
