"""Checks by counting, as Jepsen defines them: no order of operations to search for, only what must be there how often.

    unique_ids     every identifier that was handed out was handed out once
    total_queue    every dequeued value was enqueued, no more often than that; every acknowledged one came out
    bank           every read of all accounts has the same total, and no balance is negative unless that is allowed
    long_fork      reads of the same keys, each written once: of two reads one must have seen whatever the other saw

Sources: `jepsen.checker/unique-ids`, `total-queue`; `jepsen.tests.bank`; `jepsen.tests.long-fork`. An empty result is
valid. Findings are rows of the input, one per anomaly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.checker.linearizability.operations import Int64s


class Finding(NamedTuple):
    type: str
    rows: tuple[int, ...]
    sentence: str


def unique_ids(identifier: Int64s) -> list[Finding]:
    """One row per acknowledged request."""
    order = np.argsort(identifier, kind="stable")
    bounds = np.flatnonzero(np.diff(identifier[order], prepend=np.nan, append=np.nan) != 0)
    sizes = np.diff(bounds)
    found = []
    for at in np.flatnonzero(sizes > 1):
        rows = tuple(int(row) for row in order[bounds[at] : bounds[at + 1]])
        found.append(Finding("duplicate", rows, f"identifier {identifier[rows[0]]} was handed out {len(rows)} times"))
    return found


class TotalQueue(NamedTuple):
    lost: Int64s  # values whose enqueue was acknowledged and that never came out
    unexpected: Int64s  # values that came out and that nobody tried to enqueue
    duplicated: Int64s  # values that came out more often than somebody tried to enqueue them
    recovered: Int64s  # values of unknown outcome that came out: no anomaly


def total_queue(attempted: Int64s, acknowledged: Int64s, dequeued: Int64s) -> TotalQueue:
    """Values with repetitions. `attempted` holds every enqueue that did not surely fail, `acknowledged` too."""
    values = np.unique(np.concatenate((attempted, acknowledged, dequeued)))
    tried, sure, out = (
        np.bincount(np.searchsorted(values, some), minlength=len(values))
        for some in (attempted, acknowledged, dequeued)
    )
    seen = np.minimum(out, tried)
    return TotalQueue(
        lost=np.repeat(values, np.maximum(sure - out, 0)),
        unexpected=values[(out > 0) & (tried == 0)],
        duplicated=np.repeat(values, np.where(tried > 0, out - seen, 0)),
        recovered=np.repeat(values, np.maximum(seen - sure, 0)),
    )


def bank(balances: npt.NDArray[np.int64], total: int, *, negative_allowed: bool = False) -> list[Finding]:
    """One row per read, one column per account."""
    found = [
        Finding("wrong-total", (int(row),), f"read {row} adds up to {balances[row].sum()} instead of {total}")
        for row in np.flatnonzero(balances.sum(axis=1) != total)
    ]
    if not negative_allowed:
        for row in np.flatnonzero((balances < 0).any(axis=1)):
            account = int(np.argmin(balances[row]))
            sentence = f"read {row} found {balances[row, account]} in account {account}"
            found.append(Finding("negative-value", (int(row),), sentence))
    return found


def long_fork(seen: npt.NDArray[np.bool_]) -> list[Finding]:
    """Reads of one group of keys, one row each: did it see the key's one write? Reads must form a chain.

    Sorted by how much they saw, a chain grows from each read to the next; where it does not, the two neighbours are a
    fork: each saw a write that the other did not.
    """
    order = np.argsort(seen.sum(axis=1), kind="stable")
    less, more = seen[order[:-1]], seen[order[1:]]
    found = []
    for at in np.flatnonzero((less & ~more).any(axis=1)):
        rows = int(order[at]), int(order[at + 1])
        keys = int(np.argmax(less[at] & ~more[at])), int(np.argmax(more[at] & ~less[at]))
        sentence = (
            f"read {rows[0]} saw the write of key {keys[0]} but not of {keys[1]}, read {rows[1]} the other way round"
        )
        found.append(Finding("long-fork", rows, sentence))
    return found
