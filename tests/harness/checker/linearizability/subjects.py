"""Every engine beside an independent, obviously correct checker, on random small histories drawn from a seed.

    subject.agrees(random.Random(7))  ->  True, False, or None: the engine refuses this history

`test_agreement` asks for 10^4 histories per engine, `many` for 10^6.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.checker.linearizability import frontier
from harness.checker.linearizability.counters import sequencer, unit_counter
from harness.checker.linearizability.frontier import search
from harness.checker.linearizability.holes import unexplained
from harness.checker.linearizability.log import NEVER, OPEN, inversions
from harness.checker.linearizability.mutexes import mutex
from harness.checker.linearizability.operations import Answer, Operations, Refused
from harness.checker.linearizability.queues import fifo_queue
from harness.checker.linearizability.sets import grow_only_set
from harness.checker.linearizability.zones import zones
from tests.harness.checker.linearizability.brute_force import Op, linearizable
from tests.harness.checker.linearizability.epoch_histories import judge_epochs, random_epochs, step_of_epochs
from tests.harness.checker.serializability import agreement
from tests.harness.checker.serializability.worlds import Forgotten
from tests.strategies import OBJECTS, closed_loop, encode, initial_code, random_history

_PLACES = {"append": 1, "end": 0, "look": 2}  # slots of a log
Engine = Callable[[Operations, int], Answer | Refused]


@dataclass(frozen=True, kw_only=True)
class Subject:
    engine: str
    files: tuple[str, ...]  # of harness/checker/linearizability or FOLDER/NAME, what the verdict depends on
    agrees: Callable[[random.Random], bool | None]

    @property
    def sources(self) -> list[Path]:
        checker = Path(frontier.__file__).parents[1]
        names = [name if "/" in name else f"linearizability/{name}" for name in self.files]
        return [checker / f"{name}.py" for name in names]


def compared(rng: random.Random, names: tuple[str, ...], engine: Engine) -> bool | None:
    name = rng.choice(names)
    ops = random_history(rng, name)
    answer = engine(encode(ops), initial_code(name))
    if isinstance(answer, Refused):
        return None
    return answer.verdict == ("legal" if linearizable(ops, OBJECTS[name].initial) else "illegal")


def searched(rng: random.Random) -> bool:
    """The frontier search decides every object; registers more often, closed loops among them."""
    if rng.random() < 0.2:
        ops = closed_loop(rng)
        return search(encode(ops)).verdict == ("legal" if linearizable(ops, None) else "illegal")
    return bool(compared(rng, tuple(OBJECTS), search))


def random_log(rng: random.Random) -> list[Op]:
    """Appends that were told their offsets (or were read, so that it is known), reads of offsets, exact ends."""
    ops: list[Op] = []
    length = 0
    for number in range(rng.randint(2, 8)):
        kind = rng.choice(["append", "append", "end", "look"]) if length else rng.choice(["append", "end"])
        offset = length + rng.choice([0, 0, 0, 1]) if kind == "append" else length
        if kind == "look":
            offset = rng.choice([op.argument for op in ops if op.kind == "append"])
        length = max(length, offset + 1) if kind == "append" else length
        width = rng.choice([0, 3, 9])
        begin, end = 3 * number - rng.randint(0, width), 3 * number + rng.randint(0, width)
        ops.append(Op(kind, offset, invoked=begin, completed=None if kind == "append" and rng.random() < 0.15 else end))
    for _ in range(rng.choice([0, 1, 2])):
        where, shift = rng.randrange(len(ops)), rng.randint(-12, 12)
        op = ops[where]
        moved = None if op.completed is None else op.completed + shift
        ops[where] = op._replace(invoked=op.invoked + shift, completed=moved)
    rng.shuffle(ops)
    return ops


def step_of_log(op: Op, state: Any) -> tuple[bool, Any]:
    """State: the length, and which offsets hold a record; offsets may be left out, as in Kafka."""
    length, held = state
    if op.kind == "append":
        return op.argument >= length, (op.argument + 1, held | {op.argument})
    if op.kind == "end":
        return op.argument >= length, (op.argument, held)
    return op.argument in held, state


def swept(rng: random.Random) -> bool:
    ops = random_log(rng)
    found = inversions(
        np.zeros(len(ops), np.int64),
        np.array([2 * op.argument + _PLACES[op.kind] for op in ops], np.int64),
        np.array([NEVER if op.kind == "look" else op.invoked for op in ops], np.int64),
        np.array([OPEN if op.completed is None else op.completed for op in ops], np.int64),
    )
    return (not len(found.x)) == linearizable(ops, (0, frozenset()), step_of_log)


def random_contiguous_log(rng: random.Random) -> list[Op]:
    """Appends that were told their offsets or nothing, exact ends and reads of a log without gaps; times may be wrong then."""
    ops: list[Op] = []
    length = 0
    for number in range(rng.randint(2, 8)):
        kind = rng.choice(["append", "append", "vague", "vague", "end", "look"])
        at = 3 * number
        begin, end = at - rng.randint(0, 6), at + rng.randint(0, 6)
        known = [op.argument for op in ops if op.kind == "append"]
        length += rng.random() < 0.05  # a record that nobody appended
        if kind == "vague":
            length += rng.random() < 0.6
            ops.append(Op("vague", invoked=begin, completed=None, certain=False))
        elif kind == "append":
            ops.append(Op("append", length, invoked=begin, completed=end))
            length += 1
        elif kind == "end" or not known:
            ops.append(Op("end", length, invoked=begin, completed=end))
        else:
            ops.append(Op("look", rng.choice(known), invoked=begin, completed=end))
    for _ in range(rng.choice([0, 1, 1, 2])):
        where, shift = rng.randrange(len(ops)), rng.randint(-12, 12)
        op = ops[where]
        moved = None if op.completed is None else op.completed + shift
        ops[where] = op._replace(invoked=op.invoked + shift, completed=moved)
    rng.shuffle(ops)
    return ops


def step_of_contiguous_log(op: Op, length: Any) -> tuple[bool, Any]:
    if op.kind == "append":
        return op.argument == length, length + 1
    if op.kind == "vague":
        return True, length + 1
    return op.argument == length if op.kind == "end" else op.argument < length, length


def matched(rng: random.Random) -> bool:
    ops = random_contiguous_log(rng)
    told = [op for op in ops if op.kind != "vague"]
    slot = np.array([2 * op.argument + _PLACES[op.kind] for op in told], np.int64)
    invoked = np.array([NEVER if op.kind == "look" else op.invoked for op in told], np.int64)
    completed = np.array([op.completed for op in told], np.int64)
    filled = np.array([op.argument for op in told if op.kind == "append"], np.int64)
    vague = np.array([op.invoked for op in ops if op.kind == "vague"], np.int64)
    ordered = not len(inversions(np.zeros_like(slot), slot, invoked, completed).x)
    found = ordered and unexplained(slot, completed, filled, vague) is None
    return found == linearizable(ops, 0, step_of_contiguous_log)


def fenced(rng: random.Random) -> bool:
    ops = random_epochs(rng)
    return judge_epochs(ops).verdict == ("legal" if linearizable(ops, 0, step_of_epochs) else "illegal")


def transactional(write: str) -> Callable[[random.Random], bool]:
    """Random small histories beside all orders of their transactions, and worlds that have an isolation, never accused."""

    def agrees(rng: random.Random) -> bool:
        seed = rng.getrandbits(40)
        try:
            if rng.random() < 0.7:
                agreement.assert_agreement(seed, write)
            else:
                isolation = rng.choice(agreement.WORLDS)
                forgotten = Forgotten.NOTHING if isolation == "read-uncommitted" else rng.choice(list(Forgotten))
                agreement.assert_isolated(seed, write, isolation, forgotten)
        except AssertionError:
            return False
        return True

    return agrees


def exact(engine_name: str, files: tuple[str, ...], engine: Engine, *names: str) -> Subject:
    return Subject(engine=engine_name, files=(*files, "operations"), agrees=lambda rng: compared(rng, names, engine))


_OF_TRANSACTIONS = (
    *(
        f"serializability/{name}"
        for name in ("consistency", "cycles", "decide", "findings", "graph", "history", "kernels")
    ),
    "models/transactions",
)
SUBJECTS = (
    Subject(
        engine="frontier",
        files=("frontier", "kernel", "configurations", "states", "encoding", "operations"),
        agrees=searched,
    ),
    Subject(engine="slot-sweep", files=("log", "operations"), agrees=swept),
    Subject(engine="hole-matching", files=("holes", "log", "operations"), agrees=matched),
    Subject(engine="epoch-sweep", files=("epochs", "log", "operations"), agrees=fenced),
    exact("zones", ("zones", "log"), zones, "unique-register", "unique-cas-register"),
    exact("set-sweep", ("sets", "log"), grow_only_set, "grow-only-set"),
    exact("queue-sweep", ("queues", "log"), fifo_queue, "unique-queue"),
    exact("unit-counter", ("counters", "log"), unit_counter, "unit-counter"),
    exact("sequencer-sweep", ("counters", "log"), sequencer, "sequencer"),
    Subject(engine="list-append", files=(*_OF_TRANSACTIONS, "serializability/lists"), agrees=transactional("append")),
    Subject(engine="rw-register", files=(*_OF_TRANSACTIONS, "serializability/registers"), agrees=transactional("w")),
    exact("mutex-zones", ("mutexes", "zones", "log"), mutex, "held-mutex"),
)
