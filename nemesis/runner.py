"""The nemesis at work: takes a plan through its faults' lives, and leaves nothing broken.

Each planned fault waits for its moment (a time or a trigger) and its turn, is made and prepared, journalled, injected and proved, stays for
its duration, is healed and proved healed. Every change appends its row. Turns: in a mix one fault at a time with quiet after it, unless
`overlap`; a fault that takes data runs alone in safe mode, whatever the schedule.

Refused faults are tried again within their slot, then given up: that is no error. A fault whose effect or healing could not be proved is
healed, its row says `failed`, and the run goes on, but `Outcome.problems` is not empty: the harness cannot vouch for what it did, and the
run is a harness error. At the end (time limit, `stop()`, cancellation) everything still active is healed, the last one first.

A server that dies although no fault asked for it is reported in `Outcome.crashes`; it stays down until the end, when it is started again so
that the final reads can judge.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nemesis.fault import FaultRow, FaultStatus, Refused
from nemesis.journal import HealJournal
from nemesis.kinds import FaultKind, Order, find
from nemesis.processes import bring_back
from nemesis.schedule import PlannedFault
from nemesis.settings import NemesisSettings
from nemesis.stage import Stage
from nemesis.targets import parse
from nemesis.triggers import Life, Scene, first, wait_for

RETRY_S = 1.0
WATCH_S = 0.25
HEAL_ATTEMPTS = 3


@dataclass(frozen=True, kw_only=True)
class Crash:
    """A server died and no fault had asked for it."""

    node: str
    at_ns: int
    sentence: str


@dataclass(kw_only=True)
class Outcome:
    """What the run must know. `problems` make it a harness error; `unhealed` is what is still broken now, with the reason."""

    problems: list[str] = field(default_factory=list)
    unhealed: list[str] = field(default_factory=list)
    crashes: list[Crash] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Reports:
    """Where the nemesis tells what it does."""

    record: Callable[[FaultRow], None]
    # what a rule came to, to be recorded beside the choices: {"rule": "leader of log-0", "draw": 17, "targets": ["b1"]}
    resolved: Callable[[int, dict[str, Any]], None] = lambda fault, what: None
    now_ns: Callable[[], int] = time.monotonic_ns
    clock: str = "local"


class Nemesis:
    def __init__(
        self,
        *,
        on: Stage,
        plan: Sequence[PlannedFault],
        settings: NemesisSettings,
        journal: HealJournal,
        reports: Reports,
        counted: Callable[[str], int] = lambda name: 0,
    ) -> None:
        self.on = on
        self.plan = list(plan)
        self.settings = settings
        self.journal = journal
        self.reports = reports
        self.outcome = Outcome()
        self.lives = {planned.fault: Life() for planned in plan}
        self.scene = Scene(on=on, lives=self.lives, counted=counted)
        self.rows: dict[int, FaultRow] = {}
        self.active: dict[int, FaultKind] = {}  # in the order in which they were injected
        self._free = asyncio.Event()
        self._ending = asyncio.Event()
        self._origin_ns = 0
        self._dead: set[str] = set()

    def stop(self) -> None:
        """End early: nothing new is broken, what is broken is healed, `run` returns."""
        self._ending.set()

    async def run(self, time_limit_s: float) -> Outcome:
        """Everything is healed when this returns, or named in the outcome. When cancelled it heals first, too."""
        working = asyncio.create_task(self._run(time_limit_s))
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            self.stop()
            await working
            raise

    async def _run(self, time_limit_s: float) -> Outcome:
        self._origin_ns = self.reports.now_ns()
        for planned in self.plan:
            self._row(planned.fault, **_first_row(planned, self.on.run, self.reports.clock))
        watching = asyncio.create_task(self._watch())
        lanes = asyncio.gather(*(self._lane(lane) for lane in self._lanes()))
        try:
            async with asyncio.timeout(time_limit_s):
                await self._ending.wait()
        except TimeoutError:
            self.stop()
        await lanes
        await self._heal_all()
        await _abandon([watching])
        self._notice_deaths()
        await self._revive()
        return self.outcome

    def _lanes(self) -> list[list[PlannedFault]]:
        """Faults of one lane follow each other; lanes run side by side."""
        mix = self.settings.mix
        return [self.plan] if mix is not None and not mix.overlap else [[planned] for planned in self.plan]

    async def _lane(self, lane: Sequence[PlannedFault]) -> None:
        for planned in lane:
            try:
                await self._live(planned)
            except Exception as error:  # noqa: BLE001 - whatever one fault's code raises must not end the run unhealed
                self._fail(planned.fault, error)
            if self.settings.mix is not None and not self._ending.is_set():
                await self._before_end(asyncio.sleep(self.settings.mix.quiet))

    # one fault

    async def _live(self, planned: PlannedFault) -> None:
        if not await self._before_end(self._moment(planned)):
            self._row(planned.fault, detail="the faults ended before its moment came")
            return
        now_ns = self.reports.now_ns()
        self._row(planned.fault, planned_ns=now_ns if planned.at_s is None else self._at_ns(planned.at_s))
        give_up_ns = now_ns + int(planned.slot_s * 1e9)
        kind = find(planned.kind)
        while True:
            if not await self._before_end(self._turn()):
                self._row(planned.fault, detail="the faults ended before its turn came")
                return
            refused = await self._attempt(planned, kind)
            if refused is None:
                return
            if self.reports.now_ns() >= give_up_ns or not await self._before_end(asyncio.sleep(RETRY_S)):
                self._row(planned.fault, status=FaultStatus.REFUSED, detail=refused)
                return

    async def _moment(self, planned: PlannedFault) -> None:
        if planned.at_s is not None:
            await asyncio.sleep((self._at_ns(planned.at_s) - self.reports.now_ns()) / 1e9)
        if planned.when is not None:
            await wait_for(planned.when, self.scene)
        await asyncio.sleep(planned.delay_s)

    async def _turn(self) -> None:
        while self._alone() is not None:
            self._free.clear()
            await self._free.wait()

    def _alone(self) -> int | None:
        """The active fault beside which nothing else may be broken."""
        risky = [number for number, fault in self.active.items() if self.settings.safe and fault.risks_data]
        return risky[0] if risky else None

    async def _attempt(self, planned: PlannedFault, kind: type[FaultKind]) -> str | None:
        """One try. Returns why it was refused before anything was done, None when it was done (well or not)."""
        number = planned.fault
        if (alone := self._alone()) is not None:
            return f"fault {alone} must be the only one"
        fault = kind(self._order(planned, kind))
        self.active[number] = fault
        try:
            await fault.prepare(self.on)
            self.lives[number].before = await self.on.view()
        except Refused as refused:
            self._release(number)
            return str(refused)
        except BaseException:
            self._release(number)
            raise
        if (why_not := self._taken(fault)) is not None or self._ending.is_set():
            self._release(number)
            return why_not or "the faults ended"
        self.reports.resolved(number, {"rule": planned.rule, "draw": planned.draw, "targets": fault.targets()})
        await asyncio.to_thread(self.journal.begin, number, fault.undo())
        self._row(number, name=fault.name, targets=tuple(fault.targets()), injecting_ns=self.reports.now_ns())
        try:
            proof = await fault.inject(self.on)
        except Refused as refused:
            self._row(number, status=FaultStatus.REFUSED, detail=str(refused))
        except Exception as error:  # noqa: BLE001 - a fault of any author may fail in any way; it is healed and reported
            self._fail(number, error)
        else:
            self._row(number, status=FaultStatus.ACTIVE, proved_ns=self.reports.now_ns(), proof=proof.sentence)
            self.lives[number].active.set()
            if await self._stayed_to_the_end(planned):
                return None  # _heal_all heals it, in its order
        await self._heal(number)
        return None

    async def _stayed_to_the_end(self, planned: PlannedFault) -> bool:
        try:
            return not await self._before_end(self._stay(planned))
        except Exception as error:  # noqa: BLE001 - its trigger looks at a cluster that is being broken
            self._fail(planned.fault, error, doing="waiting for its end")
            return False

    def _taken(self, fault: FaultKind) -> str | None:
        """Two faults that stop and start the same process would undo each other."""
        for number, other in self.active.items():
            both = set(fault.targets()) & set(other.targets())
            if other is not fault and both and fault.holds_processes and other.holds_processes:
                return f"fault {number} ({other.name}) has {', '.join(sorted(both))} in hand"
        return None

    def _order(self, planned: PlannedFault, kind: type[FaultKind]) -> Order:
        return Order(
            fault=planned.fault,
            rule=parse(planned.rule),
            settings=kind.Settings.model_validate(planned.settings),
            draw=planned.draw,
            safe=self.settings.safe,
            others=tuple(self.active),
            prove_s=self.settings.prove_within,
            recover_s=self.settings.recover_within,
        )

    async def _stay(self, planned: PlannedFault) -> None:
        """Until its duration is over or its `until` holds, whichever is first; for ever when it has neither."""
        waits: list[Coroutine[Any, Any, None]] = []
        if planned.duration_s is not None:
            waits.append(asyncio.sleep(planned.duration_s))
        if planned.until is not None:
            before = self.lives[planned.fault].before
            waits.append(wait_for(planned.until, self.scene, before))
        if not waits:
            await asyncio.Event().wait()
        await first(*waits)

    # healing

    async def _heal(self, number: int) -> None:
        """Heal one active fault, trying a few times. What cannot be healed stays active and is a problem."""
        fault = self.active[number]
        self._row(number, healing_ns=self.reports.now_ns())
        for attempt in range(1, HEAL_ATTEMPTS + 1):
            try:
                proof = await fault.heal(self.on)
            except Exception as error:  # noqa: BLE001 - see _attempt
                said = f"not healed (attempt {attempt} of {HEAL_ATTEMPTS}): {_say(error)}"
                self._row(number, detail=said)
                if attempt < HEAL_ATTEMPTS:
                    await asyncio.sleep(RETRY_S)
                    continue
                self._fail(number, error, doing="healing")
                return
            status = self.rows[number].status
            self._row(
                number,
                status=FaultStatus.HEALED if status == FaultStatus.ACTIVE else status,
                healed_ns=self.reports.now_ns(),
                heal_proof=proof.sentence,
            )
            await asyncio.to_thread(self.journal.end, number)
            self._release(number)
            self.lives[number].healed.set()
            return

    async def _heal_all(self) -> None:
        """Side by side, the last one first: one may need another healed before it can prove its own healing."""
        await asyncio.gather(*(self._heal(number) for number in reversed(list(self.active))))
        for number, fault in self.active.items():
            self.outcome.unhealed.append(
                f"fault {number} ({fault.name} on {', '.join(fault.targets())}): {self.rows[number].detail}"
            )

    def _release(self, number: int) -> None:
        del self.active[number]
        self._free.set()

    # servers that die by themselves

    async def _watch(self) -> None:
        while True:
            self._notice_deaths()
            await asyncio.sleep(WATCH_S)

    def _notice_deaths(self) -> None:
        deaths = dict(self.on.deaths)
        for name in deaths.keys() - self._dead:
            self.outcome.crashes.append(
                Crash(node=name, at_ns=self.reports.now_ns(), sentence=f"{name} {deaths[name]}")
            )
        self._dead = set(deaths)

    async def _revive(self) -> None:
        for name in sorted(self.on.deaths):
            try:
                await bring_back(self.on, (name,), self.settings.recover_within)
            except Exception as error:  # noqa: BLE001 - reported as what could not be brought back
                self.outcome.unhealed.append(f"{name} died by itself and does not come back: {_say(error)}")

    # rows and waiting

    def _fail(self, number: int, error: Exception, doing: str = "") -> None:
        row = self.rows[number]
        said = f"{doing + ': ' if doing else ''}{_say(error)}"
        self._row(number, status=FaultStatus.FAILED, detail=said)
        self.outcome.problems.append(f"fault {number} ({row.name} on {row.rule}) {said}")

    def _row(self, number: int, **changes: Any) -> None:
        row = self.rows.get(number)
        self.rows[number] = FaultRow(**changes) if row is None else replace(row, **changes)
        self.reports.record(self.rows[number])

    def _at_ns(self, at_s: float) -> int:
        return self._origin_ns + int(at_s * 1e9)

    async def _before_end(self, waiting: Coroutine[Any, Any, None]) -> bool:
        """Wait for something, but not beyond the end of the faults. True: it came."""
        if self._ending.is_set():
            waiting.close()
            return False
        task, end = asyncio.ensure_future(waiting), asyncio.ensure_future(self._ending.wait())
        try:
            await asyncio.wait({task, end}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
                return True
            return False
        finally:
            await _abandon([task, end])


async def _abandon(tasks: Sequence[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _say(error: Exception) -> str:
    return str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"


def _first_row(planned: PlannedFault, run: str, clock: str) -> dict[str, Any]:
    settings = planned.settings | {"duration_s": planned.duration_s, "draw": planned.draw}
    return {
        "run": run,
        "clock": clock,
        "fault": planned.fault,
        "name": planned.kind,
        "rule": planned.rule,
        "targets": (),
        "settings": json.dumps({key: value for key, value in settings.items() if value is not None}, sort_keys=True),
        "status": FaultStatus.PLANNED,
        "planned_ns": None,
        "injecting_ns": None,
        "proved_ns": None,
        "healing_ns": None,
        "healed_ns": None,
        "proof": None,
        "heal_proof": None,
        "detail": None,
    }
