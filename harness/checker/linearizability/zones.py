"""Registers and compare-and-set registers whose values are unique: exact, O(n log n) (zones of Gibbons and Korach, 1997).

When each value is written once, a read names its write, and a CAS a -> b is the only successor of a: successful CASes
link values to chains. A chain takes effect in one piece, since whatever writes in between would break it:

    w(1)   r:1 r:1   cas(1 -> 2)   r:2        positions 0, 1 1, 2, 3

 1. A value that nobody wrote, two CASes from one value, a CAS that (through others) expects its own value: illegal.
 2. Inside a chain no operation may be invoked after one at a higher position had completed (`log.inversions`).
 3. Of a chain only two times matter to others: f, its earliest completion, and s, its latest invocation: something of
    it took effect before f at the latest, something after s at the earliest. Two chains contradict each other iff
    f1 < s2 and f2 < s1: each would have to come first. Zones with f < s (forward) must not overlap; a zone with
    s <= f (backward) must not lie inside a forward one. Pairs suffice: see the paper.

The initial value is a write that completed before everything. A write or CAS of unknown outcome happened iff somebody
saw its value (a CAS that happened saw its expected one); else it is left out: with unique values nothing can tell.
A failed CAS that does not say what it found is refused: "before or after a's chain" is a disjunction, which needs search.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.checker.linearizability.compiling import compiled
from harness.checker.linearizability.log import inversions
from harness.checker.linearizability.operations import (
    CAS,
    NEVER,
    NIL,
    OPEN,
    READ,
    WRITE,
    Answer,
    Int64s,
    Operations,
    Refused,
    illegal,
    legal,
)

ENGINE = "zones"


class _Found(NamedTuple):
    """A contradiction: rows of the history, and what they say."""

    rows: list[int]
    sentence: str


def zones(operations: Operations, initial: int = NIL) -> Answer | Refused:
    """Decides reads, writes and successful CASes; refuses repeated values and other kinds."""
    if not operations.only(READ, WRITE, CAS):
        return Refused(ENGINE, "every operation is a read, a write or a successful compare-and-set")
    writers = np.flatnonzero(operations.kind != READ)
    values = np.concatenate((operations.argument[writers], [initial]))
    lookup = _Lookup(values)
    if lookup.repeated:
        return Refused(ENGINE, "every value is written once, and none is the initial one")
    history = _History(operations, writers, lookup)
    found = history.contradiction()
    return legal(ENGINE) if found is None else illegal(ENGINE, found.sentence, *history.with_witnesses(found.rows))


class _Lookup:
    """Which writer wrote a value; by table where values are small numbers, else by binary search."""

    def __init__(self, values: Int64s) -> None:
        self._low, high = int(values.min()), int(values.max())
        self._table: Int64s | None = None
        if high - self._low < 8 * len(values) + 1024:
            self._table = np.full(high - self._low + 1, -1, np.int64)
            self._table[values - self._low] = np.arange(len(values))
            self.repeated = bool((self._table[values - self._low] != np.arange(len(values))).any())
        else:
            self._order = np.argsort(values, kind="stable")
            self._sorted = values[self._order]
            self.repeated = bool((self._sorted[1:] == self._sorted[:-1]).any())

    def __call__(self, values: Int64s) -> Int64s:
        """-1: nobody wrote it."""
        if self._table is not None:
            inside = (values >= self._low) & (values < self._low + len(self._table))
            return np.where(inside, self._table[np.where(inside, values - self._low, 0)], -1)
        place = np.minimum(np.searchsorted(self._sorted, values), len(self._sorted) - 1)
        return np.where(self._sorted[place] == values, self._order[place], -1).astype(np.int64)


class _History:
    """Writers are numbered as they stand, the initial value is the last one."""

    def __init__(self, operations: Operations, writers: Int64s, lookup: _Lookup) -> None:
        self.operations = operations
        self.writers = writers
        self.reads = np.flatnonzero((operations.kind == READ) & operations.certain)
        self.read_from = lookup(operations.result[self.reads])
        self.is_cas = operations.kind[writers] == CAS
        self.before = np.full(len(writers) + 1, -1, np.int64)  # of a CAS: the writer of what it expected
        self.before[:-1][self.is_cas] = lookup(operations.expected[writers[self.is_cas]])
        self.happened = self._happened()

    def _happened(self) -> npt.NDArray[np.bool_]:
        """Per writer; unknown ones did iff their value was seen."""
        happened = np.append(self.operations.certain[self.writers], True)
        if happened.all():
            return happened
        seen = np.zeros(len(happened) + 1, bool)  # one more for -1
        seen[self.read_from] = True
        seen[self.before[:-1][self.is_cas & happened[:-1]]] = True
        while True:
            new = np.flatnonzero(seen[:-1] & ~happened)
            if not len(new):
                return happened
            happened[new] = True
            cas = new[self.is_cas[new]]
            seen[self.before[cas]] = True

    def contradiction(self) -> _Found | None:
        return self._unwritten() or self._forked() or self._ordered()

    def _unwritten(self) -> _Found | None:
        phantom = np.flatnonzero(self.read_from < 0)
        if len(phantom):
            row = int(self.reads[phantom[0]])
            return _Found([row], f"operation #{row} read a value that nobody wrote")
        phantom = np.flatnonzero(self.is_cas & self.happened[:-1] & (self.before[:-1] < 0))
        if len(phantom):
            row = int(self.writers[phantom[0]])
            return _Found([row], f"compare-and-set #{row} found a value that nobody wrote")
        return None

    def _forked(self) -> _Found | None:
        cas = np.flatnonzero(self.is_cas & self.happened[:-1])
        last = np.full(len(self.writers) + 1, -1, np.int64)
        last[self.before[cas]] = cas
        again = cas[last[self.before[cas]] != cas]
        if not len(again):
            return None
        one, other = int(again[0]), int(last[self.before[again[0]]])
        rows = [int(self.writers[one]), int(self.writers[other]), self._row(int(self.before[one]))]
        return _Found(rows, f"compare-and-sets #{rows[0]} and #{rows[1]} both replaced one and the same value")

    def _ordered(self) -> _Found | None:
        links = np.where(self.happened, self.before, -1)
        self.chain, self.position, cycle = chains(links)
        if cycle >= 0:
            members, at = [int(self.writers[cycle])], int(links[cycle])
            while at != cycle:
                members.append(int(self.writers[at]))
                at = int(links[at])
            names = ", ".join(f"#{member}" for member in members)
            return _Found(members, f"compare-and-sets {names} each need another one of them to have come first")
        kept = np.flatnonzero(self.happened[:-1])
        rows = np.concatenate((self.writers[kept], self.reads))
        writer = np.concatenate((kept, self.read_from))
        chain = self.chain[writer]
        invoked, completed = self.operations.invoked[rows], self.operations.completed[rows]
        position = 2 * self.position[writer] + (np.arange(len(rows)) >= len(kept))
        return self._inside(rows, chain, position, invoked, completed) or self._between(rows, chain, invoked, completed)

    def _inside(
        self, rows: Int64s, chain: Int64s, position: Int64s, invoked: Int64s, completed: Int64s
    ) -> _Found | None:
        if not self.is_cas.any():  # chains of one write: nothing but "read before it was written" can be wrong
            began = np.append(self.operations.invoked[self.writers], NEVER)[self.read_from]
            early = np.flatnonzero(self.operations.completed[self.reads] < began)
            if not len(early):
                return None
            pair = int(self.writers[self.read_from[early[0]]]), int(self.reads[early[0]])
            return _Found(list(pair), f"read #{pair[1]} had completed before write #{pair[0]} of its value was invoked")
        found = inversions(chain, position, invoked, completed)
        if not len(found.x):
            return None
        x, y = int(found.x[0]), int(found.y[0])
        between = np.flatnonzero((chain == chain[x]) & (position % 2 == 0) & (position >= position[x] - 1))
        linking = rows[between[position[between] <= position[y]]].tolist()
        sentence = (
            f"operation #{rows[y]} had completed before operation #{rows[x]} was invoked, but its value came later"
        )
        return _Found([int(rows[x]), int(rows[y]), *linking], sentence)

    def _between(self, rows: Int64s, chain: Int64s, invoked: Int64s, completed: Int64s) -> _Found | None:
        count = len(self.chain)
        first, last, first_row, last_row = extremes(chain, invoked, completed, count)
        start = int(self.chain[-1])
        first[start], first_row[start] = NEVER, -1
        used = np.flatnonzero((first_row >= 0) | (np.arange(count) == start))
        pair = clash(first[used], last[used])
        if pair is None:
            return None
        contradicting: list[int] = []
        for index in pair:
            own = int(used[index])
            ends = [int(at) for at in (first_row[own], last_row[own]) if at >= 0]
            contradicting += [int(rows[at]) for at in ends]
            contradicting += self._links(own, [int(rows[at]) for at in ends])
        one, other = (self._name(int(used[index])) for index in pair)
        return _Found(
            contradicting, f"{one} and {other} exclude each other: part of each was over before part of the other began"
        )

    def _links(self, chain: int, ends: list[int]) -> list[int]:
        """The writers that make `ends` one chain: from the chain's write to the last position among them."""
        members = np.flatnonzero((self.chain == chain) & self.happened)
        writer_of = dict(zip(self.reads.tolist(), self.read_from.tolist(), strict=True)) if len(ends) else {}
        writer_of |= {int(self.writers[at]): int(at) for at in members if at < len(self.writers)}
        deepest = max((int(self.position[writer_of[row]]) for row in ends), default=0)
        return [self._row(int(at)) for at in members if self.position[at] <= deepest]

    def _name(self, chain: int) -> str:
        row = self._row(chain)
        return "what write 'initial value' began" if row < 0 else f"what write #{row} began"

    def _row(self, writer: int) -> int:
        return int(self.writers[writer]) if 0 <= writer < len(self.writers) else -1

    def with_witnesses(self, rows: list[int]) -> list[int]:
        """And for each write of unknown outcome somebody who saw that it happened."""
        found = [row for row in rows if row >= 0]
        for row in found:
            if self.operations.certain[row]:
                continue
            writer = int(np.flatnonzero(self.writers == row)[0])
            readers = self.reads[self.read_from == writer]
            if len(readers):
                found.append(int(readers[0]))
                continue
            cas = np.flatnonzero((self.before[:-1] == writer) & self.happened[:-1])
            if len(cas) and int(self.writers[cas[0]]) not in found:
                found.append(int(self.writers[cas[0]]))
        return found


