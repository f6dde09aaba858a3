"""Processes: kill -9 and restart, graceful restart, pause and resume.

    kill      SIGKILL; proof: the process is gone by signal 9 and no longer answers its protocol
    restart   SIGTERM, so that a broker hands its leaderships over; proof: it is gone, and not by signal 9
    pause     SIGSTOP of the whole group; proof: it is stopped and does not answer its protocol (its kernel still accepts connections)

Kill and pause also take clients ("w1", "random client", "all clients"): their process has no protocol to answer, so that it is gone,
stopped or running again is the proof. What a killed client had in flight is of unknown outcome for ever, and its consumers leave
their groups without a word; a new process takes its place.

All three are healed when the nodes answer their protocol again and the brokers among them are unfenced. A node that stays down for the
fault's duration is started again by `heal`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from nemesis.fault import Proof, Refused, Unproved
from nemesis.kinds import Order
from nemesis.proof import in_words, missing_to_be_back, observed
from nemesis.stage import Stage
from nemesis.targets import resolve
from nodes.backend import Capability
from nodes.node import Gone, Node, Paused, Running
from nodes.topology import Topology

SIGKILLED = -9


class NoSettings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RestartSettings(NoSettings):
    timeout_s: float = Field(60.0, gt=0, description="how long a graceful stop may take, in seconds")


def machine(on: Stage, name: str) -> Node:
    """A server or a client."""
    return on.nodes[name] if name in on.nodes else on.clients[name]


async def running_targets(order: Order, on: Stage, *, clients: bool = False) -> tuple[str, ...]:
    """What the rule means now; Refused when one of these does not run, or is a client where only servers will do."""
    targets = resolve(order.rule, on.topology, await on.view(), order.draw)
    for name in targets:
        if name not in on.nodes and not clients:
            raise Refused(f"{name} is a client, and can only be killed, paused or cut off")
        state = await machine(on, name).state()
        if not isinstance(state, Running):
            raise Refused(f"{name} {in_words(state)}")
    return targets


async def kill(on: Stage, names: Sequence[str], within: float) -> None:
    """SIGKILL, and look: gone by signal 9 (or by a cause that the backend cannot tell), no answer."""
    await asyncio.gather(*(on.kill(name) for name in names))

    async def alive() -> str | None:
        for name in names:
            state = await machine(on, name).state()
            if state not in (Gone(SIGKILLED), Gone(None)):
                return f"{name} {in_words(state)}, not killed"
            if await _answers(on, name):
                return f"{name} still answers its protocol"
        return None

    await observed(alive, within=within)


async def _answers(on: Stage, name: str) -> bool:
    return name in on.nodes and await on.answers(name)


async def bring_back(on: Stage, names: tuple[str, ...], within: float) -> None:
    """Start what is gone, resume what is paused, and look until all of them are of use again."""
    for name in names:
        node = machine(on, name)
        if isinstance(await node.state(), Paused):
            await on.resume(name)
        if isinstance(await node.state(), Gone):
            await on.start(name)
    await observed(lambda: missing_to_be_back(on, names), within=within)


class _ProcessFault:
    needs: ClassVar[frozenset[Capability]] = frozenset()
    holds_processes: ClassVar[bool] = True
    risks_data: ClassVar[bool] = False
    hits_clients: ClassVar[bool] = True

    def __init__(self, order: Order) -> None:
        self.order = order
        self.hit: tuple[str, ...] = ()

    @classmethod
    def rules(cls, settings: Any, topology: Topology) -> Sequence[str]:
        always = ("random broker", "leader of a random partition")
        return (*always, "active controller") if len(topology.controllers) > 1 else always

    @classmethod
    def settle(cls, settings: Any, topology: Topology, rng: random.Random) -> BaseModel:
        settled: BaseModel = settings
        return settled

    def targets(self) -> list[str]:
        return list(self.hit)

    async def prepare(self, on: Stage) -> None:
        self.hit = await running_targets(self.order, on, clients=self.hits_clients)


class Kill(_ProcessFault):
    kind: ClassVar[str] = "kill"
    Settings: ClassVar[type[BaseModel]] = NoSettings
    name = "kill"

    def undo(self) -> list[dict[str, Any]]:
        """Clients are of this run only: nobody needs them back after it."""
        return [{"do": "start", "node": name} for name in self.hit if name not in self._clients]

    async def prepare(self, on: Stage) -> None:
        await super().prepare(on)
        self._clients = frozenset(on.clients)

    async def inject(self, on: Stage) -> Proof:
        await kill(on, self.hit, self.order.prove_s)
        return Proof(
            sentence=f"{_and(self.hit)} gone by SIGKILL{_silent(on, self.hit)}", counts={"killed": len(self.hit)}
        )

    async def heal(self, on: Stage) -> Proof:
        await bring_back(on, self.hit, self.order.recover_s)
        return Proof(
            sentence=f"{_and(self.hit)} started again{_serving(on, self.hit)}", counts={"started": len(self.hit)}
        )


class Restart(_ProcessFault):
    kind: ClassVar[str] = "restart"
    Settings: ClassVar[type[BaseModel]] = RestartSettings
    hits_clients: ClassVar[bool] = False
    name = "restart"

    def undo(self) -> list[dict[str, Any]]:
        return [{"do": "start", "node": name} for name in self.hit]

    async def inject(self, on: Stage) -> Proof:
        timeout = self.order.settings.timeout_s
        codes = dict(
            zip(self.hit, await asyncio.gather(*(on.stop(name, timeout=timeout) for name in self.hit)), strict=True)
        )

        async def alive() -> str | None:
            for name in self.hit:
                state = await on.nodes[name].state()
                if not isinstance(state, Gone) or state.code == SIGKILLED:
                    return f"{name} {in_words(state)}, not stopped by itself"
                if await on.answers(name):
                    return f"{name} still answers its protocol"
            return None

        await observed(alive, within=self.order.prove_s)
        said = ", ".join(f"{name} stopped by itself (exit code {code})" for name, code in codes.items())
        return Proof(sentence=said, counts={"stopped": len(codes)})

    async def heal(self, on: Stage) -> Proof:
        for name in self.hit:
            if not isinstance(await on.nodes[name].state(), Gone) and not await on.answers(name):
                await on.kill(name)  # it hangs in its shutdown
        await bring_back(on, self.hit, self.order.recover_s)
        return Proof(sentence=f"{_and(self.hit)} started again: answering, unfenced", counts={"started": len(self.hit)})


class Pause(_ProcessFault):
    kind: ClassVar[str] = "pause"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.PAUSE})
    Settings: ClassVar[type[BaseModel]] = NoSettings
    name = "pause"

    def undo(self) -> list[dict[str, Any]]:
        return [{"do": "resume", "node": name} for name in self.hit]

    async def prepare(self, on: Stage) -> None:
        if Capability.PAUSE not in on.capabilities:
            raise Refused("this backend cannot pause a process")
        await super().prepare(on)

    async def inject(self, on: Stage) -> Proof:
        await asyncio.gather(*(on.pause(name) for name in self.hit))
        await observed(lambda: self._lively(on), within=self.order.prove_s)
        return Proof(
            sentence=f"{_and(self.hit)} stopped by SIGSTOP{_silent(on, self.hit)}", counts={"paused": len(self.hit)}
        )

    async def _lively(self, on: Stage) -> str | None:
        for name in self.hit:
            state = await machine(on, name).state()
            if isinstance(state, Gone):
                raise Unproved(f"{name} {in_words(state)} although it was only paused")
            if not isinstance(state, Paused):
                return f"{name} {in_words(state)}"
            if await _answers(on, name):
                return f"{name} still answers its protocol"
        return None

    async def heal(self, on: Stage) -> Proof:
        await bring_back(on, self.hit, self.order.recover_s)
        return Proof(sentence=f"{_and(self.hit)} resumed{_serving(on, self.hit)}", counts={"resumed": len(self.hit)})


def _silent(on: Stage, names: Sequence[str]) -> str:
    return ", no answer" if any(name in on.nodes for name in names) else ""


def _serving(on: Stage, names: Sequence[str]) -> str:
    return ": answering, unfenced" if any(name in on.nodes for name in names) else ""


def _and(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"
