"""Linearizability of any object by search, exact, in memory that does not grow with the length of the history.

Walk through the events in the order of time. A configuration says how everything so far can be explained: the state,
which open operations took effect already, and which lost ones (of unknown outcome) did. An invocation opens a slot.
When operation x returns, let open operations take effect, in all orders, until x has; drop what does not get there.
No configuration left: not linearizable, and this event ends the shortest prefix that shows it.

    w(1) [0, 9]   r: 1 [2, 4]   r: nil [5, 7]       at 4: {state 1, w took effect}      at 7: nothing explains nil

Three prunings keep it small, none loses an explanation:
 1. Observers (reads, failed compare-and-sets) that are right about the state take effect at once: having done so is
    never worse than not having done so.
 2. A lost operation need not happen: of two configurations with the same state and the same open operations, the one
    that used a subset of the other's lost operations can do whatever the other can. So those with fewer come first,
    and a lost operation that would not change the state is never used.
 3. Identical lost operations are used in the order of their invocations.
Before that: lost observers go; values that nobody reads or expects are one value; and lost writes of such a value go,
unless a failed compare-and-set might want one.

Source: the checkers of Wing and Gong (1993) and Lowe (2016); configurations at each return as in Knossos' `linear`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from harness.checker.linearizability import kernel
from harness.checker.linearizability.kernel import World
from harness.checker.linearizability.operations import (
    APPEND,
    CAS,
    CAS_FAILED,
    DEQUEUE,
    EMPTY,
    ENQUEUE,
    FETCH_ADD,
    INSERT,
    NAMES,
    NIL,
    OBSERVERS,
    READ,
    REMOVE,
    UNSEEN,
    WRITE,
    Answer,
    Configuration,
    Evidence,
    Int64s,
    Operations,
    Spent,
)

ENGINE = "frontier"
_SLICE = 2_000_000  # steps between two looks at the clock
_SHOWN = 5  # last legal configurations of an evidence
_LISTS = (INSERT, REMOVE, ENQUEUE, DEQUEUE, EMPTY, APPEND)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Whatever ends first. Steps are tried operations, about 10^7 a second."""

    steps: int = 10**9
    bytes: int = 2**30
    seconds: float = 60.0


