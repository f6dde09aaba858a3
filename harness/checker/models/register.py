"""A register, and one that can compare and set.

    {:f :write :value 3}   {:f :read :value nil} -> ok 3   {:f :cas :value [3 4]}: 3 replaced by 4; :fail: it was not 3

The register begins with nil, unless told otherwise. An ok read of nil found nil.

A compare-and-set that failed tells that the value was another one, as Porcupine has it. It only did not happen, as
Knossos has it, when it failed with an `:error` that says something else (no leader, connection refused), or without one
in a history whose reads or writes fail without one, too: a database that is down fails everything alike. A failed one
that says what it found (`:witness`) is a read of that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from harness.checker.linearizability.operations import CAS, CAS_FAILED, READ, WRITE
from harness.checker.models.bad_history import Misfit
from harness.checker.models.model import ABSENT, Question
from harness.checker.models.objects import ObjectModel, Rows, known
from harness.history.formats.pairing import Operation, Paired
from workloads.op import Outcome

_OTHER_VALUE = re.compile(
    r"mismatch|precondition|not.?match|not.?equal|did.?not.?succeed|compar|wrong.?value|cas.?fail", re.IGNORECASE
)
_NO_WITNESS = object()


def build(rows: Rows, operations: Sequence[Operation], question: Question) -> None:
    rows.initial = rows.values.number(None if question.initial is ABSENT else question.initial)
    down = any(o.outcome is Outcome.FAIL and o.f != "cas" and o.error is None for o in operations)
    for operation in operations:
        if operation.outcome is not Outcome.FAIL:
            add(rows, operation)
        elif operation.f == "cas":
            _add_failed(rows, operation, tells_without_error=not down)


def add(rows: Rows, operation: Operation) -> None:
    """One that did not fail."""
    number = rows.values.number
    if operation.f == "cas":
        expected, new = _pair(operation)
        rows.add(operation, CAS, argument=number(new), expected=number(expected))
    elif operation.f in ("write", "put"):
        rows.add(operation, WRITE, argument=number(operation.value))
    elif known(operation):
        rows.add(operation, READ, result=number(operation.result))


def _add_failed(rows: Rows, operation: Operation, *, tells_without_error: bool) -> None:
    completion, error = operation.completion, operation.error
    witness = _NO_WITNESS if completion is None else completion.more.get("witness", _NO_WITNESS)
    if witness is not _NO_WITNESS:
        rows.add(operation, READ, result=rows.values.number(witness))
    elif tells_without_error if error is None else _OTHER_VALUE.search(str(error)):
        rows.add(operation, CAS_FAILED, expected=rows.values.number(_pair(operation)[0]))


def _pair(operation: Operation) -> tuple[Any, Any]:
    value = operation.value if operation.value is not None else operation.result
    if not isinstance(value, tuple) or len(value) != 2:
        raise Misfit(operation, "a compare-and-set has a value [expected new]")
    return value


def _is_register(history: Paired) -> bool:
    """What is only read, and holds many things, is more likely a bank, or keys of their own."""
    written = any(operation.f == "write" for operation in history.operations)
    return written or not any(isinstance(operation.result, (tuple, dict)) for operation in history.operations)


def _has_cas(history: Paired) -> bool:
    return any(operation.f == "cas" for operation in history.operations)


REGISTER = ObjectModel(
    name="register", functions=frozenset({"read", "write"}), engine="register", build=build, looks_like=_is_register
)
CAS_REGISTER = ObjectModel(
    name="cas-register",
    functions=frozenset({"read", "write", "cas"}),
    engine="cas-register",
    build=build,
    looks_like=_has_cas,
)
