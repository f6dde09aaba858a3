"""Cuts of a race: who no longer hears whom, proved by probes, until they are healed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from nemesis.proof import observed
from nemesis.races.books import FaultBook, StepBook
from nemesis.stage import Stage as Cluster
from nodes.network import Cut

PROVE_S = 15.0
Names = str | Sequence[str]
Pairs = list[tuple[str, str]]  # (source, destination)


class Links:
    def __init__(self, cluster: Cluster, steps: StepBook, faults: FaultBook) -> None:
        self._cluster, self._steps, self._faults = cluster, steps, faults
        self._cuts: dict[int, tuple[str, Pairs]] = {}  # fault -> what was cut, in words and in pairs

    async def cut(self, one: Names, other: Names, *, one_way: bool = False) -> int:
        """Packets between them vanish: silence, not errors. one_way: only what `one` sends to `other`. For `heal`."""
        here, there = _names(one), _names(other)
        pairs = [(a, b) for a in here for b in there]
        pairs += [] if one_way else [(b, a) for a, b in pairs]
        arrow = "→" if one_way else "↔"
        text = f"{' '.join(here)} {arrow} {' '.join(there)}"
        async with self._steps.step("cut", f"cut {text}", (*here, *there)) as now:
            number = self._faults.open("cut", (*here, *there), undo=_undo, settings={"one_way": one_way})
            await self._cluster.network.cut(
                [
                    Cut(id=_id(number), at=at, sources=tuple(s for s, d in pairs if d == at))
                    for at in sorted({d for _, d in pairs})
                ]
            )
            self._cuts[number] = (text, pairs)
            await observed(lambda: self._passing(pairs), within=PROVE_S)
            now.seen = f"a probe along each of {len(pairs)} one-way paths got lost"
            self._faults.proved(number, now.seen)
        return number

    async def heal(self, *cuts: int) -> None:
        """Heal these cuts, or all of them."""
        for number in cuts or tuple(self._cuts):
            text, pairs = self._cuts[number]
            nodes = tuple(dict.fromkeys(name for pair in pairs for name in pair))
            async with self._steps.step("heal", f"heal {text}", nodes):
                await self._heal(number)

    async def heal_all(self) -> None:
        await self.heal()

    async def _heal(self, number: int) -> None:
        _, pairs = self._cuts[number]
        self._faults.healing(number)
        await self._cluster.network.heal([_id(number)])
        del self._cuts[number]
        still = {pair for _, others in self._cuts.values() for pair in others}
        free = [pair for pair in pairs if pair not in still]
        await observed(lambda: self._stopped(free), within=PROVE_S)
        self._faults.healed(number, "a probe gets through again")

    async def _passing(self, pairs: Pairs) -> str | None:
        passed = [pair for pair, arrived in await self._probe(pairs) if arrived]
        return f"a probe still gets from {passed[0][0]} to {passed[0][1]}" if passed else None

    async def _stopped(self, pairs: Pairs) -> str | None:
        lost = [pair for pair, arrived in await self._probe(pairs) if not arrived]
        return f"a probe does not get from {lost[0][0]} to {lost[0][1]}" if lost else None

    async def _probe(self, pairs: Pairs) -> list[tuple[tuple[str, str], bool]]:
        arrived = await asyncio.gather(*(self._cluster.network.reaches(*pair) for pair in pairs))
        return list(zip(pairs, arrived, strict=True))


def _id(number: int) -> str:
    return f"race-{number}"


def _undo(number: int) -> list[dict[str, Any]]:
    return [{"do": "heal-cuts", "ids": [_id(number)]}]


def _names(given: Names) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
