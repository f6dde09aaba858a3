"""Partitions: who can no longer hear whom. A shape is a pure function from nodes to stopped pairs (source, destination).

    isolate                    each target alone: nothing in, nothing out
    halves                     all nodes in two random halves
    majority-minority          the targets (default: a minority) on one side, the rest on the other
    bridge                     two halves that do not hear each other, and one target that both hear
    one-way                    what the target sends is stopped (it still hears), or what it should hear (it still speaks)
    controllers-from-brokers   the targets (default: all brokers) hear no controller, and the other way round
    link                       one target and one other broker

Clients are not cut off unless a target is a client or `clients: true` puts all of them among the nodes. DROP is silence, RESET a refused
connection. Pairs become cuts at the destination, one per destination, all with the fault's id.

Proof: every stopped pair's rule counted a packet and a datagram sent along it did not arrive, while the other direction of a one-way cut
still lets one through. Healed: no rule with the id is left and datagrams pass both ways (but where another fault still stops them).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from nemesis.fault import Proof, Refused
from nemesis.kinds import Order
from nemesis.proof import observed
from nemesis.stage import Stage
from nemesis.targets import client_names, members, resolve
from nodes.backend import Capability
from nodes.network import Action, Cut
from nodes.topology import ServerRole, Topology

Pairs = frozenset[tuple[str, str]]


class Shape(StrEnum):
    ISOLATE = "isolate"
    HALVES = "halves"
    MAJORITY_MINORITY = "majority-minority"
    BRIDGE = "bridge"
    ONE_WAY = "one-way"
    CONTROLLERS_FROM_BROKERS = "controllers-from-brokers"
    LINK = "link"


RULES: dict[Shape, tuple[str, ...]] = {
    Shape.ISOLATE: ("random broker", "leader of a random partition", "active controller"),
    Shape.HALVES: ("all",),
    Shape.MAJORITY_MINORITY: ("minority",),
    Shape.BRIDGE: ("random node",),
    Shape.ONE_WAY: ("random broker", "leader of a random partition"),
    Shape.CONTROLLERS_FROM_BROKERS: ("all brokers", "random broker", "leader of a random partition"),
    Shape.LINK: ("random broker",),
}


def between(one: Iterable[str], other: Iterable[str]) -> Pairs:
    """Both directions between every node of one side and every node of the other."""
    others = list(other)
    return frozenset(pair for a in one for b in others if a != b for pair in ((a, b), (b, a)))


def isolate(targets: Sequence[str], nodes: Sequence[str]) -> Pairs:
    return between(targets, nodes)


def split(side: Sequence[str], nodes: Sequence[str]) -> Pairs:
    return between(side, [node for node in nodes if node not in side])


def halves(nodes: Sequence[str], rng: random.Random) -> Pairs:
    return split(rng.sample(sorted(nodes), len(nodes) // 2), nodes)


def bridge(middle: str, nodes: Sequence[str], rng: random.Random) -> Pairs:
    return halves([node for node in nodes if node != middle], rng)


def one_way(targets: Sequence[str], nodes: Sequence[str], direction: str) -> Pairs:
    """`out`: what the targets send is stopped. `in`: what the others send to them."""
    out = frozenset((target, node) for target in targets for node in nodes if node not in targets)
    return out if direction == "out" else frozenset((node, target) for target, node in out)


class PartitionSettings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    shape: Shape | None = Field(None, description="which nodes stop hearing which; drawn when left out")
    action: Action | None = Field(
        None, description="drop (silence) or reset (refused connections); drawn when left out"
    )
    direction: Literal["in", "out"] | None = Field(
        None, description="one-way: stop what the target hears, or what it sends"
    )
    peer: str | None = Field(None, description="link: the other broker; drawn when left out")
    clients: bool = Field(False, description="clients are among the nodes that are cut from each other")


class Partition:
    kind: ClassVar[str] = "partition"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.CUT})
    Settings: ClassVar[type[BaseModel]] = PartitionSettings
    holds_processes: ClassVar[bool] = False
    risks_data: ClassVar[bool] = False

    def __init__(self, order: Order) -> None:
        self.order = order
        self.settings: PartitionSettings = order.settings
        self.name = f"partition-{self.settings.shape}"
        self.id = f"fault-{order.fault}"
        self.hit: tuple[str, ...] = ()
        self.pairs: Pairs = frozenset()

    @classmethod
    def rules(cls, settings: PartitionSettings, topology: Topology) -> Sequence[str]:
        rules = RULES[settings.shape] if settings.shape else ("random broker",)
        return [rule for rule in rules if rule != "active controller" or len(topology.controllers) > 1]

    @classmethod
    def settle(cls, settings: PartitionSettings, topology: Topology, rng: random.Random) -> PartitionSettings:
        possible = [shape for shape in Shape if _possible(shape, topology)]
        drawn = {
            "shape": possible[rng.randrange(len(possible))],
            "action": (Action.DROP, Action.RESET)[rng.randrange(2)],
            "direction": ("in", "out")[rng.randrange(2)],
        }
        left_out: dict[str, Any] = {key: value for key, value in drawn.items() if getattr(settings, key) is None}
        settled = settings.model_copy(update=left_out)
        return settled if settled.shape is Shape.ONE_WAY else settled.model_copy(update={"direction": None})

    def targets(self) -> list[str]:
        return list(self.hit)

    def undo(self) -> list[dict[str, Any]]:
        return [{"do": "heal-cuts", "ids": [self.id]}]

    async def prepare(self, on: Stage) -> None:
        if Capability.CUT not in on.capabilities:
            raise Refused("this backend cannot cut links")
        self.hit = resolve(self.order.rule, on.topology, await on.view(), self.order.draw)
        self.pairs = self._pairs(on.topology)
        if not self.pairs:
            raise Refused(f"{self.order.rule.text}: {', '.join(self.hit)} has nobody to be cut from")

    def _pairs(self, topology: Topology) -> Pairs:
        rng = random.Random(self.order.draw)
        with_clients = self.settings.clients or set(self.hit) & set(client_names(topology))
        nodes = members("", topology) + (client_names(topology) if with_clients else [])
        match self.settings.shape:
            case Shape.ISOLATE:
                return isolate(self.hit, nodes)
            case Shape.HALVES:
                return halves(self.hit, rng)
            case Shape.MAJORITY_MINORITY:
                return split(self.hit, nodes)
            case Shape.BRIDGE:
                return bridge(self._one(), nodes, rng)
            case Shape.ONE_WAY:
                return one_way(self.hit, nodes, self.settings.direction or "out")
            case Shape.CONTROLLERS_FROM_BROKERS:
                _separate_roles(topology)
                return between(members("controller", topology), self.hit)
            case Shape.LINK:
                return between([self._one()], [self._peer(topology, rng)])
            case None:
                raise Refused("a partition without a shape; settle() draws one")

    def _one(self) -> str:
        if len(self.hit) != 1:
            raise Refused(f"{self.name} takes one target, and {self.order.rule.text!r} is {', '.join(self.hit)}")
        return self.hit[0]

    def _peer(self, topology: Topology, rng: random.Random) -> str:
        others = [name for name in members("broker", topology) if name not in self.hit]
        if self.settings.peer is not None and self.settings.peer not in [node.name for node in topology.nodes]:
            raise Refused(f"peer {self.settings.peer!r} is no node here; there are {', '.join(members('', topology))}")
        if not others:
            raise Refused("there is no other broker to cut the link to")
        return self.settings.peer or others[rng.randrange(len(others))]

    async def inject(self, on: Stage) -> Proof:
        await on.network.cut(self._cuts())
        await observed(lambda: self._missing_effect(on), within=self.order.prove_s)
        counts = {
            f"{counter.source}>{counter.at}": counter.packets
            for counter in await on.network.counters()
            if counter.id == self.id
        }
        how = "dropped" if self.settings.action is Action.DROP else "answered with RST"
        return Proof(
            sentence=f"{sum(counts.values())} packets were {how} on {len(counts)} one-way paths, and a probe along each got lost",
            counts=counts,
        )

    def _cuts(self) -> list[Cut]:
        action = self.settings.action or Action.DROP
        return [
            Cut(id=self.id, at=at, sources=tuple(sorted(s for s, d in self.pairs if d == at)), action=action)
            for at in sorted({destination for _, destination in self.pairs})
        ]

    async def _missing_effect(self, on: Stage) -> str | None:
        reverse = {(d, s) for s, d in self.pairs} - self.pairs
        arrived = await _probe(on, self.pairs)
        if through := sorted(pair for pair, passed in arrived.items() if passed):
            return f"a probe still gets from {' and from '.join(f'{s} to {d}' for s, d in through[:3])}"
        stopped = {(c.source, c.at) for c in await on.network.counters() if c.id == self.id and c.packets > 0}
        if idle := sorted(self.pairs - stopped):
            return f"no rule stopped a packet from {' or from '.join(f'{s} to {d}' for s, d in idle[:3])}"
        others = {(c.source, c.at) for c in await on.network.counters() if c.id != self.id}
        back = await _probe(on, reverse - others)
        if deaf := sorted(pair for pair, passed in back.items() if not passed):
            return f"a probe should get from {' and from '.join(f'{s} to {d}' for s, d in deaf[:3])}, and does not"
        return None

    async def heal(self, on: Stage) -> Proof:
        await on.network.heal([self.id])
        await observed(lambda: self._missing_healing(on), within=self.order.prove_s)
        both = self.pairs | {(d, s) for s, d in self.pairs}
        return Proof(
            sentence=f"no rule of {self.id} is left; probes pass on {len(both)} paths", counts={"paths": len(both)}
        )

    async def _missing_healing(self, on: Stage) -> str | None:
        rules = await on.network.counters()
        if any(rule.id == self.id for rule in rules):
            return f"rules of {self.id} are still there"
        elsewhere = {(rule.source, rule.at) for rule in rules}
        passed = await _probe(on, (self.pairs | {(d, s) for s, d in self.pairs}) - elsewhere)
        if lost := sorted(pair for pair, arrived in passed.items() if not arrived):
            return f"no probe gets from {' and from '.join(f'{s} to {d}' for s, d in lost[:3])}"
        return None


async def _probe(on: Stage, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], bool]:
    ordered = sorted(pairs)
    arrived = await asyncio.gather(*(on.network.reaches(source, destination) for source, destination in ordered))
    return dict(zip(ordered, arrived, strict=True))


def _possible(shape: Shape, topology: Topology) -> bool:
    """Shapes that leave something to cut in this topology."""
    if shape is Shape.CONTROLLERS_FROM_BROKERS:
        return all(len(node.roles) == 1 for node in topology.nodes)
    if shape is Shape.LINK:
        return len(topology.brokers) > 1
    return len(topology.nodes) >= (3 if shape in (Shape.BRIDGE, Shape.MAJORITY_MINORITY) else 2)


def _separate_roles(topology: Topology) -> None:
    if both := [node.name for node in topology.nodes if node.roles == {ServerRole.BROKER, ServerRole.CONTROLLER}]:
        raise Refused(f"{', '.join(both)} is controller and broker at once and cannot be cut from itself")
