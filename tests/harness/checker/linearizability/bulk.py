"""Histories of registers as arrays, for speed: long ones, and many small ones that are hard to search."""

from __future__ import annotations

import random

import numpy as np

from harness.checker.linearizability.operations import CAS, CAS_FAILED, NIL, OPEN, READ, WRITE, Operations


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


def like_etcd(seed: int, *, clients: int = 5, count: int = 80, broken: bool = False) -> Operations:
    """What Jepsen records of etcd while its network is cut: a compare-and-set register of five values, 7 to 19 unknown.

    An operation of unknown outcome took effect, now or much later, or never did. `broken`: a late read returns a value
    that nothing late or unknown wrote.
    """
    rng = random.Random(seed)
    unknown = set(rng.sample(range(count), rng.randint(7, 19)))
    free = [rng.random() for _ in range(clients)]
    rows: list[list[float]] = []  # kind, argument, expected, result, invoked, completed, certain
    effects: list[tuple[float, int]] = []
    for number in range(count):
        client = min(range(clients), key=free.__getitem__)
        invoked = free[client]
        completed = invoked + rng.expovariate(1) + 0.05
        free[client] = completed + rng.random() * 0.1 + (2 if number in unknown else 0)
        kind = rng.choice((READ, WRITE, CAS))
        rows.append([kind, rng.randrange(5), rng.randrange(5), NIL, invoked, completed, number not in unknown])
        late = rng.choice((rng.uniform(invoked, completed), invoked + 10 * rng.random(), np.inf))
        effects.append((late if number in unknown else rng.uniform(invoked, completed), number))
    state = NIL
    for at, number in sorted(effects):
        row = rows[number]
        if at == np.inf:
            continue
        if row[0] == READ:
            row[3] = state
        elif row[0] == WRITE or row[2] == state:
            state = int(row[1])
        elif row[6]:
            row[0] = CAS_FAILED
    maybe = {row[1] for row in rows if row[0] in (WRITE, CAS) and (not row[6] or row[4] > rows[-20][4])}
    reads = [row for row in rows if row[0] == READ and row[6]]
    if broken:
        row = rng.choice(reads[len(reads) // 2 :])
        row[3] = rng.choice([value for value in range(5) if value not in maybe and value != row[3]] or [NIL])
    position = {time: place for place, time in enumerate(sorted(time for row in rows for time in row[4:6]))}
    columns = [np.array(column, np.int64) for column in list(zip(*rows, strict=True))[:4]]
    certain = np.array([row[6] for row in rows], bool)
    return Operations(
        kind=columns[0],
        argument=np.where(columns[0] == READ, NIL, columns[1]),
        expected=np.where((columns[0] == CAS) | (columns[0] == CAS_FAILED), columns[2], NIL),
        result=columns[3],
        invoked=np.array([position[row[4]] for row in rows], np.int64),
        completed=np.where(certain, [position[row[5]] for row in rows], OPEN),
        certain=certain,
    )
