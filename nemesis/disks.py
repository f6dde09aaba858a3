"""Disks: take away what a node had stored, and bring the node back without it.

    wipe       kill -9, delete the whole data directory (by choice but for meta.properties, or keeping its directory id), start again
    roll-back  copy the data directory, wait, kill -9, put the copy in its place, start again: the writes in between never happened
    power-loss nemesis/power_loss.py

In safe mode (`nemesis/safety.py`) each of these first kills its target and waits until every partition is led and in sync without it, and
only then touches the disk; they run alone, and are healed only when the broker is back in every ISR it belongs to. Where the rule does not
hold the fault is refused.

Killing does not lose what was written (the page cache stays), so the disk is what makes these different from `kill`. Sources of the
variants: research on disk replacement in KRaft (KIP-858 directory ids, KAFKA-14139).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from nemesis.fault import Proof, Refused, Unproved
from nemesis.kinds import Order
from nemesis.processes import NoSettings, bring_back, kill, running_targets
from nemesis.proof import missing_replicas, observed
from nemesis.safety import still_leads, why_unsafe
from nemesis.stage import Stage
from nodes.backend import Capability
from nodes.node import Node
from nodes.topology import Topology

DATA = "data"
META = "meta.properties"


class WipeSettings(NoSettings):
    keep_meta: bool | None = Field(None, description="leave meta.properties where it is; drawn when left out")
    keep_directory_id: bool | None = Field(
        None, description="the new disk gets the old one's directory id; drawn when left out"
    )


class RollBackSettings(NoSettings):
    age_s: float = Field(3.0, gt=0, description="age of the copy when it is put back, in seconds")


class DiskFault:
    """The frame of all three: kill, wait until it is safe, `lose`, and later bring the nodes back into every ISR."""

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.FILES})
    holds_processes: ClassVar[bool] = True
    risks_data: ClassVar[bool] = True
    name: str

    def __init__(self, order: Order) -> None:
        self.order = order
        self.hit: tuple[str, ...] = ()

    @classmethod
    def rules(cls, settings: Any, topology: Topology) -> Sequence[str]:
        return ("random broker", "leader of a random partition", "a follower in the isr of a random partition")

    @classmethod
    def settle(cls, settings: Any, topology: Topology, rng: random.Random) -> BaseModel:
        settled: BaseModel = settings
        return settled

    def targets(self) -> list[str]:
        return list(self.hit)

    def undo(self) -> list[dict[str, Any]]:
        return [{"do": "start", "node": name} for name in self.hit]

    async def prepare(self, on: Stage) -> None:
        if Capability.FILES not in on.capabilities:
            raise Refused("this backend cannot change a node's files")
        self.hit = await running_targets(self.order, on)
        if not self.order.safe:
            return
        if self.order.others:
            raise Refused(f"not alone: fault {', '.join(map(str, self.order.others))} is still active")
        if reason := why_unsafe(self.hit, on.topology, await on.view()):
            raise Refused(reason)

    async def inject(self, on: Stage) -> Proof:
        await kill(on, self.hit, self.order.prove_s)
        if self.order.safe:
            await self._not_needed(on)
        return await self.lose(on)

    async def _not_needed(self, on: Stage) -> None:
        """Nothing is led by the dead nodes or waits for them, and the rule still holds: only now nobody misses their disks."""

        async def needed() -> str | None:
            return still_leads(self.hit, on.topology, await on.view())

        try:
            await observed(needed, within=self.order.recover_s)
        except Unproved as unproved:
            raise Refused(f"its disk was left alone: {unproved}") from None
        if reason := why_unsafe(self.hit, on.topology, await on.view()):
            raise Refused(f"its disk was left alone: {reason}")

    async def lose(self, on: Stage) -> Proof:
        raise NotImplementedError

    async def heal(self, on: Stage) -> Proof:
        await bring_back(on, self.hit, self.order.recover_s)
        await observed(lambda: missing_replicas(on, self.hit), within=self.order.recover_s)
        who = ", ".join(self.hit)
        return Proof(sentence=f"{who} answering, unfenced and in every isr again", counts={"started": len(self.hit)})


class Wipe(DiskFault):
    kind: ClassVar[str] = "wipe"
    Settings: ClassVar[type[BaseModel]] = WipeSettings
    name = "wipe"

    @classmethod
    def settle(cls, settings: WipeSettings, topology: Topology, rng: random.Random) -> WipeSettings:
        keep_meta, keep_directory_id = rng.randrange(2) == 1, rng.randrange(2) == 1
        meta = keep_meta if settings.keep_meta is None else settings.keep_meta
        directory_id = keep_directory_id if settings.keep_directory_id is None else settings.keep_directory_id
        return WipeSettings(keep_meta=meta, keep_directory_id=meta or directory_id)

    async def lose(self, on: Stage) -> Proof:
        gone = dict(zip(self.hit, await asyncio.gather(*(self._wipe(on, name) for name in self.hit)), strict=True))
        kept = "meta.properties kept" if self.order.settings.keep_meta else "nothing kept"
        said = ", ".join(f"{count} files of {name}" for name, count in gone.items())
        return Proof(sentence=f"{said} are gone, {kept}", counts=gone)

    async def _wipe(self, on: Stage, name: str) -> int:
        """Returns how many files are gone."""
        node, settings = on.nodes[name], self.order.settings
        before = await node.list(DATA)
        keep = (META,) if settings.keep_meta else ()
        await node.wipe(DATA, keep=keep)
        left = [path for path in await node.list(DATA) if path not in keep]
        if left or not before:
            raise Unproved(f"{name}: {len(left)} of {len(before)} files are still there: {', '.join(left[:3])}")
        await on.reformat(name, keep_meta=settings.keep_meta, keep_directory_id=settings.keep_directory_id)
        return len(before) - len(keep)


class RollBack(DiskFault):
    """The copy is taken while the process is stopped for a moment, so that it is one moment's picture."""

    kind: ClassVar[str] = "roll-back"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.FILES, Capability.PAUSE})
    Settings: ClassVar[type[BaseModel]] = RollBackSettings
    name = "roll-back"

    def undo(self) -> list[dict[str, Any]]:
        return [{"do": "resume", "node": name} for name in self.hit] + super().undo()

    async def inject(self, on: Stage) -> Proof:
        for name in self.hit:
            await on.pause(name)
            try:
                await on.nodes[name].copy(DATA, self._copy())
            finally:
                await on.resume(name)
        await asyncio.sleep(self.order.settings.age_s)
        return await super().inject(on)

    def _copy(self) -> str:
        return f"copies/fault-{self.order.fault}"

    async def lose(self, on: Stage) -> Proof:
        lost = dict(
            zip(self.hit, await asyncio.gather(*(self._put_back(on.nodes[name]) for name in self.hit)), strict=True)
        )
        said = ", ".join(f"{size} bytes of {name}" for name, size in lost.items())
        return Proof(sentence=f"{said} written in the last {self.order.settings.age_s:g} s are gone", counts=lost)

    async def _put_back(self, node: Node) -> int:
        """Returns how many bytes of log segments the copy lacks."""
        now, then = await log_sizes(node, DATA), await log_sizes(node, self._copy())
        await node.copy(self._copy(), DATA)
        after = await log_sizes(node, DATA)
        lost = sum(now.values()) - sum(after.values())
        if after != then or lost <= 0:
            raise Unproved(f"{node.name}: its logs held {sum(now.values())} bytes and hold {sum(after.values())} now")
        await node.wipe("copies")
        return lost


async def log_sizes(node: Node, directory: str) -> dict[str, int]:
    """Size in bytes of every log segment below a directory, by its path relative to it."""
    segments = [path for path in await node.list(directory) if path.endswith(".log")]
    if not segments:
        return {}
    paths = tuple(node.absolute(f"{directory}/{path}") for path in segments)
    done = await node.run(("stat", "-c", "%s", *paths), timeout=30)
    if done.code != 0:
        raise Unproved(f"{node.name}: stat says {done.stderr.decode(errors='replace').strip()}")
    return dict(zip(segments, map(int, done.stdout.split()), strict=True))
