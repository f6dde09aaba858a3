"""A counter: add, increment and decrement, the same with the value before as their answer, and reads.

    {:f :add :value 5}   {:f :increment}   {:f :fetch-and-increment} -> ok 7: it was 7, and is 8   {:f :read} -> ok 8

It begins with 0, unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.checker.linearizability.operations import ADD, FETCH_ADD, READ, UNSEEN
from harness.checker.models.bad_history import Misfit
from harness.checker.models.model import ABSENT, Question
from harness.checker.models.objects import ObjectModel, Rows, happened, known
from harness.history.formats.pairing import Operation, Paired

_CHANGES = {
    "add": 1, "increment": 1, "inc": 1, "decrement": -1, "dec": -1, "fetch-and-add": 1, "fetch-and-increment": 1,
}  # fmt: skip
_FETCHES = frozenset({"fetch-and-add", "fetch-and-increment"})
_MOST = 1 << 62  # sums beyond do not fit into the kernel's numbers


def _build(rows: Rows, operations: Sequence[Operation], question: Question) -> None:
    initial = 0 if question.initial in (ABSENT, None) else question.initial
    if type(initial) is not int or abs(initial) >= _MOST:
        raise Misfit(operations[0], "a counter begins with a whole number, which the initial value is not")
    rows.initial = initial
    total = abs(initial)
    for operation in happened(operations):
        if operation.f == "read":
            if known(operation) and operation.result is not None:
                rows.add(operation, READ, result=_whole(operation, operation.result))
            continue
        amount = _amount(operation)
        total += abs(amount)
        if total >= _MOST:
            raise Misfit(operation, "the sum of all amounts is beyond 2^62")
        if operation.f not in _FETCHES:
            rows.add(operation, ADD, argument=amount)
        elif known(operation) and operation.result is not None:
            rows.add(operation, FETCH_ADD, argument=amount, result=_whole(operation, operation.result))
        else:
            rows.add(operation, FETCH_ADD, argument=amount, result=UNSEEN)


def _amount(operation: Operation) -> int:
    sign = _CHANGES[operation.f]
    amount = operation.value
    if amount is None and operation.f not in ("add", "fetch-and-add"):
        amount = 1
    return sign * _whole(operation, amount)


def _whole(operation: Operation, value: Any) -> int:
    if type(value) is not int or abs(value) >= _MOST:
        raise Misfit(operation, "a counter counts in whole numbers below 2^62")
    return value


def _reads_numbers(history: Paired) -> bool:
    operations = history.operations
    reads = [o.result for o in operations if o.f == "read" and known(o) and o.result is not None]
    own = any(o.f in _CHANGES and o.f != "add" for o in operations)
    changes = any(o.f in _CHANGES for o in operations)
    return changes and (own or bool(reads)) and all(type(found) is int for found in reads)


COUNTER = ObjectModel(
    name="counter",
    functions=frozenset({*_CHANGES, "read"}),
    engine="counter",
    build=_build,
    looks_like=_reads_numbers,
)
