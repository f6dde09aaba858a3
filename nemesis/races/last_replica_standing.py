"""The last member of an ISR loses its disk, as scripts. Facts: KIP-966, and `krash race show last-replica-standing`."""

from __future__ import annotations

from typing import Final, Literal

from nemesis.races.cells import Cell
from nemesis.races.conditions import all_of, fenced, isr, leader_of, unfenced
from nemesis.races.expectation import VALID, Expectation
from nemesis.races.race import Given, cluster, race, topic
from nemesis.races.stage import Stage
from nodes.topology import Topology

Variant = Literal["peers-partitioned", "peers-stopped", "peers-killed", "nothing-wiped"]
Elr = Literal["default", "on", "off"]
ELR: Final = "eligible.leader.replicas.version"
EVERYBODY: Final = ("c1", "b1", "b2", "b3", "b4")


def _cluster(given: Given) -> Topology:
    level = {"on": {ELR: 1}, "off": {ELR: 0}}.get(given.parameters.elr, {})
    return cluster(given, brokers=4, topics=[topic("t", [1, 2, 3], min_isr=2)], features=level)


_LOST = "b3 is in the ISR by its name, and nothing tells the controller that it is empty"
_ELR = "KIP-966: b2 left the ISR, but is known to have everything, and is elected"


@race(
    "last-replica-standing",
    cluster=_cluster,
    affected="every release without eligible leader replicas; with them too, when the peers were killed",
    fixed="4.1 for peers that were cut off or shut down cleanly (KIP-966, on in clusters that are formatted with 4.1 or later)",
    references=("KIP-966", "KAFKA-15332", "KIP-903"),
    gate=False,
    expects=(
        Expectation(outcome=VALID, where={"variant": "nothing-wiped"}, because="b3 has everything, and is elected"),
        Expectation(
            outcome="lost-write",
            versions=">= 4.0",
            where={"variant": "peers-killed"},
            because="a broker that comes back from a kill leaves the ELR; then the last one known to have led is elected",
        ),
        Expectation(outcome=VALID, versions=">= 4.0", where={"elr": "on"}, because=_ELR),
        Expectation(outcome=VALID, versions=">= 4.1", metadata=">= 4.1", where={"elr": "default"}, because=_ELR),
        Expectation(outcome="lost-write", where={"elr": "default"}, because=_LOST),
        Expectation(outcome="lost-write", versions=">= 4.0", where={"elr": "off"}, because=_LOST),
    ),
    systems=("kafka:3.4.1", "kafka:3.9.2", "kafka:4.3.1"),
    also=(
        Cell(system="kafka:3.9.2", settings={"keep_directory_id": False}),
        Cell(system="kafka:4.3.1@3.9"),
        Cell(system="kafka:4.3.1", settings={"elr": "off"}),
        Cell(system="kafka:4.3.1", settings={"elr": "off", "keep_directory_id": False}),
        Cell(system="kafka:4.3.1", settings={"variant": "peers-killed", "keep_directory_id": False}),
    ),
)
async def last_replica_standing(
    on: Stage,
    variant: Variant = "peers-partitioned",
    records: int = 200,
    keep_directory_id: bool = True,
    elr: Elr = "default",
) -> None:
    """The last in-sync replica gets a new disk, and two full copies are thrown away for it.

    Three replicas, min.insync.replicas=2, acks=all: every record that is acknowledged is on all three. Then b1 and b2 leave
    the ISR one after the other, with all their records, and b3 alone is left in it. b3 dies and its disk is replaced. The
    metadata still says that b3 is the one replica that has everything; so the empty b3 is elected, and when b1 and b2 are
    back they truncate their full copies to nothing. Unclean leader election is off. b4 has no replica: it tells what the
    cluster thinks while nobody else can. KIP-903 names this case as its accepted exception.

    Eligible leader replicas (KIP-966) close the hole, but only for peers that went cleanly or were merely cut off: a broker
    that comes back from a kill is taken out of the ELR too, and then "the last known leader" is elected, empty as it is.

    Variants, by how b1 and b2 leave the ISR:
      peers-partitioned    they are cut off from everybody
      peers-stopped        they are shut down (SIGTERM)
      peers-killed         kill -9
      nothing-wiped        cut off, and b3 dies but keeps its disk: the control; nothing is lost

    keep_directory_id: with a new directory id (3.7 and later) the empty b3 is not elected while it is alone, only once
    another broker is back. elr: eligible.leader.replicas.version as the release has it, 1 or 0 (4.0 and later).

    What a reader sees: 200 records acknowledged, the ISR shrinks to b3, b3 is wiped and elected, every log ends at offset 0.
    Where ELR protects: b2 is elected, and nothing is lost.
    """
    await on.produce("t", 0, records)
    await _leaves(on, "b1", variant)
    await on.until(isr("t", 0) == {"b2", "b3"})
    await _leaves(on, "b2", variant)
    await on.until(isr("t", 0) == {"b3"})
    await on.kill("b3")
    await on.until(all_of(leader_of("t", 0) == None, fenced("b3")))  # noqa: E711 - a condition
    if variant != "nothing-wiped":
        await on.wipe("b3", keep_directory_id=keep_directory_id)
    await on.start("b3")
    await on.until(unfenced("b3"))
    await _come_back(on, variant)
    await on.until(all_of(unfenced("b1"), unfenced("b2")))


async def _leaves(on: Stage, peer: str, variant: Variant) -> None:
    match variant:
        case "peers-stopped":
            await on.stop(peer)
        case "peers-killed":
            await on.kill(peer)
        case _:
            await on.cut(peer, [name for name in EVERYBODY if name != peer])


async def _come_back(on: Stage, variant: Variant) -> None:
    if variant in ("peers-stopped", "peers-killed"):
        await on.start("b2")
        await on.start("b1")
    else:
        await on.heal()