class Search:
    """A search that can be paused and resumed: `run` with a larger budget goes on where the smaller one ended.

    `initial`: the state before the first operation; for sets, queues and texts the number of a list, `NIL`: empty.
    """

    def __init__(self, operations: Operations, initial: int = NIL) -> None:
        self._listed = len(operations.lists.starts) > 1 or operations.has(*_LISTS)
        self._rows = np.flatnonzero(_needed(operations, self._listed))
        self._operations = operations.take(self._rows)
        self._seconds = 0.0
        self._world = self._new_world(initial)

    def __len__(self) -> int:
        return len(self._rows)

    def run(self, budget: Budget | None = None) -> Answer:
        budget = budget or Budget()
        started = time.monotonic()
        before = self._seconds
        registers = self._world.registers
        while True:
            limit = min(budget.steps, int(registers[kernel.STEPS]) + _SLICE)
            status = kernel.advance(self._world, limit)
            self._seconds = before + time.monotonic() - started
            if status == kernel.DONE:
                return Answer(verdict="legal", engine=ENGINE, spent=self.spent)
            if status == kernel.ILLEGAL:
                return Answer(verdict="illegal", engine=ENGINE, spent=self.spent, evidence=self._evidence())
            if registers[kernel.STEPS] >= budget.steps:
                return self._unknown(f"{budget.steps} steps")
            if self._seconds >= budget.seconds:
                return self._unknown(f"{budget.seconds:g} s")
            if status != kernel.PAUSED and not self._grow(int(status), budget.bytes):
                return self._unknown(f"{budget.bytes / 2**20:g} MiB")

    @property
    def spent(self) -> Spent:
        size = sum(array.nbytes for array in self._world)
        return Spent(int(self._world.registers[kernel.STEPS]), size, self._seconds)

    def _unknown(self, what: str) -> Answer:
        return Answer(verdict="unknown", engine=ENGINE, spent=self.spent, reason=f"the budget of {what} is spent")

    def _new_world(self, initial: int) -> World:
        operations = self._operations
        ops = np.empty((len(operations), 8), np.int64)
        columns = (operations.kind, operations.argument, operations.expected, operations.result)
        for column, values in enumerate(columns):
            ops[:, column] = values
        ops[:, kernel.CERTAIN] = operations.certain
        ops[:, kernel.OBSERVES] = np.isin(operations.kind, list(OBSERVERS))
        if not self._listed:
            initial = _forget_unobserved(ops, initial)
        events = _events(operations)
        slots = int(kernel.assign_slots(events, ops)) if len(events) else 0
        lost = np.array([op for op in events.tolist() if op >= 0 and not ops[op, kernel.CERTAIN]], np.int64)
        _name_twins(ops, lost)
        registers = np.zeros(kernel.LIVE_WORDS + 1, np.int64)
        live_words = -(-slots // kernel.BITS)
        width = 1 + live_words + -(-len(lost) // kernel.BITS)
        registers[kernel.WIDTH], registers[kernel.LIVE_WORDS] = width, live_words
        registers[kernel.CURRENT], registers[kernel.NODES] = 1, 1
        world = World(
            registers=registers,
            events=events,
            ops=ops,
            live=np.full(slots, -1, np.int64),
            lost=lost,
            current=np.zeros((64, width), np.int64),
            rows=np.empty((64, width), np.int64),
            links=np.empty((64, 4), np.int64),
            places=np.full(128, -1, np.int64),
            levels=np.full(len(lost) + 2, -1, np.int64),
            starts=operations.lists.starts,
            symbols=operations.lists.symbols,
            nodes=np.zeros((_nodes_at_first(operations) if self._listed else 1, 3), np.int64),
            heads=np.full(2 * (64 if self._listed else 1), -1, np.int64),
        )
        world = _rehashed(world)
        if self._listed:
            initial = 0 if initial == NIL else _node(world, initial)
            for column, kinds in ((kernel.ARGUMENT, (WRITE,)), (kernel.RESULT, (READ,))):
                for row in np.flatnonzero(np.isin(ops[:, kernel.KIND], kinds)):
                    ops[row, column] = 0 if ops[row, column] == NIL else _node(world, int(ops[row, column]))
        world.current[0, 0] = initial
        return world

    def _grow(self, status: int, allowed: int) -> bool:
        world = self._world
        table = status == kernel.TABLE_FULL
        grown = [world.current, world.rows, world.links, world.places] if table else [world.nodes, world.heads]
        if self.spent.bytes + 2 * sum(array.nbytes for array in grown) > allowed:  # old and new exist at once
            return False
        if not table:
            self._world = _rehashed(world._replace(nodes=_doubled(world.nodes)))
            return True
        places = np.full(2 * len(world.places), -1, np.int64)
        links = _doubled(world.links)
        self._world = world._replace(
            current=_doubled(world.current), rows=_doubled(world.rows), links=links, places=places
        )
        kernel.replace(self._world)
        return True

    def _evidence(self) -> Evidence:
        world, operations = self._world, self._operations
        failing = int(~world.events[world.registers[kernel.EVENT]])
        seen = world.events[: int(world.registers[kernel.EVENT])]
        before = [int(op) for op in seen if op >= 0]
        configurations = tuple(
            self._configuration(world.current[index]) for index in range(min(_SHOWN, world.registers[kernel.CURRENT]))
        )
        name = NAMES[int(operations.kind[failing])]
        sentence = (
            f"operation #{self._rows[failing]} ({name}) cannot have taken effect by its completion, in whatever way "
            "everything that completed before it is explained"
        )
        rows = tuple(int(self._rows[op]) for op in dict.fromkeys([failing, *reversed(before)]))
        return Evidence(operations=rows, sentence=sentence, configurations=configurations)

    def _configuration(self, row: Int64s) -> Configuration:
        world = self._world
        first_lost = 1 + int(world.registers[kernel.LIVE_WORDS])
        took = [op for slot, op in enumerate(world.live.tolist()) if op >= 0 and _has_bit(row, 1, slot)]
        called = world.lost[: int(world.registers[kernel.LOST])].tolist()
        took += [op for slot, op in enumerate(called) if _has_bit(row, first_lost, slot)]
        state: int | list[int] = int(row[0])
        if self._listed:
            node, state = int(row[0]), []
            while node > 0:
                state.append(int(world.nodes[node, kernel.SYMBOL]))
                node = int(world.nodes[node, kernel.PARENT])
            state.reverse()
        return Configuration(state, tuple(int(self._rows[op]) for op in took))


def search(operations: Operations, initial: int = NIL, budget: Budget | None = None) -> Answer:
    """Is the history of one object linearizable? `unknown` only when the budget ended it."""
    return Search(operations, initial).run(budget)


def _needed(operations: Operations, listed: bool) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    lost = ~operations.certain
    needed = ~(lost & np.isin(operations.kind, list(OBSERVERS)))
    if operations.only(READ, WRITE, CAS) and not listed:  # a failed CAS might need a value that nobody read
        watched = np.isin(operations.argument, _watched(operations.kind, operations.expected, operations.result))
        needed &= ~(lost & np.isin(operations.kind, (WRITE, CAS)) & ~watched)
    return needed


def _watched(kind: Int64s, expected: Int64s, result: Int64s) -> Int64s:
    return np.concatenate((result[kind == READ], expected[(kind == CAS) | (kind == CAS_FAILED)]))


def _forget_unobserved(ops: Int64s, initial: int) -> int:
    """Values that no read returns and no CAS expects cannot be told apart: one number for all of them."""
    kind = ops[:, kernel.KIND]
    writes = (kind == WRITE) | (kind == CAS)
    if not writes.any():
        return initial
    watched = _watched(kind, ops[:, kernel.EXPECTED], ops[:, kernel.RESULT])
    other = UNSEEN + 1
    ops[writes & ~np.isin(ops[:, kernel.ARGUMENT], watched), kernel.ARGUMENT] = other
    return initial if initial in watched else other


def _events(operations: Operations) -> Int64s:
    """Operation: invoked; ~operation: completed. At equal positions invocations come first; OPEN ones last."""
    count = len(operations)
    certain = np.flatnonzero(operations.certain)
    when = np.concatenate((operations.invoked, operations.completed[certain]))
    event = np.concatenate((np.arange(count), ~certain)).astype(np.int64)
    events: Int64s = event[np.lexsort((event < 0, when))]
    return events


def _name_twins(ops: Int64s, lost: Int64s) -> None:
    """TWIN: the lost slot of the previous identical lost operation, -1: none."""
    ops[:, kernel.TWIN] = -1
    last: dict[tuple[int, ...], int] = {}
    for slot, op in enumerate(lost.tolist()):
        alike = tuple(ops[op, [kernel.KIND, kernel.ARGUMENT, kernel.EXPECTED]].tolist())
        if alike[0] == FETCH_ADD:
            alike += (int(ops[op, kernel.RESULT]),)
        ops[op, kernel.TWIN] = last.get(alike, -1)
        last[alike] = slot


def _has_bit(row: Int64s, first: int, slot: int) -> bool:
    return bool((int(row[first + slot // kernel.BITS]) >> (slot % kernel.BITS)) & 1)


def _nodes_at_first(operations: Operations) -> int:
    return 64 + len(operations.lists.symbols) + len(operations)


def _node(world: World, number: int) -> int:
    symbols = world.symbols[world.starts[number] : world.starts[number + 1]]
    return int(kernel.walk(world.nodes, world.heads, world.registers, 0, symbols))


def _rehashed(world: World) -> World:
    size = 1 << (2 * len(world.nodes)).bit_length()
    world = world._replace(heads=np.empty(size, np.int64))
    kernel.rehash(world.nodes, world.heads, world.registers)
    return world


def _doubled(array: Int64s) -> Int64s:
    bigger = np.zeros((2 * len(array), *array.shape[1:]), np.int64)
    bigger[: len(array)] = array
    return bigger
