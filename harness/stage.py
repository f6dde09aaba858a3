"""The inner process of a run: deploys the cluster, lets clients and nemesis loose, heals, drains, collects. It records; it never judges.

Started by the supervisor inside the backend's enclosure as `python -m harness.stage RUN_DIR CONTROL_SOCKET`. It finds everything it has to
do in `run.json`, writes below the run directory only, and tells the supervisor how it goes (harness/control.py). Phases, each with its own
line in the terminal and its times in `run.json`:

    deploy    nodes up, ready by protocol, topics made with full ISRs
    workload  clients and nemesis, for the spec's time limit (or until interrupted, or something of ours breaks)
    race      instead of the workload, for `krash race run`: a script (harness/race_stage.py)
    heal      clients stop, every fault is healed and proved so, then leaders and full ISRs are awaited
    drain     fresh clients read every partition from its start to its end
    collect   nodes stop; logs, configuration and metadata logs are copied

Whatever goes wrong, the later phases run as far as they can: what was recorded must stay judgeable.
"""

from __future__ import annotations

import asyncio
import faulthandler
import sys
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from harness.clients import ClientDied
from harness.control import Line, connect
from harness.deployment import Deployment
from harness.history.arrow import spare_pandas
from harness.race_stage import run_race
from harness.up_stage import keep_up

ALIVE_EVERY = 1.0  # seconds
SILENT_DUMP = 20.0  # seconds of a blocked event loop after which it says where it stands


