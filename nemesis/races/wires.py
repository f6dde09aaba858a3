"""Wire rules of a race: hold, drop, delay or duplicate one RPC between any two nodes, and let it go again."""

from __future__ import annotations

from typing import Literal

from nemesis.races.books import FaultBook, NotReached, StepBook
from nemesis.races.hold import Hold, describe
from nemesis.wire.gate import Gate
from nemesis.wire.message import Direction
from nemesis.wire.rule import Act, Delay, Drop, Duplicate, Match, Rule
from nemesis.wire.rule import Hold as HoldAct


class Wires:
    def __init__(self, gate: Gate | None, steps: StepBook, faults: FaultBook) -> None:
        self._gate, self._steps, self._faults = gate, steps, faults
        self._holds: list[Hold] = []

    async def hold(
        self,
        api: str,
        *,
        source: str | None = None,
        destination: str | None = None,
        where: str | None = None,
        first: int | None = None,
        response: bool = False,
        client_id: str | None = None,
    ) -> Hold:
        """From now on keep back every such request (or response, or only the first so many) that goes from `source` to `destination`.

        where: predicate on decoded fields, such as "newIsr contains 2". For `held`, `release`, `answered`, `lift`.
        """
        match = Match(
            api=api,
            source=source,
            destination=destination,
            where=where,
            direction=_direction(response=response),
            client_id=client_id,
        )
        return await self.rule("hold", match, HoldAct(first=first))

    async def drop(self, api: str, *, response: bool = False, **match: str | None) -> Hold:
        """Such requests vanish, or responses, whose connection is closed. `match`: source, destination, where, client_id."""
        direction = _direction(response=response)
        return await self.rule("drop", Match(api=api, direction=direction, **match), Drop())  # type: ignore[arg-type]  # text

    async def duplicate(self, api: str, **match: str | None) -> Hold:
        """Such requests are sent twice; their caller gets one response."""
        return await self.rule("duplicate", Match(api=api, **match), Duplicate())  # type: ignore[arg-type]

    async def delay(self, api: str, seconds: float, **match: str | None) -> Hold:
        return await self.rule("delay", Match(api=api, **match), Delay(mean_s=seconds))  # type: ignore[arg-type]

    async def rule(self, verb: str, match: Match, act: Act) -> Hold:
        """Any rule of nemesis/wire/rule.py; `verb` is its name in the story."""
        if self._gate is None:
            raise RuntimeError("this race has no wire gate: declare it with gate=True")
        who = f"{match.source or 'anybody'} → {match.destination or 'anybody'}"
        where = f" with {match.where}" if match.where else ""
        what = f"{match.api} {match.direction}s" if match.direction is Direction.RESPONSE else f"{match.api}"
        nodes = tuple(one for one in (match.source, match.destination) if one and "*" not in one)
        async with self._steps.step(verb, f"{verb} {what} {who}{where}", nodes):
            settings = {"api": match.api, "where": match.where, "source": match.source, "to": match.destination}
            fault = self._faults.open(verb, nodes, undo=[], settings=settings)
            armed = await self._gate.arm(Rule(id=f"race-{fault}", match=match, act=act))
            hold = Hold(armed, verb=verb, fault=fault)
            self._holds.append(hold)
            return hold

    async def release(
        self, hold: Hold, which: Literal["all", "one"] = "all", *, order: Literal["as held", "reversed"] = "as held"
    ) -> None:
        """Let go what is held now; what comes later is held again (`lift` ends that). Nothing held: not reached."""
        async with self._steps.step("release", f"release {hold.what}", hold.nodes) as now:
            if not hold.messages:
                raise NotReached(f"{hold.what} is held", "the rule caught nothing")
            self._proved(hold)
            self._faults.healing(hold.fault)
            now.message, now.seen = hold.messages[0].message, describe(hold.messages[0])
            await hold.armed.release(which, order)
            self._faults.healed(hold.fault, "released")

    async def lift(self, hold: Hold) -> None:
        """End the rule; what it still holds goes on."""
        async with self._steps.step("lift", f"no longer {hold.verb} {hold.what}", hold.nodes):
            await self._lift(hold)

    async def lift_all(self) -> None:
        for hold in [one for one in self._holds if not one.lifted]:
            await self._lift(hold)
        for hold in self._holds:
            await hold.close()

    async def _lift(self, hold: Hold) -> None:
        counts = hold.armed.counts
        self._proved(hold)
        await hold.armed.disarm()
        hold.lifted = True
        if counts.matched == 0 and not hold.messages:
            self._faults.never(hold.fault, "no frame matched")
        elif hold.fault in self._faults.active():
            self._faults.healed(hold.fault, "the rule was ended")

    def _proved(self, hold: Hold) -> None:
        """A rule is a fault from the first frame that it caught."""
        if hold.messages and not self._faults.is_proved(hold.fault):
            first = hold.messages[0]
            self._faults.proved(hold.fault, describe(first), at_ns=first.in_ns)


def _direction(*, response: bool) -> Direction:
    return Direction.RESPONSE if response else Direction.REQUEST
