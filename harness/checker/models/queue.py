"""A queue, first in first out: enqueue and dequeue. (For queues that keep no order see `total-queue`.)

    {:f :enqueue :value 3}   {:f :dequeue} -> ok 3   {:f :dequeue} -> ok nil: it was empty

It begins empty, unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.checker.linearizability.operations import DEQUEUE, EMPTY, ENQUEUE, UNSEEN
from harness.checker.models.bad_history import Misfit
from harness.checker.models.model import ABSENT, Question
from harness.checker.models.objects import ObjectModel, Rows, happened, known
from harness.history.formats.pairing import Operation, Paired


def _build(rows: Rows, operations: Sequence[Operation], question: Question) -> None:
    number = rows.values.number
    if question.initial is not ABSENT and question.initial is not None:
        if not isinstance(question.initial, (tuple, list)):
            raise Misfit(operations[0], "a queue begins as a vector, which the initial value is not")
        if question.initial:
            rows.initial = rows.add_list(map(number, question.initial))
    for operation in happened(operations):
        if operation.f == "enqueue":
            rows.add(operation, ENQUEUE, argument=number(operation.value))
        elif not known(operation):
            rows.add(operation, DEQUEUE, result=UNSEEN)
        elif operation.result is None:
            rows.add(operation, EMPTY)
        else:
            rows.add(operation, DEQUEUE, result=number(operation.result))


def _is_queue(history: Paired) -> bool:
    return bool(history.operations)


QUEUE = ObjectModel(
    name="queue", functions=frozenset({"enqueue", "dequeue"}), engine="queue", build=_build, looks_like=_is_queue
)
