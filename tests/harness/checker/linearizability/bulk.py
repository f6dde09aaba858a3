"""Long legal histories of registers as arrays, for speed."""

from __future__ import annotations

import numpy as np

from harness.checker.linearizability.operations import CAS, NIL, OPEN, READ, WRITE, Operations


def bulk_register(
    count: int, clients: int, seed: int = 1, *, unique: bool = True, cas: float = 0.0, lost: float = 0.0
) -> Operations:
    """A closed loop: `clients` operations are open at any time, half are reads. `cas`: share of the others; `lost` too."""
    rng = np.random.default_rng(seed)
    instant = 100 * np.arange(count, dtype=np.int64)
    client = np.concatenate([rng.permutation(clients) for _ in range(-(-count // clients))])[:count]
    order = np.lexsort((instant, client))
    gap = np.diff(instant[order], append=instant[-1] + 100 * clients)
    gap[np.append(client[order][1:] != client[order][:-1], True)] = 100 * clients
    ends = instant[order] + (gap * rng.uniform(0.3, 0.7, count)).astype(np.int64)  # the next one begins at once
    begins = np.concatenate(([0], ends[:-1])) + 1
    begins[np.concatenate(([True], client[order][1:] != client[order][:-1]))] = 0
    invoked, completed = np.empty(count, np.int64), np.empty(count, np.int64)
    invoked[order], completed[order] = np.minimum(begins, instant[order]), ends
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
