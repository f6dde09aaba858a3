"""Long legal histories of registers as arrays, for speed."""

from __future__ import annotations

import numpy as np

from harness.checker.linearizability.operations import CAS, NIL, OPEN, READ, WRITE, Operations


def bulk_register(
    count: int, clients: int, seed: int = 1, *, unique: bool = True, cas: float = 0.0, lost: float = 0.0
) -> Operations:
    """Each client does one operation at a time; about half are reads. `cas`, `lost`: shares; lost ones are writes."""
    rng = np.random.default_rng(seed)
    instant = 100 * np.arange(count, dtype=np.int64)
    span = 50 * max(clients - 1, 1)  # `clients` at once, on average
    invoked = instant - rng.integers(0, span + 1, count)
    completed = instant + rng.integers(0, span + 1, count)
    kind = np.where(rng.random(count) < 0.5, READ, WRITE)
    kind[0] = WRITE
    writes = np.flatnonzero(kind == WRITE)
    values = np.arange(count, dtype=np.int64) if unique else rng.integers(0, 5, count)
    latest = np.maximum.accumulate(np.where(kind == WRITE, np.arange(count), 0))
    result = np.where(kind == READ, values[latest], NIL)
    expected = np.full(count, NIL, np.int64)
    replacing = writes[1:][rng.random(len(writes) - 1) < cas]
    kind[replacing] = CAS
    expected[replacing] = values[latest[replacing - 1]]
    certain = np.ones(count, bool)
    certain[writes[rng.random(len(writes)) < lost]] = False
    order = rng.permutation(count)
    return Operations(
        kind=kind[order],
        argument=np.where(kind == READ, NIL, values)[order],
        expected=expected[order],
        result=result[order],
        invoked=invoked[order],
        completed=np.where(certain, completed, OPEN)[order],
        certain=certain[order],
    )