class Stage:
    """One run, from inside. `status` and `reason` are the worst that happened, as run.json holds them."""

    def __init__(self, deployment: Deployment, line: Line, control: Path) -> None:
        self.deployment = deployment
        self.line = line
        self.control = control  # where the supervisor listens
        self.interrupt = asyncio.Event()
        self.status = "completed"
        self.reason: str | None = None
        self.phases: list[dict[str, Any]] = []

    def spoil(self, reason: str, status: str = "harness-error") -> None:
        """Something of ours went wrong: the run goes on to its drain, but its status says so. The first reason stays."""
        if self.status in {"completed", "interrupted"}:
            self.status, self.reason = status, reason
        self.line.send(type="note", text=reason)

    @asynccontextmanager
    async def phase(self, name: str, text: str = "") -> AsyncIterator[None]:
        self.line.send(type="phase", name=name, text=text)
        span: dict[str, Any] = {"name": name, "start_ns": time.monotonic_ns(), "end_ns": None}
        self.phases.append(span)
        self.deployment.note_phases(self.phases)
        try:
            yield
        finally:
            span["end_ns"] = time.monotonic_ns()
            self.deployment.note_phases(self.phases)

    async def run(self) -> int:
        """All phases; returns the exit code of a user's command (`krash up`), else 0."""
        code = 0
        try:
            async with self.phase("deploy", self.deployment.description):
                await self._deploy()
                self.line.send(type="say", text=self.deployment.description)
            if self.interrupt.is_set():
                return code
            if self.deployment.purpose == "up":
                code = await keep_up(self)
            else:
                await self._break_and_drain()
        finally:
            async with self.phase("collect"):
                await self.deployment.close()
            for note in self.deployment.notes:
                self.line.send(type="note", text=note)
            if self.deployment.choices.misfits:
                count = len(self.deployment.choices.misfits)
                self.line.send(type="note", text=f"{count} replayed choices did not fit and were drawn anew")
            if self.interrupt.is_set():
                self.interrupted("after its time limit, while it was being finished")
        return code

    def interrupted(self, when: str) -> None:
        """By Ctrl-C, or by the end of the supervisor. The first word on it stays."""
        if self.status == "completed":
            self.status, self.reason = "interrupted", f"interrupted {when}"

    async def _deploy(self) -> None:
        deploying = asyncio.create_task(self.deployment.deploy(say=lambda text: self.line.send(type="say", text=text)))
        interrupted = asyncio.create_task(self.interrupt.wait())
        await asyncio.wait([deploying, interrupted], return_when=asyncio.FIRST_COMPLETED)
        interrupted.cancel()
        if not deploying.done():
            deploying.cancel()
            self.interrupted("while the cluster was deployed")
            await asyncio.gather(deploying, return_exceptions=True)
            return
        deploying.result()

    async def _break_and_drain(self) -> None:
        deployment = self.deployment
        await (run_race(self) if deployment.order is not None else self._break_and_heal())
        if (gate_died := deployment.gate_death()) is not None:
            self.line.send(type="note", text=f"no nodes can reach each other any more, nothing is drained: {gate_died}")
            return
        async with self.phase("drain"):
            try:
                await deployment.drain(self._progress)
            except ClientDied as error:
                self.spoil(f"the final read failed: {error}")

    async def _break_and_heal(self) -> None:
        deployment = self.deployment
        async with self.phase("workload"):
            await self._workload()
        if deployment.gate_death() is not None:
            return
        async with self.phase("heal", "waiting for leaders and full ISRs"):
            missing = await deployment.recover()
            if missing is not None:
                self.line.send(type="note", text=f"not recovered after {deployment.spec.recovery_limit:g} s: {missing}")

    async def _workload(self) -> None:
        """Clients and nemesis, until the nemesis has healed everything after the time limit, or earlier when
        interrupted or when a client dies.
        """
        deployment = self.deployment
        await deployment.start_clients(self._progress)
        assert deployment.clients is not None
        faults = asyncio.create_task(deployment.run_nemesis(self._fault))
        death = asyncio.create_task(deployment.clients.first_exit())
        interrupt = asyncio.create_task(self.interrupt.wait())
        ends: list[asyncio.Future[Any]] = [faults, death, interrupt]
        ends += [deployment.gate.died] if deployment.gate is not None else []
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if (gate_died := deployment.gate_death()) is not None:
            self.spoil(gate_died)
        if interrupt.done():
            self.interrupted("before its time limit; judged by what was recorded until then")
        if death.done():
            self.spoil(str(death.exception()))
        if deployment.nemesis is not None:
            deployment.nemesis.stop()
        try:
            for problem in await faults:
                self.spoil(problem)
        finally:
            for task in (death, interrupt):
                task.cancel()
            await asyncio.gather(death, interrupt, return_exceptions=True)
            await self._stop_clients()

    async def _stop_clients(self) -> None:
        assert self.deployment.clients is not None
        try:
            await self.deployment.clients.stop()
        except ClientDied as error:
            self.spoil(str(error))

    def _progress(self, counters: Any) -> None:
        self.line.send(type="progress", counters=dict(counters))

    def _fault(self, row: Any) -> None:
        sentence = row.detail or row.heal_proof or row.proof or ""
        self.line.send(
            type="fault",
            fault=row.fault,
            name=row.name,
            targets=list(row.targets),
            status=row.status,
            sentence=sentence,
        )


async def main(directory: Path, control: Path) -> int:
    line = await connect(control)
    deployment = Deployment(directory)
    stage = Stage(deployment, line, control)
    beating = asyncio.create_task(_alive(line))
    listening = asyncio.create_task(_listen(line, stage))
    code = 0
    try:
        code = await stage.run()
    except Exception as error:  # noqa: BLE001 - whatever it is, the supervisor must learn why the run ended
        traceback.print_exception(error)
        stage.spoil(str(error) or type(error).__name__)
    finally:
        beating.cancel()
        listening.cancel()
        line.send(type="done", status=stage.status, reason=stage.reason, code=code)
        await line.close()
    return 0


async def _alive(line: Line) -> None:
    while True:
        faulthandler.dump_traceback_later(SILENT_DUMP, exit=False)
        line.send(type="alive")
        await asyncio.sleep(ALIVE_EVERY)


async def _listen(line: Line, stage: Stage) -> None:
    """Interrupts, and the supervisor's death, which counts as one: what it started must not outlive it."""
    async for message in line.messages():
        if message["type"] == "interrupt":
            stage.interrupt.set()
    stage.interrupt.set()


if __name__ == "__main__":
    faulthandler.enable()
    spare_pandas()
    sys.exit(asyncio.run(main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))))
