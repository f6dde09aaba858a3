"""Faults on the wire: what a node says, and what is said to it, comes late, twice, or not at all, by link or by API.

    slow-link       every frame between a node and the others takes longer, both ways
    lossy-link      connections between a node and the others are reset at random
    delay-rpc       requests of some APIs that a node sends come late
    duplicate-rpc   ... come twice (the sender gets one answer)
    cut-rpc         ... never come: a broker that cannot send heartbeats but goes on fetching

They are rules of the wire gate (nemesis/wire/rule.py), all with the fault's id. Proof: the gate counted frames that a rule acted on.
Healed: the rules are out of the gate, and the same frames were seen to pass, untouched, unless the node's process does not run. APIs
that are only used now and then (all but USUAL) need not be seen: the proof then says how many came. Nothing needs undoing after a
crash: the gate, and with it its rules and every connection through it, dies with the run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

from nemesis.durations import Seconds
from nemesis.fault import Proof, Refused
from nemesis.kinds import Order
from nemesis.proof import observed
from nemesis.stage import Stage
from nemesis.targets import resolve
from nemesis.wire.gate import Armed, BadRule, Counts, Gate
from nemesis.wire.message import Direction
from nemesis.wire.rule import Act, Close, Delay, Drop, Duplicate, Match, Rule, Watch
from nodes.backend import Capability
from nodes.node import Running
from nodes.topology import Topology

USUAL: Final = frozenset({"BrokerHeartbeat", "Fetch"})  # sent all the time by every broker
CONTROL_PLANE: Final = (
    "BrokerHeartbeat",
    "BrokerRegistration",
    "AlterPartition",
    "AllocateProducerIds",
    "AssignReplicasToDirs",
)


class LinkSettings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    peer: str | None = Field(None, description="only the link to this server; all of them when left out")
    clients: bool = Field(False, description="clients' connections to the target, too; leads them through the gate")


class SlowLinkSettings(LinkSettings):
    delay: Seconds = Field(0.05, gt=0, description="how much longer a frame takes, one way")
    jitter: Seconds = Field(0.0, description="standard deviation of that")


class LossyLinkSettings(LinkSettings):
    chance: float = Field(0.01, gt=0, le=1, description="of a request to meet a reset instead")


class RpcSettings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    apis: list[str] = Field(list(CONTROL_PLANE), min_length=1, description="Kafka's names of the requests")
    peer: str | None = Field(None, description="only those to this server; to all of them when left out")

    @field_validator("apis")
    @classmethod
    def _known(cls, names: list[str]) -> list[str]:
        from nemesis.wire.apis import KEYS  # slow to import, and most specs have no such fault

        if unknown := [name for name in names if name not in KEYS]:
            raise ValueError(f"Kafka has no api {', '.join(unknown)}; it has {', '.join(sorted(KEYS))}")
        return names


class DelayRpcSettings(RpcSettings):
    delay: Seconds = Field(1.0, gt=0, description="how much later they come")
    jitter: Seconds = Field(0.0, description="standard deviation of that")


class CutRpcSettings(RpcSettings):
    apis: list[str] = Field(["BrokerHeartbeat"], min_length=1, description="Kafka's names of the requests")


Rules = Sequence[tuple[Match, Act]]


def slow_link(settings: SlowLinkSettings, target: str, draw: int) -> Rules:
    act = Delay(mean_s=settings.delay, jitter_s=settings.jitter, seed=draw)
    return [
        (Match(source=source, destination=destination, direction=direction), act)
        for source, destination in _links(settings, target)
        for direction in Direction
    ]


def lossy_link(settings: LossyLinkSettings, target: str, draw: int) -> Rules:
    act = Close(chance=settings.chance, seed=draw)
    return [(Match(source=source, destination=destination), act) for source, destination in _links(settings, target)]


def delay_rpc(settings: DelayRpcSettings, target: str, draw: int) -> Rules:
    return _rpc(settings, target, Delay(mean_s=settings.delay, jitter_s=settings.jitter, seed=draw))


def duplicate_rpc(settings: RpcSettings, target: str, draw: int) -> Rules:
    return _rpc(settings, target, Duplicate())


def cut_rpc(settings: RpcSettings, target: str, draw: int) -> Rules:
    return _rpc(settings, target, Drop())


def _links(settings: LinkSettings, target: str) -> list[tuple[str | None, str | None]]:
    """(source, destination) of the connections between a target and the others."""
    return [(target, settings.peer), ("*" if settings.clients and settings.peer is None else settings.peer, target)]


def _rpc(settings: RpcSettings, target: str, act: Act) -> Rules:
    return [(Match(source=target, destination=settings.peer, api=api), act) for api in settings.apis]


class WireFault:
    """What the kinds share; each says in `make` which rules it is, of which only the first that matches acts."""

    kind: ClassVar[str]
    make: ClassVar[Callable[..., Rules]]
    did: ClassVar[str]  # what happened to a frame, in words
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.WIRE})
    Settings: ClassVar[type[BaseModel]]
    holds_processes: ClassVar[bool] = False
    risks_data: ClassVar[bool] = False

    def __init__(self, order: Order) -> None:
        self.order = order
        self.name = self.kind
        self.hit: tuple[str, ...] = ()
        self.planned: list[Rule] = []
        self.armed: list[Armed] = []

    @classmethod
    def rules(cls, settings: BaseModel, topology: Topology) -> Sequence[str]:
        return ("random broker", "leader of a random partition")

    @classmethod
    def settle(cls, settings: BaseModel, topology: Topology, rng: random.Random) -> BaseModel:
        return settings

    def targets(self) -> list[str]:
        return list(self.hit)

    def undo(self) -> list[dict[str, Any]]:
        return []

    async def prepare(self, on: Stage) -> None:
        self._gate(on)
        self.hit = resolve(self.order.rule, on.topology, await on.view(), self.order.draw)
        matches = [
            each for target in self.hit for each in type(self).make(self.order.settings, target, self.order.draw)
        ]
        self.planned = [
            Rule(id=f"fault-{self.order.fault}.{number}", match=match, act=act)
            for number, (match, act) in enumerate(matches)
            if match.destination not in on.clients  # nobody connects to a client
        ]

    async def inject(self, on: Stage) -> Proof:
        self.armed = await self._arm(on, self.planned)
        if self._is_usual():
            await observed(lambda: self._missing_effect(), within=self.order.prove_s)
        struck = sum(_acted(armed.counts) for armed in self.armed)
        seen = f"{struck} frames {self.did} so far"
        return Proof(
            sentence=seen if self._is_usual() else f"{len(self.armed)} rules are armed; {seen}",
            counts={"frames": struck},
        )

    async def _missing_effect(self) -> str | None:
        return (
            None
            if any(_acted(armed.counts) for armed in self.armed)
            else f"no frame of {', '.join(self.hit)} {self.did}"
        )

    async def heal(self, on: Stage) -> Proof:
        for armed in self.armed:
            await armed.disarm()
        struck = sum(_acted(armed.counts) for armed in self.armed)
        running = [name for name in self.hit if name in on.clients or isinstance(await on.nodes[name].state(), Running)]
        after = [Rule(id=f"{rule.id}.after", match=rule.match, act=Watch()) for rule in self.planned]
        watching = await self._arm(on, after)
        try:
            if running and self._is_usual():
                await observed(lambda: self._missing_healing(watching), within=self.order.prove_s)
        finally:
            for armed in watching:
                await armed.disarm()
        passed = sum(armed.counts.matched for armed in watching)
        return Proof(
            sentence=f"its rules are gone after {struck} frames {self.did}; {passed} such frames were seen to pass since",
            counts={"frames": struck, "passed": passed},
        )

    async def _missing_healing(self, watching: Sequence[Armed]) -> str | None:
        return None if any(armed.counts.matched for armed in watching) else f"no frame of {', '.join(self.hit)} passes"

    async def _arm(self, on: Stage, rules: Sequence[Rule]) -> list[Armed]:
        """All or none."""
        gate, armed = self._gate(on), []
        try:
            for rule in rules:
                armed.append(await gate.arm(rule))
        except BadRule as bad:
            for one in armed:
                await one.disarm()
            raise Refused(str(bad)) from None
        return armed

    def _gate(self, on: Stage) -> Gate:
        if on.gate is None:
            raise Refused("this run has no wire gate: `wire: off`, or the backend cannot have one")
        return on.gate

    def _is_usual(self) -> bool:
        """Are such frames sent all the time?"""
        return any(rule.match.api is None or rule.match.api in USUAL for rule in self.planned)


def _acted(counts: Counts) -> int:
    return counts.delayed + counts.dropped + counts.duplicated + counts.closed


class SlowLink(WireFault):
    kind = "slow-link"
    Settings = SlowLinkSettings
    make = staticmethod(slow_link)
    did = "came late"


class LossyLink(WireFault):
    kind = "lossy-link"
    Settings = LossyLinkSettings
    make = staticmethod(lossy_link)
    did = "met a reset"


class DelayRpc(WireFault):
    kind = "delay-rpc"
    Settings = DelayRpcSettings
    make = staticmethod(delay_rpc)
    did = "came late"


class DuplicateRpc(WireFault):
    kind = "duplicate-rpc"
    Settings = RpcSettings
    make = staticmethod(duplicate_rpc)
    did = "came twice"


class CutRpc(WireFault):
    kind = "cut-rpc"
    Settings = CutRpcSettings
    make = staticmethod(cut_rpc)
    did = "never came"