def clash(first: Int64s, last: Int64s) -> tuple[int, int] | None:
    """Two zones with first[a] < last[b] and first[b] < last[a]."""
    forward = np.flatnonzero(first < last)
    forward = forward[np.argsort(first[forward], kind="stable")]
    overlapping = np.flatnonzero(first[forward[1:]] < last[forward[:-1]])
    if len(overlapping):
        at = int(overlapping[0])
        return int(forward[at]), int(forward[at + 1])
    backward = np.flatnonzero(first >= last)
    around = np.searchsorted(first[forward], last[backward], side="left") - 1
    inside = (around >= 0) & (first[backward] < np.append(last[forward], NEVER)[around])
    if not inside.any():
        return None
    at = int(np.flatnonzero(inside)[0])
    return int(forward[around[at]]), int(backward[at])


@compiled
def chains(before: Int64s) -> tuple[Int64s, Int64s, int]:
    """Per writer the first of its chain and how many are before it; a member of a cycle, or -1."""
    count = len(before)
    chain = np.full(count, -1, np.int64)
    position = np.zeros(count, np.int64)
    path = np.empty(count, np.int64)
    for start in range(count):
        at = start
        length = 0
        while chain[at] == -1 and before[at] >= 0:
            chain[at] = -2
            path[length] = at
            length += 1
            at = before[at]
        if chain[at] == -2:
            return chain, position, at
        if chain[at] == -1:
            chain[at] = at
        while length > 0:
            length -= 1
            member = path[length]
            chain[member] = chain[at]
            position[member] = position[at] + 1
            at = member
    return chain, position, -1


@compiled
def extremes(group: Int64s, invoked: Int64s, completed: Int64s, count: int) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Per group the earliest completion, the latest invocation, and the rows that have them (-1: none)."""
    first = np.full(count, OPEN, np.int64)
    last = np.full(count, NEVER, np.int64)
    first_row = np.full(count, -1, np.int64)
    last_row = np.full(count, -1, np.int64)
    for row in range(len(group)):
        own = group[row]
        if first_row[own] < 0 or completed[row] < first[own]:
            first[own], first_row[own] = completed[row], row
        if last_row[own] < 0 or invoked[row] > last[own]:
            last[own], last_row[own] = invoked[row], row
    return first, last, first_row, last_row
