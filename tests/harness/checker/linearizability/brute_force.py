"""Linearizability by its definition, on plain Python values, sharing nothing with the engines.

Some order of the operations must respect real time (what completed before another was invoked comes first; equal times
are concurrent) and give every operation the answer that it got. Operations of unknown outcome may be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Value = Any
State = Any


class Op(NamedTuple):
    kind: str
    argument: Value = None
    expected: Value = None
    result: Value = None  # "unseen": nobody saw the answer
    invoked: int = 0
    completed: int | None = None  # None: unknown
    certain: bool = True


def apply(op: Op, state: State) -> tuple[bool, State]:
    """Is this answer right, and what is the state afterwards?"""
    match op.kind:
        case "read":
            return op.result == state, state
        case "write":
            return True, op.argument
        case "cas":
            return op.expected == state, op.argument
        case "failed-cas":
            return op.expected != state, state
        case "acquire":
            return state is None, op.argument
        case "release":
            return state == op.argument, None
        case "add":
            return True, state + op.argument
        case "fetch-and-add":
            return op.result in (state, "unseen"), state + op.argument
        case "insert":
            return True, state | {op.argument}
        case "remove":
            return True, state - {op.argument}
        case "contains":
            return (op.argument in state) == op.result, state
        case "enqueue":
            return True, (*state, op.argument)
        case "dequeue":
            return bool(state) and op.result in (state[0], "unseen"), state[1:]
        case "empty":
            return state == (), state
        case "append":
            return True, state + op.argument
    raise AssertionError(op)


def linearizable(ops: Sequence[Op], initial: State, apply: Callable[[Op, State], tuple[bool, State]] = apply) -> bool:
    dead_ends: set[tuple[frozenset[int], State]] = set()

    def some_order(left: frozenset[int], state: State) -> bool:
        if not any(ops[i].certain for i in left):
            return True
        if (left, state) in dead_ends:
            return False
        for i in left:
            if not any(_before(ops[other], ops[i]) for other in left):
                right, after = apply(ops[i], state)
                if right and some_order(left - {i}, after):
                    return True
        dead_ends.add((left, state))
        return False

    # what is of unknown outcome orders nothing, so leaving it to the end is leaving it out
    return some_order(frozenset(range(len(ops))), initial)


def _before(a: Op, b: Op) -> bool:
    return a.completed is not None and a.completed < b.invoked
