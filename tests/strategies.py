"""Random small histories of every object, legal and broken, for Hypothesis and for plain loops.

A history is made by playing it: each operation takes effect at some instant inside its interval and is answered by the
state it meets. Then it is broken, or not: answers changed, intervals moved, outcomes forgotten.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from harness.checker.linearizability import operations as codes
from harness.checker.linearizability.operations import OPEN, Operations, lists_of
from harness.history.formats.pairing import Paired
from tests.harness.checker.linearizability.brute_force import Op, State, apply
from tests.harness.checker.serializability.worlds import Forgotten, play


class Object(NamedTuple):
    """What may be invoked on an object; `draw` gives the operation without answer and times."""

    name: str
    initial: State
    draw: Callable[[random.Random, State, int], Op]
    values: int = 3


def _register(rng: random.Random, state: State, number: int) -> Op:
    if rng.random() < 0.5:
        return Op("read")
    return Op("write", rng.randrange(3))


def _unique_register(rng: random.Random, state: State, number: int) -> Op:
    return Op("read") if rng.random() < 0.5 else Op("write", number)


def _cas_register(rng: random.Random, state: State, number: int) -> Op:
    kind = rng.choice(["read", "write", "cas", "cas"])
    if kind == "cas":
        expected = rng.choice([state, rng.randrange(3)])
        return Op("cas" if expected == state else "failed-cas", rng.randrange(3), expected)
    return Op(kind, rng.randrange(3) if kind == "write" else None)


def _unique_cas_register(rng: random.Random, state: State, number: int) -> Op:
    kind = rng.choice(["read", "read", "write", "cas", "cas"])
    return Op(kind, None if kind == "read" else number, state if kind == "cas" else None)


def _mutex(rng: random.Random, state: State, number: int) -> Op:
    return Op("acquire", rng.randrange(2)) if state is None else Op("release", state)


def _held_mutex(rng: random.Random, state: State, number: int) -> Op:
    return Op("acquire", number) if state is None else Op("release", state)


def _counter(rng: random.Random, state: State, number: int) -> Op:
    kind = rng.choice(["read", "add", "fetch-and-add"])
    return Op(kind, None if kind == "read" else rng.choice([1, 1, 2, -1]))


def _unit_counter(rng: random.Random, state: State, number: int) -> Op:
    return Op("read") if rng.random() < 0.5 else Op("add", 1)


def _sequencer(rng: random.Random, state: State, number: int) -> Op:
    return Op("read") if rng.random() < 0.3 else Op("fetch-and-add", 1)


def _set(rng: random.Random, state: State, number: int) -> Op:
    kind = rng.choice(["read", "read", "insert", "remove", "contains", "contains"])
    return Op(kind, None if kind == "read" else rng.randrange(3))


def _grow_only_set(rng: random.Random, state: State, number: int) -> Op:
    return Op("read") if rng.random() < 0.4 else Op("insert", number)


def _queue(rng: random.Random, state: State, number: int) -> Op:
    if rng.random() < 0.5:
        return Op("enqueue", rng.randrange(3))
    return Op("dequeue") if state else Op("empty")


def _unique_queue(rng: random.Random, state: State, number: int) -> Op:
    if rng.random() < 0.5:
        return Op("enqueue", number)
    return Op("dequeue") if state else Op("empty")


def _text(rng: random.Random, state: State, number: int) -> Op:
    kind = rng.choice(["read", "read", "append", "append", "write"])
    return Op(kind, None if kind == "read" else rng.choice(["a", "b", "ab", ""]))


def _code(rng: random.Random, state: State, number: int) -> Op:
    """As _text, of strings of which none begins with another."""
    kind = rng.choice(["read", "read", "append", "append", "write"])
    return Op(kind, None if kind == "read" else rng.choice(["xay", "xby", "xaby", ""]))


OBJECTS = {
    one.name: one
    for one in (
        Object("register", None, _register),
        Object("unique-register", None, _unique_register),
        Object("cas-register", None, _cas_register),
        Object("unique-cas-register", None, _unique_cas_register),
        Object("mutex", None, _mutex),
        Object("held-mutex", None, _held_mutex),
        Object("counter", 0, _counter),
        Object("unit-counter", 0, _unit_counter),
        Object("sequencer", 0, _sequencer),
        Object("set", frozenset(), _set),
        Object("grow-only-set", frozenset(), _grow_only_set),
        Object("queue", (), _queue),
        Object("unique-queue", (), _unique_queue),
        Object("text", "", _text),
        Object("code", "", _code),
    )
}
_ANSWERED = frozenset({"read", "contains", "dequeue", "fetch-and-add"})


def random_history(rng: random.Random, name: str, most: int = 8) -> list[Op]:
    """Legal, or broken in up to two places; a third of the histories have operations of unknown outcome."""
    shape = OBJECTS[name]
    state = shape.initial
    ops: list[Op] = []
    width = rng.choice([0, 1, 2, 4])
    for number in range(rng.randint(1, most)):
        op = shape.draw(rng, state, number)
        if op.kind in _ANSWERED:
            op = op._replace(result=_answer(op, state))
        state = apply(op, state)[1]
        instant = 3 * number
        op = op._replace(invoked=instant - rng.randint(0, 3 * width), completed=instant + rng.randint(0, 3 * width))
        if name == "held-mutex" and op.kind == "release":  # a holder does one operation at a time
            op = _after(op, next(other for other in ops if other.argument == op.argument))
        ops.append(op)
    if rng.random() < 0.4:
        ops = [_forgotten(rng, op) if rng.random() < 0.35 else op for op in ops]
    for _ in range(rng.choice([0, 1, 2, 3])):
        where = rng.randrange(len(ops))
        ops[where] = _broken(rng, ops[where], ops)
    rng.shuffle(ops)
    return ops


def closed_loop(rng: random.Random, most: int = 10) -> list[Op]:
    """A compare-and-set register whose clients begin the next operation at once, now and then with a changed answer."""
    clients, values = rng.randint(2, 6), rng.randint(2, 4)
    ends = [0] * clients
    ops: list[Op] = []
    effects: list[tuple[int, int]] = []
    for number in range(rng.randint(5, most)):
        client = min(range(clients), key=lambda client: (ends[client], client))
        invoked, completed = ends[client] + 1, ends[client] + rng.randint(2, 12)
        ends[client] = completed
        kind = rng.choice(("read", "read", "write", "cas", "cas"))
        ops.append(Op(kind, rng.randrange(values), rng.randrange(values), None, invoked, completed))
        effects.append((rng.randint(invoked, completed), number))
    state: State = None
    for _, number in sorted(effects):
        op = ops[number]
        if op.kind == "read":
            ops[number] = op._replace(argument=None, expected=None, result=state)
        elif op.kind == "write" or op.expected == state or rng.random() < 0.5:
            ops[number] = op._replace(expected=state if op.kind == "cas" else None)
            state = op.argument
        else:
            ops[number] = op._replace(kind="failed-cas")
    for _ in range(rng.choice([0, 1, 1, 2])):
        where = rng.randrange(len(ops))
        if ops[where].kind == "read":
            ops[where] = ops[where]._replace(result=rng.randrange(values))
        elif ops[where].kind != "failed-cas":
            ops[where] = ops[where]._replace(completed=None, certain=False)
    return ops


def _after(op: Op, earlier: Op) -> Op:
    assert earlier.completed is not None
    assert op.completed is not None
    invoked = max(op.invoked, earlier.completed + 1)
    return op._replace(invoked=invoked, completed=max(op.completed, invoked))


def _answer(op: Op, state: State) -> Any:
    if op.kind == "contains":
        return op.argument in state
    return state[0] if op.kind == "dequeue" else state


def _forgotten(rng: random.Random, op: Op) -> Op:
    """Most often nobody knows whether it happened; sometimes only when it was over is not known."""
    if rng.random() < 0.2:
        return op._replace(completed=None)
    if op.kind == "empty":  # nobody saw that it found nothing
        return op._replace(kind="dequeue", completed=None, certain=False, result="unseen")
    seen = op.result if op.kind not in ("dequeue", "fetch-and-add") else "unseen"
    return op._replace(completed=None, certain=False, result=seen)


def _broken(rng: random.Random, op: Op, ops: list[Op]) -> Op:
    others = [other.result for other in ops if other.kind == op.kind and other.result not in (op.result, "unseen")]
    if others and op.certain and rng.random() < 0.7:
        return op._replace(result=rng.choice(others))
    length = 0 if op.completed is None else op.completed - op.invoked
    invoked = op.invoked + rng.randint(-15, 15)
    return op._replace(invoked=invoked, completed=None if op.completed is None else invoked + length)


def encode(ops: list[Op]) -> Operations:
    """As the engines see it: values as numbers in the order of their first use (nil: NIL), contents as lists."""
    lists: list[list[int]] = []

    def code(value: Any) -> int:
        if value is None:
            return codes.NIL
        if value == "unseen":
            return codes.UNSEEN
        if isinstance(value, bool | int):
            return int(value)
        contents = sorted(value) if isinstance(value, frozenset) else value
        lists.append([ord(one) if isinstance(one, str) else one for one in contents])
        return len(lists) - 1

    rows = [
        (
            codes.NAMES.index(op.kind),
            *(code(value) for value in (op.argument, op.expected, op.result)),
            *(op.invoked, OPEN if op.completed is None else op.completed, op.certain),
        )
        for op in ops
    ]
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)] or [np.empty(0, np.int64)] * 7
    names = ("kind", "argument", "expected", "result", "invoked", "completed")
    return Operations(**dict(zip(names, columns, strict=False)), certain=columns[6].astype(bool), lists=lists_of(lists))


def initial_code(name: str) -> int:
    """The engines' initial state."""
    return 0 if OBJECTS[name].initial == 0 else codes.NIL


@st.composite
def transactional_histories(draw: st.DrawFn, write: str, isolation: str, most: int = 8) -> Paired:
    """Of a database that has this isolation (see `worlds`); `write`: "append" to lists or "w" to registers."""
    return play(
        draw(st.randoms(use_true_random=False)),
        write,
        isolation,
        draw(st.sampled_from(list(Forgotten))),
        transactions=draw(st.integers(1, most)),
        keys=draw(st.integers(1, 3)),
    )


@st.composite
def histories(draw: st.DrawFn, name: str, most: int = 8) -> list[Op]:
    return random_history(draw(st.randoms(use_true_random=False)), name, most)
