"""A race on a cluster in memory: what its script did, as rows, and a gate whose frames the test sends itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from nemesis.fault import FaultRow
from nemesis.races.books import FaultBook, StepBook
from nemesis.races.stage import Stage
from nemesis.races.step import Step
from nemesis.wire.gate import Counts, GateDied
from nemesis.wire.message import Direction, Message
from nemesis.wire.rule import Rule
from tests.nemesis.fake import FakeCluster, topology
from tests.nemesis.virtual_time import run


def frame(number: int, *, source: str = "b1", destination: str = "c1", error: str | None = None) -> Message:
    return Message(
        run="test",
        clock="local",
        message=number,
        connection=1,
        source=source,
        destination=destination,
        direction=Direction.REQUEST if error is None else Direction.RESPONSE,
        api=56,
        api_name="AlterPartition",
        version=2,
        correlation=number,
        client_id="1",
        answers=None if error is None else number - 1,
        size=100,
        in_ns=number * 1000,
        out_ns=None,
        action="held",
        rule="race-0",
        fields='{"newIsr": [1, 2]}' if error is None else None,
        error=error,
    )


class FakeArmed:
    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.messages: list[Message] = []
        self.released: list[tuple[str, str]] = []
        self.armed = True
        self._caught = asyncio.Event()
        self._answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    @property
    def counts(self) -> Counts:
        return Counts(matched=len(self.messages), held=0 if self.released else len(self.messages))

    def catch(self, message: Message) -> None:
        self.messages.append(message)
        self._caught.set()

    def answer(self, message: Message) -> None:
        self._answer.set_result(message)

    def die(self) -> None:
        self._answer.set_exception(GateDied("the gate ended with code 1"))

    async def seen(self, count: int = 1) -> list[Message]:
        await self._caught.wait()
        return self.messages

    async def release(
        self, which: Literal["all", "one"] = "all", order: Literal["as held", "reversed"] = "as held"
    ) -> None:
        self.released.append((which, order))

    async def answered(self, nth: int = 1) -> Message:
        return await asyncio.shield(self._answer)

    async def disarm(self) -> None:
        self.armed = False


class FakeGate:
    def __init__(self) -> None:
        self.rules: list[FakeArmed] = []

    async def arm(self, rule: Rule) -> FakeArmed:
        self.rules.append(FakeArmed(rule))
        return self.rules[-1]

    async def close(self) -> None:
        for armed in self.rules:
            await armed.disarm()


@dataclass
class Told:
    """What a race wrote down; of rows that were written again, the last."""

    steps: dict[int, Step] = field(default_factory=dict)
    faults: dict[int, FaultRow] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)  # what could not be restored
    raised: BaseException | None = None

    @property
    def lines(self) -> list[str]:
        return [step.text for step in self.steps.values()]


def perform(script: Callable[[Stage], Awaitable[None]], *, brokers: int = 2, gate: FakeGate | None = None) -> Told:
    """Run a script on a fake cluster (topic "log"), then restore everything."""
    told = Told()

    async def whole() -> None:
        cluster = FakeCluster(topology(brokers, 1, partitions=1, min_isr=1))
        named = {"run": "test", "clock": "local"}
        clock = asyncio.get_running_loop()

        def now_ns() -> int:
            return int(clock.time() * 1e9)

        on = Stage(
            cluster=cluster,
            gate=gate,
            steps=StepBook(record=lambda row: told.steps.update({row.step: row}), now_ns=now_ns, **named),
            faults=FaultBook(record=lambda row: told.faults.update({row.fault: row}), now_ns=now_ns, **named),
            clients={},
        )
        try:
            await script(on)
        except Exception as error:  # noqa: BLE001 - told to the test
            told.raised = error
        told.left = await on.restore()

    run(whole())
    return told
