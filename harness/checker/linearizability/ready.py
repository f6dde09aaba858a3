"""Compile the kernels of all objects ahead, for harness/checker/ready.py.

A kernel has one signature whatever the object, so one small history through each engine that has kernels compiles all
of them.
"""

from __future__ import annotations

import numpy as np

from harness.checker.linearizability.decide import decide
from harness.checker.linearizability.operations import ADD, INSERT, NIL, READ, WRITE, Operations, lists_of

_HISTORIES = (
    ("register", WRITE, (1, 2, 3)),  # zones: unique values
    ("register", WRITE, (1, 1, 1)),  # the search, of plain states
    ("set", INSERT, (1, 1, 1)),  # the search, of lists
)


def compile_kernels() -> None:
    for model, kind, arguments in _HISTORIES:
        decide(model, _history(kind, arguments))
    decide("counter", _sums())


def _sums() -> Operations:
    """All at once: more configurations than a table has at first, so that it grows."""
    count = 8
    return Operations(
        kind=np.full(count, ADD, np.int64),
        argument=2 ** np.arange(count),
        expected=np.full(count, NIL, np.int64),
        result=np.full(count, NIL, np.int64),
        invoked=np.zeros(count, np.int64),
        completed=np.ones(count, np.int64),
        certain=np.ones(count, np.bool_),
    )


def _history(kind: int, arguments: tuple[int, ...]) -> Operations:
    """Three changes and a read of what they come to."""
    whole = kind == INSERT
    last = 0 if whole else arguments[-1]
    return Operations(
        kind=np.array([kind, kind, kind, READ], np.int64),
        argument=np.array([*arguments, NIL], np.int64),
        expected=np.full(4, NIL, np.int64),
        result=np.array([NIL, NIL, NIL, last], np.int64),
        invoked=np.array([0, 2, 4, 6], np.int64),
        completed=np.array([1, 3, 5, 7], np.int64),
        certain=np.ones(4, np.bool_),
        lists=lists_of([[1]] if whole else []),
    )
