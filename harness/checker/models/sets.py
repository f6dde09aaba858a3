"""A set: add, remove, contains, and reads of the whole.

    {:f :add :value 3}   {:f :remove :value 3}   {:f :contains :value 3} -> ok [3 true] or true   {:f :read} -> ok #{3}

It begins empty, unless told otherwise. A vector stands for a set where a set is due; one that names an element twice
is an anomaly of its own, `duplicate-elements`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from harness.checker.linearizability.operations import CONTAINS, INSERT, READ, REMOVE
from harness.checker.models.bad_history import Misfit
from harness.checker.models.model import ABSENT, Found, Question
from harness.checker.models.objects import ObjectModel, Rows, happened, known
from harness.checker.models.values import shown
from harness.history.formats.pairing import Operation, Paired

_COLLECTIONS = (tuple, set, frozenset, list)


def _build(rows: Rows, operations: Sequence[Operation], question: Question) -> None:
    number = rows.values.number
    if question.initial is not ABSENT and question.initial is not None:
        if not isinstance(question.initial, _COLLECTIONS):
            raise Misfit(operations[0], "a set begins as a set, which the initial value is not")
        if question.initial:
            rows.initial = rows.add_list(sorted(map(number, question.initial)))
    for operation in happened(operations):
        if operation.f == "add":
            rows.add(operation, INSERT, argument=number(operation.value))
        elif operation.f == "remove":
            rows.add(operation, REMOVE, argument=number(operation.value))
        elif not known(operation):
            continue
        elif operation.f == "contains":
            rows.add(operation, CONTAINS, argument=number(operation.value), result=_answer(operation))
        elif operation.result is not None:
            elements = [*map(number, _elements(operation))]
            if len(set(elements)) < len(elements):
                rows.found.append(_twice(operation, rows, elements))
            rows.add(operation, READ, result=rows.add_list(sorted(set(elements))))


def _elements(operation: Operation) -> Sequence[Any]:
    found = operation.result
    if not isinstance(found, _COLLECTIONS):
        raise Misfit(operation, "a read of a set finds a set")
    return tuple(found)


def _twice(operation: Operation, rows: Rows, elements: Sequence[int]) -> Found:
    counts = Counter(elements)
    again = [element for element in counts if counts[element] > 1]
    sentence = f"read {operation.index} found {shown(rows.values.value(again[0]))} {counts[again[0]]} times"
    return Found(type="duplicate-elements", count=len(again), sentence=sentence, ops=(operation.index,))


def _answer(operation: Operation) -> int:
    result = operation.result
    if isinstance(result, tuple) and len(result) == 2:
        result = result[1]
    if result not in (0, 1):
        raise Misfit(operation, "whether a set contains an element is true or false")
    return int(result)


def _reads_collections(history: Paired) -> bool:
    operations = history.operations
    reads = [o.result for o in operations if o.f == "read" and known(o) and o.result is not None]
    own = any(o.f in ("remove", "contains") for o in operations)
    return (
        (own or any(o.f == "add" for o in operations))
        and (own or bool(reads))
        and all(isinstance(found, _COLLECTIONS) for found in reads)
    )


SET = ObjectModel(
    name="set",
    functions=frozenset({"add", "remove", "contains", "read"}),
    engine="set",
    build=_build,
    looks_like=_reads_collections,
)
