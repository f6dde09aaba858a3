"""A lock: acquire and release, by whoever. It begins free.

    {:process 1 :f :acquire}   {:process 1 :f :release}   :fail: it did not happen

Who releases does not matter (as in Knossos). Where every release follows an acquire of its own process, and no process
does two things at once, that makes no difference: of the processes at most one can then have acquired more often than
released, so it is the one that releases next. So the exact engine, which needs holders, is asked with processes as
holders; when it refuses, a search decides without them.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.checker.linearizability.mutexes import mutex
from harness.checker.linearizability.operations import ACQUIRE, RELEASE, Refused
from harness.checker.models.bad_history import Misfit
from harness.checker.models.model import ABSENT, Question
from harness.checker.models.objects import ObjectModel, Rows, happened
from harness.history.formats.pairing import Operation, Paired

_ANYBODY = 0
_KINDS = {"acquire": ACQUIRE, "release": RELEASE}


def _build(rows: Rows, operations: Sequence[Operation], question: Question) -> None:
    if question.initial not in (ABSENT, None):
        raise Misfit(operations[0], "a lock begins free: the initial value can only be nil")
    trial = Rows(rows.key, rows.values)
    for operation in happened(operations):
        trial.add(operation, _KINDS[operation.f], argument=rows.values.number((operation.process,)))
    refused = isinstance(mutex(trial.as_operations()), Refused)
    for operation in happened(operations):
        holder = _ANYBODY if refused else rows.values.number((operation.process,))
        rows.add(operation, _KINDS[operation.f], argument=holder)


def _is_lock(history: Paired) -> bool:
    return bool(history.operations)


MUTEX = ObjectModel(name="mutex", functions=frozenset(_KINDS), engine="mutex", build=_build, looks_like=_is_lock)
