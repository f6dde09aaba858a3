"""Small databases that truly have an isolation level, played step by step by random clients.

    play(random.Random(1), "append", "snapshot-isolation", Forgotten.REAL_TIME)     a history that is certainly
                                                                                strong-session-snapshot-isolation

`Forgotten` reorders what clients saw in time, which turns strong-X into strong-session-X and then into X. `chaos` has no
isolation at all.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from harness.history.formats.pairing import Operation, Paired
from workloads.op import Outcome

READ = "r"
Micro = tuple[str, Any, Any]


class Forgotten(IntEnum):
    NOTHING = 0
    REAL_TIME = 1
    SESSIONS = 2


PREFIX = {Forgotten.NOTHING: "strong-", Forgotten.REAL_TIME: "strong-session-", Forgotten.SESSIONS: ""}


def operation(
    index: int,
    micros: tuple[Micro, ...] | None,
    *,
    process: Any = 0,
    at: tuple[int, int | None] = (0, 0),
    outcome: Outcome = Outcome.OK,
) -> Operation:
    """A transaction with what it read; `at`: invoked and completed."""
    asked = tuple((f, key, None if f == READ else value) for f, key, value in micros or ())
    result = micros if outcome is Outcome.OK else asked
    return Operation(index, process, "txn", asked, result, None, at[0], at[1], outcome, None, None, None)


@dataclass
class _Transaction:
    process: int
    plan: list[Micro]
    invoked: int
    done: list[Micro] = field(default_factory=list)
    snapshot: dict[Any, Any] = field(default_factory=dict)
    begun: int = 0  # commits that it could see
    own: dict[Any, list[Any]] = field(default_factory=dict)
    waited: int = 0


class _World:
    """Committed state and what the isolation needs; one micro-operation at a time."""

    def __init__(self, isolation: str, write: str) -> None:
        self.isolation = isolation
        self.lists = write == "append"
        self.state: dict[Any, Any] = {}
        self.changed: dict[Any, int] = {}  # key -> number of the last commit to it
        self.commits = 0
        self.locks: dict[Any, _Transaction] = {}

    @property
    def in_place(self) -> bool:
        return self.isolation in ("read-uncommitted", "chaos")

    def value(self, state: dict[Any, Any], key: Any, own: list[Any]) -> Any:
        base = state.get(key, () if self.lists else None)
        if self.lists:
            return base + tuple(own)
        return own[-1] if own else base

    def begin(self, one: _Transaction) -> None:
        one.snapshot = dict(self.state)
        one.begun = self.commits

    def step(self, one: _Transaction) -> bool:
        """False: it has to wait."""
        f, key, value = one.plan[len(one.done)]
        if f == READ:
            state = one.snapshot if self.isolation == "snapshot-isolation" else self.state
            own = [] if self.in_place else one.own.get(key, [])
            one.done.append((f, key, self.value(state, key, own)))
            return True
        if self.isolation in ("read-uncommitted", "read-committed"):
            if self.locks.get(key, one) is not one:
                return False
            self.locks[key] = one
        if self.in_place:
            one.snapshot.setdefault(("before", key), self.state.get(key, () if self.lists else None))
            self.install(key, [value])
        one.own.setdefault(key, []).append(value)
        one.done.append((f, key, value))
        return True

    def install(self, key: Any, own: list[Any]) -> None:
        self.state[key] = self.value(self.state, key, own)
        self.changed[key] = self.commits

    def commit(self, one: _Transaction) -> bool:
        """False: it had to abort."""
        if self.isolation == "snapshot-isolation" and any(self.changed.get(key, 0) > one.begun for key in one.own):
            return False
        self.commits += 1
        for key, own in one.own.items():
            if not self.in_place:
                self.install(key, own)
        self.release(one)
        return True

    def abort(self, one: _Transaction) -> None:
        if self.isolation == "read-uncommitted":
            for key in one.own:
                self.state[key] = one.snapshot["before", key]
        self.release(one)

    def release(self, one: _Transaction) -> None:
        self.locks = {key: holder for key, holder in self.locks.items() if holder is not one}


def play(
    rng: random.Random,
    write: str,
    isolation: str,
    forgotten: Forgotten = Forgotten.NOTHING,
    *,
    transactions: int = 8,
    keys: int = 3,
    processes: int = 3,
    longest: int = 3,
    unknown: float = 0.15,
    aborted: float = 0.1,
    final_reads: bool = False,
) -> Paired:
    """A history that has this isolation (serializable, snapshot-isolation, read-committed, read-uncommitted, chaos)."""
    world = _World(isolation, write)
    clock = value = started = 0
    running: dict[int, _Transaction] = {}
    ended: list[tuple[_Transaction, int, Outcome]] = []
    while started < transactions or running:
        clock += 1
        process = rng.randrange(processes)
        one = running.get(process)
        if one is None:
            if started < transactions:
                started += 1
                plan: list[Micro] = []
                for _ in range(rng.randint(1, longest)):
                    value += 1
                    reads = rng.random() < 0.5
                    plan.append(
                        (READ, f"k{rng.randrange(keys)}", None) if reads else (write, f"k{rng.randrange(keys)}", value)
                    )
                running[process] = one = _Transaction(process, plan, clock)
                world.begin(one)
            continue
        if isolation == "serializable" and not one.done:
            while len(one.done) < len(one.plan):
                world.step(one)
            committed = rng.random() >= aborted and world.commit(one)
            one.waited = int(committed)
            continue
        if isolation == "serializable":
            committed = bool(one.waited)
        elif len(one.done) < len(one.plan):
            if world.step(one):
                continue
            one.waited += 1
            if one.waited < 5:
                continue
            committed = False
        else:
            committed = rng.random() >= aborted and world.commit(one)
        if not committed:
            world.abort(one)
        del running[process]
        told = Outcome.OK if committed else Outcome.FAIL
        ended.append((one, clock, Outcome.INFO if rng.random() < unknown else told))
    if final_reads:
        last = _Transaction(0, [(READ, f"k{key}", None) for key in range(keys)], clock + 1)
        world.begin(last)
        for _ in last.plan:
            world.step(last)
        ended.append((last, clock + 2, Outcome.OK))
    return _history(rng, ended, forgotten)


def _history(rng: random.Random, ended: list[tuple[_Transaction, int, Outcome]], forgotten: Forgotten) -> Paired:
    ended.sort(key=lambda entry: entry[0].invoked)
    spans = [(one.invoked, completed) for one, completed, _ in ended]
    processes = [one.process for one, _, _ in ended]
    if forgotten is Forgotten.SESSIONS:
        places = list(range(len(ended)))
        rng.shuffle(places)
        spans = [(2 * place, 2 * place + 1) for place in places]
        processes = [rng.randrange(3) for _ in ended]
    elif forgotten is Forgotten.REAL_TIME:
        slots = list(processes)
        rng.shuffle(slots)  # the same number of turns for each process, at other times
        turns = {process: [i for i, slot in enumerate(slots) if slot == process] for process in set(slots)}
        spans = [(2 * (place := turns[process].pop(0)), 2 * place + 1) for process in processes]
    rows = sorted(zip(spans, processes, ended, strict=True), key=lambda row: row[0])
    operations = []
    for index, ((invoked, completed), process, (one, _, outcome)) in enumerate(rows):
        at = (invoked, None if outcome is Outcome.INFO else completed)
        operations.append(operation(index, _recorded(one), process=process, at=at, outcome=outcome))
    return Paired(operations=operations)


def _recorded(one: _Transaction) -> tuple[Micro, ...]:
    return tuple(one.done) + tuple(one.plan[len(one.done) :])


def broken(rng: random.Random, history: Paired) -> Paired:
    """Up to three answers or times changed."""
    operations = list(history.operations)
    changes: list[Callable[[Operation], Operation]] = [
        lambda o: _other_answer(rng, o, operations),
        lambda o: _moved(rng, o),
    ]
    for _ in range(rng.randint(1, 3)):
        row = rng.randrange(len(operations))
        operations[row] = rng.choice(changes)(operations[row])
    operations.sort(key=lambda o: o.invoked)
    return Paired(operations=[o._replace(index=i) for i, o in enumerate(operations)])


def _other_answer(rng: random.Random, one: Operation, operations: list[Operation]) -> Operation:
    reads = [i for i, micro in enumerate(one.result or ()) if micro[0] == READ]
    if one.outcome is not Outcome.OK or not reads:
        return one
    place = rng.choice(reads)
    key = one.result[place][1]
    answers = [m[2] for o in operations if o.outcome is Outcome.OK for m in o.result if m[:2] == (READ, key)]
    answer = rng.choice(answers)
    if type(answer) is tuple and rng.random() < 0.5:
        answer = rng.choice([answer[:-1], answer[1:], answer + answer[:1]])
    return one._replace(result=(*one.result[:place], (READ, key, answer), *one.result[place + 1 :]))


def _moved(rng: random.Random, one: Operation) -> Operation:
    by = rng.randint(-20, 20)
    return one._replace(invoked=one.invoked + by, completed=None if one.completed is None else one.completed + by)
