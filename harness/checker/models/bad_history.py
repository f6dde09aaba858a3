"""Histories that no client can have recorded: nothing can be concluded from them about the system.

Such a history is neither valid nor evidence against the system: the verdict is `unknown`, with the anomaly
`bad-history` that names the place. An exit code of 1 would accuse a database of its recorder's defect.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from harness.checker.models.model import Found, Judgement
from harness.history.formats.pairing import Operation, Problem
from reports.verdict import Validity

BAD_HISTORY = "bad-history"


class Misfit(ValueError):
    """An op that its model cannot have; the message says why, without the place."""

    def __init__(self, operation: Operation, reason: str) -> None:
        self.operation = operation
        super().__init__(f"{operation.f} at {place_of(operation)}: {reason}")


def place_of(operation: Operation) -> str:
    event = operation.completion or operation.invocation
    return event.place if event is not None else f"index {operation.index}"


def bad_history(sentence: str, *operations: Operation, count: int = 1) -> Judgement:
    return _judgement(sentence, tuple(operation.index for operation in operations), count)


def of_problems(problems: Sequence[Problem]) -> Judgement:
    """What pairing found. There is at least one."""
    return _judgement(problems[0].sentence, tuple(problem.index for problem in problems[:4]), len(problems))


def unknown_functions(model: str, functions: Collection[str], operations: Sequence[Operation]) -> Judgement | None:
    strange = [operation for operation in operations if operation.f not in functions]
    if not strange:
        return None
    known = ", ".join(sorted(functions))
    sentence = f"{strange[0].f} at {place_of(strange[0])} is no op of the model {model}; those are {known}"
    return bad_history(sentence, strange[0], count=len(strange))


def _judgement(sentence: str, ops: tuple[int, ...], count: int) -> Judgement:
    found = Found(type=BAD_HISTORY, count=count, sentence=sentence, ops=ops, violation=False)
    return Judgement(verdict=Validity.UNKNOWN, engine="pairing", found=(found,), reason=f"bad history: {sentence}")
