"""Where a race writes down what it does: a row per step, and a row per thing that it broke, so that an anomaly can name it.

    async with book.step("kill", "kill -9 b2", nodes=("b2",)) as now:
        await cluster.kill("b2")
        now.seen = "b2 is gone"

A step's row is written when it begins and again when it ends. Faults are ordinary rows of the `faults` table: opened by the verb
that breaks, closed by the one that mends (`start` closes a kill), so that checks and reports need not know what a race is.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from nemesis.fault import FaultRow, FaultStatus
from nemesis.races.step import Step, StepStatus


class NotReached(Exception):
    """A step's condition was not met by its deadline: the race says nothing about the system. What was seen instead is in `seen`."""

    def __init__(self, text: str, seen: str) -> None:
        super().__init__(f"not reached: {text}; instead: {seen}")
        self.text, self.seen = text, seen


@dataclass(kw_only=True)
class Now:
    """A step that is being done. What is put here becomes part of its row."""

    step: int
    seen: str | None = None
    message: int | None = None


@dataclass(kw_only=True)
class StepBook:
    run: str
    clock: str
    record: Callable[[Step], None]
    now_ns: Callable[[], int]
    _next: int = 0

    @asynccontextmanager
    async def step(self, verb: str, text: str, nodes: Sequence[str] = ()) -> AsyncIterator[Now]:
        now = Now(step=self._next)
        self._next += 1
        row = Step(
            run=self.run,
            clock=self.clock,
            step=now.step,
            verb=verb,
            nodes=tuple(nodes),
            text=text,
            started_ns=self.now_ns(),
            ended_ns=None,
            status=StepStatus.RUNNING,
            seen=None,
            message=None,
        )
        self.record(row)
        try:
            yield now
        except NotReached as missed:
            self._end(row, now, StepStatus.NOT_REACHED, missed.seen)
            raise
        except Exception as error:
            self._end(row, now, StepStatus.FAILED, f"{type(error).__name__}: {error}")
            raise
        self._end(row, now, StepStatus.DONE, now.seen)

    def _end(self, row: Step, now: Now, status: StepStatus, seen: str | None) -> None:
        self.record(replace(row, ended_ns=self.now_ns(), status=status, seen=seen, message=now.message))


@dataclass(kw_only=True)
class FaultBook:
    """Faults of a race, numbered in the order of the script. `begin` and `end` keep the heal journal."""

    run: str
    clock: str
    record: Callable[[FaultRow], None]
    now_ns: Callable[[], int]
    begin: Callable[[int, list[dict[str, Any]]], None] = lambda fault, undo: None
    end: Callable[[int], None] = lambda fault: None
    _rows: dict[int, FaultRow] = field(default_factory=dict)

    def open(
        self,
        name: str,
        targets: Sequence[str],
        *,
        undo: list[dict[str, Any]] | Callable[[int], list[dict[str, Any]]],
        settings: Mapping[str, Any] | None = None,
    ) -> int:
        """Before something is broken. Its number, which `undo` (entries of the heal journal) may need."""
        number = len(self._rows)
        self.begin(number, undo(number) if callable(undo) else undo)
        now = self.now_ns()
        self._put(
            FaultRow(
                run=self.run,
                clock=self.clock,
                fault=number,
                name=name,
                rule=", ".join(targets),
                targets=tuple(targets),
                settings=json.dumps(dict(settings or {}), sort_keys=True),
                status=FaultStatus.PLANNED,
                planned_ns=now,
                injecting_ns=now,
                proved_ns=None,
                healing_ns=None,
                healed_ns=None,
                proof=None,
                heal_proof=None,
                detail=None,
            )
        )
        return number

    def proved(self, fault: int, proof: str, *, at_ns: int | None = None) -> None:
        """It is broken, and this shows it."""
        when = self.now_ns() if at_ns is None else at_ns
        row = self._rows[fault]
        self._put(replace(row, status=FaultStatus.ACTIVE, injecting_ns=row.injecting_ns, proved_ns=when, proof=proof))

    def is_proved(self, fault: int) -> bool:
        return self._rows[fault].proved_ns is not None

    def healing(self, fault: int) -> None:
        self._put(replace(self._rows[fault], healing_ns=self.now_ns()))

    def healed(self, fault: int, proof: str) -> None:
        row, now = self._rows[fault], self.now_ns()
        self._put(
            replace(
                row,
                status=FaultStatus.HEALED if row.status == FaultStatus.ACTIVE else row.status,
                healing_ns=row.healing_ns or now,
                healed_ns=now,
                heal_proof=proof,
            )
        )
        self.end(fault)

    def never(self, fault: int, detail: str) -> None:
        """It never took effect (a hold that caught nothing): it stays `planned`, and says so."""
        self._put(replace(self._rows[fault], injecting_ns=None, detail=detail))
        self.end(fault)

    def failed(self, fault: int, detail: str) -> None:
        self._put(replace(self._rows[fault], status=FaultStatus.FAILED, detail=detail))

    def active(self, *names: str, target: str | None = None) -> list[int]:
        """Numbers of what is broken now, of these names (none: any), in the order in which it was broken."""
        return [
            row.fault
            for row in self._rows.values()
            if row.status == FaultStatus.ACTIVE
            and (not names or row.name in names)
            and (target is None or target in row.targets)
        ]

    def _put(self, row: FaultRow) -> None:
        self._rows[row.fault] = row
        self.record(row)
