"""Compile all kernels now, so that no verdict waits for it later: `python -m harness.checker.linearizability.warm`.

Each is run once on a tiny history, and its machine code stays in the cache (see `compiling`). Set-up does this, and a judge
that waits while a workload runs; whoever comes later finds `complete` there. About ten seconds of one processor, once
per version of the sources.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harness.checker.linearizability.compiling import cache_directory
from harness.checker.linearizability.frontier import search
from harness.checker.linearizability.operations import (
    ADD,
    APPEND,
    CAS,
    ENQUEUE,
    INSERT,
    NIL,
    READ,
    WRITE,
    Operations,
    lists_of,
)
from harness.checker.linearizability.zones import zones

_MARK = "complete"


def is_warm() -> bool:
    directory = cache_directory()
    return directory is not None and (directory / _MARK).exists()


def compile_kernels() -> None:
    """At once if they are there. Without a cache directory it only helps this process."""
    if is_warm():
        return
    register = _history(WRITE, CAS, READ, READ)
    zones(replace(register, result=np.array([NIL, NIL, 2, 2], np.int64)))
    search(register)
    search(_sums())
    for kind in (INSERT, ENQUEUE, APPEND):
        search(replace(_history(kind, kind, kind, READ), lists=lists_of([[1], [2], [1, 2]])))
    directory = cache_directory()
    if directory is not None:
        (directory / _MARK).touch()


def _history(*kinds: int) -> Operations:
    count = len(kinds)
    return Operations(
        kind=np.array(kinds, np.int64),
        argument=np.arange(1, count + 1) % 3,
        expected=np.arange(count),
        result=np.full(count, 2, np.int64),
        invoked=np.arange(count),
        completed=np.arange(count) + 2,
        certain=np.ones(count, bool),
    )


def _sums() -> Operations:
    """All at once: more configurations than a table has at first, so that it grows."""
    few = _history(*[ADD] * 8)
    return replace(few, argument=2 ** np.arange(8), invoked=np.zeros(8, np.int64), completed=np.full(8, 9))


if __name__ == "__main__":
    compile_kernels()
