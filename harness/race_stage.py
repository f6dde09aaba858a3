"""The middle of a race's run: clients of its own instead of a workload, a script instead of a nemesis.

    race    the script, step by step
    heal    what the script left broken is released, healed, resumed and started; then leaders and full ISRs are awaited
    drain, collect as in every run

A condition that was not met ends the script and gives the run the status not-reached: nothing is said about the system.
Whatever else the script raises is an error of the harness (or of the script). Ctrl-C ends the script; all the rest follows.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.deployment import DRIVER
from harness.history.recorder import JournalRecorder
from harness.history.rows import RowRecorder
from harness.history.tables import STEPS_TABLE
from nemesis.journal import HealJournal
from nemesis.races.books import FaultBook, NotReached, StepBook
from nemesis.races.client import Client, ClientDied, CommandFailed
from nemesis.races.raw import RawClient
from nemesis.races.stage import Stage as RaceStage
from nemesis.races.step import Step
from reports.verdict import Status

if TYPE_CHECKING:
    from harness.stage import Stage

CLIENT_MODULE = "harness.race_client"
RAW_WRITER = 999  # of what the script itself sends; clients count from 0, their final readers go on from there


async def run_race(stage: Stage) -> None:
    """The script and its restoration, each a phase."""
    performance = Performance(stage)
    try:
        async with stage.phase("race", performance.order.race.title):
            await performance.play()
        if stage.deployment.gate_death() is None:
            async with stage.phase("heal", "waiting for leaders and full ISRs"):
                await performance.restore()
    finally:
        await performance.close()


class Performance:
    """One try of one race."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._deployment = stage.deployment
        assert self._deployment.order is not None
        self.order = self._deployment.order
        deployment = self._deployment
        run, clock = deployment.run, deployment.backend.clock
        journal = HealJournal(deployment.directory / "heal.jsonl")
        self._steps = RowRecorder(deployment.journal, STEPS_TABLE, run=run, clock=clock, writer=DRIVER)
        self._raw: list[RawClient] = []
        self._recorder: JournalRecorder | None = None
        self._began_ns = time.monotonic_ns()
        self._ended, self._said = 0, ""  # steps so far, and what the script said last
        self._clients = {name: self._client(index, name) for index, name in enumerate(deployment.cluster.clients)}
        self._book = StepBook(run=run, clock=clock, record=self._step, now_ns=time.monotonic_ns)
        self._on = RaceStage(
            cluster=deployment.cluster,
            gate=deployment.gate,
            steps=self._book,
            faults=FaultBook(
                run=run,
                clock=clock,
                record=deployment.record_fault,
                now_ns=time.monotonic_ns,
                begin=journal.begin,
                end=journal.end,
            ),
            clients=self._clients,
            raw=self._raw_client,
            new_topic=deployment.add_topic,
        )

    async def play(self) -> None:
        """The script, until its end, a condition that is not met, the death of the wire gate, or Ctrl-C."""
        script = asyncio.create_task(self._script())
        interrupt = asyncio.create_task(self._stage.interrupt.wait())
        ends: list[asyncio.Future[Any]] = [script, interrupt]
        ends += [self._deployment.gate.died] if self._deployment.gate is not None else []
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if (gate_died := self._deployment.gate_death()) is not None:
            self._stage.spoil(gate_died)
        elif interrupt.done():
            self._stage.interrupted("in the middle of the race; judged by what was recorded until then")
        interrupt.cancel()
        if not script.done():
            script.cancel()
        with suppress(asyncio.CancelledError):
            await self._told(script)
        self._stage.line.send(type="say", text=" · ".join(filter(None, [f"{self._ended} steps", self._said])))

    async def _script(self) -> None:
        self._deployment.cluster.follow_metadata()
        await asyncio.gather(*(client.start() for client in self._clients.values()))
        await self._on.prepare()
        parameters = {name: getattr(self.order.parameters, name) for name in type(self.order.parameters).model_fields}
        async with asyncio.timeout(self.order.race.limit_s):
            await self.order.race.script(self._on, **parameters)

    async def _told(self, script: asyncio.Task[None]) -> None:
        try:
            await script
        except NotReached as missed:
            self._stage.spoil(f"{missed.text}; instead: {missed.seen}", str(Status.NOT_REACHED))
        except CommandFailed as failed:
            self._stage.spoil(f"a client could not go on: {failed}", str(Status.NOT_REACHED))
        except TimeoutError:
            self._stage.spoil(f"the script took longer than {self.order.race.limit_s:g} s")
        except Exception as error:  # noqa: BLE001 - whatever a script raises, the run is healed, drained and judged
            traceback.print_exception(error)
            self._stage.spoil(f"the script failed: {type(error).__name__}: {error}")

    async def restore(self) -> None:
        deployment = self._deployment
        deaths = dict(deployment.cluster.deaths)
        if deaths and not self.order.race.servers_may_die:
            self._stage.spoil("; ".join(f"{name} {how}" for name, how in deaths.items()))
        for left in await self._on.restore():
            self._stage.spoil(f"not restored: {left}")
        await self._end_clients()
        missing = await deployment.recover()
        if missing is not None:
            limit = deployment.spec.recovery_limit
            self._stage.line.send(type="note", text=f"not recovered after {limit:g} s: {missing}")

    async def _end_clients(self) -> None:
        for client in self._clients.values():
            try:
                await client.close()
            except ClientDied as death:
                self._stage.spoil(str(death))

    async def close(self) -> None:
        for client in self._raw:
            client.close()
        if self._recorder is not None:
            self._recorder.close()
        self._steps.close()

    def _client(self, index: int, name: str) -> Client:
        deployment = self._deployment
        node = deployment.cluster.clients[name]
        config = {
            "run": deployment.run,
            "clock": deployment.backend.clock,
            "writer": index,
            "client": name,
            "bootstrap": deployment.cluster.bootstrap,
            "journal": str(deployment.journal),
        }
        log = Path(deployment.directory / "nodes" / name / "log" / "client-race.log")
        return Client(name, node.attach((*node.python, "-m", CLIENT_MODULE)), config, log)

    async def _raw_client(self, name: str, client: str) -> RawClient:
        deployment = self._deployment
        if self._recorder is None:
            self._recorder = JournalRecorder(
                deployment.journal,
                run=deployment.run,
                clock=deployment.backend.clock,
                writer=RAW_WRITER,
                client=client,
            )
        made = RawClient(
            name,
            client=client,
            recorder=self._recorder,
            steps=self._book,
            open_to=partial(deployment.cluster.connect, via=client),
            coordinator_of=deployment.cluster.coordinator_of,
        )
        self._raw.append(made)
        return made

    def _step(self, row: Step) -> None:
        self._steps.write(row)
        if row.ended_ns is None:
            return
        self._ended += 1
        self._said = row.text if row.verb == "say" else self._said
        self._stage.line.send(
            type="step",
            at_s=(row.ended_ns - self._began_ns) / 1e9,
            verb=row.verb,
            text=row.text,
            seen=row.seen,
            status=str(row.status),
            frame=row.message is not None,
        )
