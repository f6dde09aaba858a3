"""Linearizability of any object by search, exact, in memory that does not grow with the length of the history.

Walk through the events in the order of time. A configuration says how everything so far can be explained: the state,
and of each open operation whether it took effect, must, or may. An invocation opens a slot. When operation x completes,
let open operations take effect, in all orders, until x has; drop what does not get there. No configuration left: not
linearizable, and this event ends the shortest prefix that shows it.

    w(1) [0, 9]   r: 1 [2, 4]   r: nil [5, 7]       at 4: {state 1, w took effect}      at 7: nothing explains nil

An operation *may* take effect when both having taken effect and not having done so would be right:
 1. an operation of unknown outcome (a lost one);
 2. a blind one (a write, an addition: possible in every state, answers nothing) once another write takes effect: it may
    have come just before, where nobody can have seen it;
 3. one that would leave the state as it is.
So one configuration stands for many. Of two with the same state one is at least as good if each operation is alike in
both, or may in it, or is an observer (a read, a failed compare-and-set) that took effect in it. Only the good ones stay:
observers that are right about the state take effect at once, and no more lost operations are used than necessary.
Identical lost operations are used in the order of their invocations. A write that no observer waits for is not
followed by another write: without it, that one would lead to something as good.

What may take effect and completes has taken effect if nothing else; but it is its last chance, so it is also tried.

Source: the checkers of Wing and Gong (1993) and Lowe (2016); configurations at each completion as in Knossos' `linear`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.checker.linearizability import kernel
from harness.checker.linearizability.configurations import CURRENT, MUST, USED, rechain
from harness.checker.linearizability.encoding import listed, needed, new_world, rehashed
from harness.checker.linearizability.operations import (
    NAMES,
    NIL,
    UNSEEN,
    Answer,
    Configuration,
    Evidence,
    Int64s,
    Operations,
    Spent,
)
from harness.checker.linearizability.states import ELSEWHERE, PARENT, SYMBOL

ENGINE = "frontier"
_SLICE = 2_000_000  # steps between two looks at the clock
_SHOWN = 5  # last legal configurations of an evidence


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
        self._rows = np.flatnonzero(needed(operations))
        self._operations = operations if len(self._rows) == len(operations) else operations.take(self._rows)
        self._seconds = 0.0
        self._world = new_world(self._operations, initial)

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
        size = _bytes(self._world)
        return Spent(int(self._world.registers[kernel.STEPS]), size, self._seconds)

    def _unknown(self, what: str) -> Answer:
        return Answer(verdict="unknown", engine=ENGINE, spent=self.spent, reason=f"the budget of {what} is spent")

    def _grow(self, status: int, allowed: int) -> bool:
        world = self._world
        if status == kernel.TREE_FULL:
            nodes = world.tree.nodes
            if self.spent.bytes + 6 * nodes.nbytes > allowed:  # old and new exist at once
                return False
            self._world = world._replace(tree=rehashed(world.tree._replace(nodes=_doubled(nodes))))
            return True
        tables = (world.rows, world.links, world.heads)
        if self.spent.bytes + 2 * sum(array.nbytes for array in tables) > allowed:
            return False
        rows, links = (_doubled(array.swapaxes(0, 1)).swapaxes(0, 1).copy() for array in (world.rows, world.links))
        heads = np.zeros((2, 2, 2 * world.heads.shape[2]), np.int64)
        rechain(rows, links, heads, world.registers, world.masks, world.scratch[0])
        self._world = world._replace(rows=rows, links=links, heads=heads)
        return True

    def _evidence(self) -> Evidence:
        world, operations = self._world, self._operations
        failing = int(~world.events[world.registers[kernel.EVENT]])
        seen = world.events[: int(world.registers[kernel.EVENT])]
        before = [int(op) for op in seen if op >= 0]
        configurations = tuple(
            self._configuration(world.rows[CURRENT, index])
            for index in range(min(_SHOWN, world.registers[USED + CURRENT]))
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
        opened = world.opened[: int(world.registers[kernel.OPENED])]
        called = world.lost[: int(world.registers[kernel.LOST])]
        took = [op for op in (*opened.tolist(), *called.tolist()) if not self._waits(row, op)]
        state: int | list[int] = int(row[0])
        if listed(self._operations):
            node, state = int(row[0]), []
            if node == ELSEWHERE:
                return Configuration(UNSEEN, tuple(int(self._rows[op]) for op in took))
            while node > 0:
                state.append(int(world.tree.nodes[node, SYMBOL]))
                node = int(world.tree.nodes[node, PARENT])
            state.reverse()
        return Configuration(state, tuple(int(self._rows[op]) for op in took))

    def _waits(self, row: Int64s, op: int) -> bool:
        """Must or may this operation still take effect?"""
        world = self._world
        must = int(world.registers[MUST])
        word, bit = int(world.ops[op, kernel.WORD]), int(world.ops[op, kernel.BIT])
        return bool(row[1 + must + word] & bit or (world.ops[op, kernel.CERTAIN] and row[1 + word] & bit))


def search(operations: Operations, initial: int = NIL, budget: Budget | None = None) -> Answer:
    """Is the history of one object linearizable? `unknown` only when the budget ended it."""
    return Search(operations, initial).run(budget)


def _bytes(arrays: Iterable[Any]) -> int:
    return sum(array.nbytes if isinstance(array, np.ndarray) else _bytes(array) for array in arrays)


def _doubled(array: Int64s) -> Int64s:
    bigger = np.zeros((2 * len(array), *array.shape[1:]), np.int64)
    bigger[: len(array)] = array
    return bigger
