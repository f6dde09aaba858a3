"""KAFKA-15583, as scripts. Facts: the bug report, KIP-966, and `krash race show read-then-vanished`."""

from __future__ import annotations

from typing import Literal

from nemesis.races.asked import end_offset, high_watermark
from nemesis.races.conditions import all_of, fenced, held, isr, leader_of, unfenced
from nemesis.races.expectation import VALID, Expectation
from nemesis.races.race import Given, cluster, race, topic
from nemesis.races.stage import Stage
from nodes.topology import Topology

Variant = Literal["elected-by-hand", "empty-disk", "no-gate", "nothing-held"]
MOVES_WITHIN = 3.0  # seconds after the ISR shrank


def _cluster(given: Given) -> Topology:
    return cluster(given, brokers=2, topics=[topic("t", [1, 2], min_isr=2)])


@race(
    "read-then-vanished",
    cluster=_cluster,
    affected="up to 3.6",
    fixed="3.7 (KAFKA-15583, part of KIP-966)",
    references=("KAFKA-15583", "KIP-966"),
    gate=lambda parameters: parameters.variant in ("elected-by-hand", "empty-disk"),
    quotes=("Leader t-0 .*starts at leader epoch", "Truncating partition t-0", "UNCLEAN partition change for t-0"),
    expects=(
        Expectation(outcome=VALID, where={"variant": "nothing-held"}, because="both replicas had everything"),
        Expectation(
            outcome="read-then-vanished",
            versions="< 3.7",
            because="the high watermark passes what fewer than min.insync.replicas brokers have",
        ),
        Expectation(
            outcome="lost-write",
            where={"variant": "empty-disk"},
            because="nobody read what was refused; but the last of the ISR lost its disk (see last-replica-standing)",
        ),
        Expectation(outcome=VALID, because="the high watermark stands still while the ISR is below the minimum"),
    ),
    recovery_s=30.0,
    systems=("kafka:3.4.1", "kafka:3.6.2", "kafka:3.9.2", "kafka:4.3.1"),
)
async def read_then_vanished(
    on: Stage,
    variant: Variant = "elected-by-hand",
    records: int = 10,
    refused: int = 5,
    answer_s: float = 10.0,
) -> None:
    """Consumers read records whose producer was told that they failed, and then the records are gone.

    The topic needs two replicas for every record (min.insync.replicas=2). The leader b1 has written five records that its
    follower b2 has not fetched yet; then b2 dies. The controller takes b2 out of the ISR, and b1 alone counts as all of
    it. It refuses the five to their producer (NOT_ENOUGH_REPLICAS_AFTER_APPEND), and in the same moment moves the high
    watermark past them: consumers read what only one disk has. Then that disk fails.

    Variants, by how b1 is kept from telling b2, and by who leads after the disk of b1 was replaced:
      elected-by-hand   b2's Fetch is held; b2 is elected by an operator (unclean): it has everything that was acknowledged
      empty-disk        b2's Fetch is held; b1 comes back first, with an empty log, as the only one of the ISR: what was
                        acknowledged is lost too, also in current releases
      no-gate           nothing is held: a partition between b1 and b2; then as elected-by-hand
      nothing-held      the control: b2 has the five before it dies

    What a reader sees: five records that were refused, read by a consumer, and in the end a log that never had them.
    Where it is fixed the high watermark stays at 10, nobody reads them, and the producer gets REQUEST_TIMED_OUT.

    records: acknowledged beforehand. refused: those that only b1 has. answer_s: how long their producer lets b1 wait.
    """
    await on.produce("t", 0, records)
    await on.until(all_of(isr("t", 0) == {"b1", "b2"}, end_offset("t", 0, on="b2") == records))
    writer = await on.raw("x")
    if variant == "no-gate":
        await on.cut("b1", "b2")
    elif variant != "nothing-held":
        fetch = await on.hold("Fetch", source="b2", destination="b1")
        await on.until(held(fetch))
    sending = on.meanwhile(writer.produce("b1", "t", 0, refused, acks=-1, within=answer_s))
    await on.until(end_offset("t", 0, on="b1") == records + refused)
    if variant == "nothing-held":
        await on.until(high_watermark("t", 0) == records + refused)
    await on.kill("b2")
    await on.until(all_of(fenced("b2"), isr("t", 0) == {"b1"}))
    moved = await on.whether(high_watermark("t", 0) == records + refused, within=MOVES_WITHIN)
    read = await on.read("t", 0)
    told = await sending
    await on.say(
        f"the producer was told {told.error} of {refused} records; "
        f"the high watermark is {'past them' if moved else 'below them'}, and a consumer reads {len(read.offsets)} records",
        "b1",
        "w1",
    )
    await on.kill("b1")
    await on.heal()
    await on.start("b2")
    await on.until(all_of(unfenced("b2"), fenced("b1")))
    if variant == "empty-disk":
        await on.wipe("b1", keep_directory_id=True)
        await on.start("b1")
        await on.until(leader_of("t", 0) == "b1")
    else:
        await on.elect("t", 0, preferred=False)
        await on.until(leader_of("t", 0) == "b2")
        await on.wipe("b1", keep_directory_id=True)
