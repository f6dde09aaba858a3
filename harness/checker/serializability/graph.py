"""The dependency graph of a history: which transaction must come before which, and why (Adya, 1999).

    T1 -WW-> T2    T2 installed the version of an object that follows one of T1's
    T1 -WR-> T2    T2 read a version that T1 installed
    T1 -RW-> T2    T1 read a version, and T2 installed a later one (an anti-dependency)

Orders in time are edges too (PROCESS, REALTIME), and so is what they tell about versions: an ORDER edge is a WW edge that
follows from who read what before whom, and an RW edge can follow from the same. Such an edge counts only where that
order is asked for: its level. And it holds only where nobody reads a version that was replaced before, which is
G-single-item: a cycle with an ORDER edge in it is nothing weaker.

Nodes are transactions, then **barriers**, which keep the number of edges linear: n transactions that precede m others are
n edges into a barrier and m FREE edges out of it. A path through barriers is one dependency, that of its first edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

FREE, WW, WR, RW, PROCESS, ORDER_PROCESS, RW_PROCESS, REALTIME, ORDER_REALTIME, RW_REALTIME = range(10)

PLAIN, SESSION, REAL_TIME = range(3)  # levels
LEVEL = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2, 2], np.int8)  # of a kind
WRITES = np.array([1, 1, 0, 0, 1, 0, 0, 1, 0, 0], bool)  # kinds that G0 may have
ORDER = np.array([0, 0, 0, 0, 0, 1, 0, 0, 1, 0], bool)
ANTI = np.array([0, 0, 0, 1, 0, 0, 1, 0, 0, 1], bool)

OPEN = np.iinfo(np.int64).max  # completed: nobody knows


@dataclass(frozen=True, kw_only=True)
class Graph:
    transactions: int
    nodes: int  # with barriers
    source: npt.NDArray[np.int32]
    target: npt.NDArray[np.int32]
    kind: npt.NDArray[np.int8]
    item: Int64s  # what the edge is about, as who built it knows


class Edges:
    """Collects edges and hands out barriers."""

    def __init__(self, transactions: int) -> None:
        self._transactions = transactions
        self._nodes = transactions
        self._parts: list[tuple[Int64s, Int64s, int | Int64s, Int64s | int]] = []
        self._single: list[tuple[int, int, int, int]] = []

    def barriers(self, count: int) -> int:
        """The first of so many new ones."""
        first = self._nodes
        self._nodes += count
        return first

    def add(self, source: int, target: int, kind: int, item: int) -> None:
        if source != target:
            self._single.append((source, target, kind, item))

    def extend(self, source: Int64s, target: Int64s, kind: int, item: Int64s | int) -> None:
        """Many at once; edges from a node to itself are left out."""
        keep = source != target
        items = item if isinstance(item, int) else item[keep]
        self._parts.append((source[keep], target[keep], kind, items))

    def fan(self, sources: Iterable[tuple[int, int]], targets: Sequence[int], item: int) -> None:
        """Each of the sources, given as (node, kind), precedes each of the targets but itself."""
        sources, targets = list(sources), list(dict.fromkeys(targets))
        if len(sources) * len(targets) <= len(sources) + len(targets):
            for node, kind in sources:
                for target in targets:
                    self.add(node, target, kind, item)
            return
        place = {target: number for number, target in enumerate(targets)}
        if not any(node in place for node, _ in sources):
            barrier = self.barriers(1)
            self._single.extend((node, barrier, kind, item) for node, kind in sources)
            self._single.extend((barrier, target, FREE, item) for target in targets)
            return
        count = len(targets)
        downwards, upwards = self.barriers(count), self.barriers(count)  # all up to this place, all from it on
        for number, target in enumerate(targets):
            self._single.append((downwards + number, target, FREE, item))
            self._single.append((upwards + number, target, FREE, item))
            if number:
                self._single.append((downwards + number, downwards + number - 1, FREE, item))
                self._single.append((upwards + number - 1, upwards + number, FREE, item))
        for node, kind in sources:
            own = place.get(node, -1)
            if own > 0:
                self._single.append((node, downwards + own - 1, kind, item))
            if own + 1 < count:
                self._single.append((node, upwards + own + 1, kind, item))

    def graph(self) -> Graph:
        parts = list(self._parts)
        if self._single:
            columns = np.array(self._single, np.int64).T
            parts.append((columns[0], columns[1], columns[2], columns[3]))
        sizes = [len(part[0]) for part in parts]
        source, target = (np.empty(sum(sizes), np.int32) for _ in range(2))
        kind, item = np.empty(sum(sizes), np.int8), np.empty(sum(sizes), np.int64)
        end = 0
        for size, part in zip(sizes, parts, strict=True):
            begin, end = end, end + size
            source[begin:end], target[begin:end], kind[begin:end], item[begin:end] = part
        return Graph(
            transactions=self._transactions, nodes=self._nodes, source=source, target=target, kind=kind, item=item
        )


def neighbours(group: Int64s, committed: Bools | None = None) -> tuple[Int64s, Int64s]:
    """Places in a row: each and the next one, where both are of one group. And those that are committed, where others are
    between: what orders all of them orders these, whatever became of the others.
    """
    place = np.arange(len(group))
    one, two = place[:-1], place[1:]
    if committed is not None:
        sure = np.flatnonzero(committed)
        apart = sure[:-1] + 1 < sure[1:]
        one, two = np.concatenate((one, sure[:-1][apart])), np.concatenate((two, sure[1:][apart]))
    same = group[one] == group[two]
    return one[same], two[same]


def process_edges(edges: Edges, process: Int64s, happened: Bools, committed: Bools | None = None) -> None:
    """Each transaction before the next one of its process (-1: of nobody); rows are in the order of invocation."""
    rows = np.flatnonzero(happened & (process >= 0))
    rows = rows[np.argsort(process[rows], kind="stable")]
    one, two = neighbours(process[rows], None if committed is None else committed[rows])
    edges.extend(rows[one], rows[two], PROCESS, 0)


def realtime_edges(edges: Edges, invoked: Int64s, completed: Int64s, happened: Bools) -> None:
    """Each transaction before all that were invoked after it completed, through one chain of barriers.

    Completions between which nothing is invoked share a barrier: what completed earlier leads to it, through the one
    before, and whatever is invoked next comes from it.
    """
    ended = np.flatnonzero(happened & (completed != OPEN))
    ended = ended[np.argsort(completed[ended], kind="stable")]
    begun = np.flatnonzero(happened)
    over = np.searchsorted(completed[ended], invoked[begun], side="left")  # transactions that were over by then
    begun, over = begun[over > 0], over[over > 0]
    cuts = np.unique(over)  # a barrier per cut: behind the first `cut` of those that ended
    if not len(cuts):
        return
    first = edges.barriers(len(cuts))
    numbers = np.arange(len(cuts), dtype=np.int64) + first
    group = np.searchsorted(cuts, np.arange(len(ended)), side="right")
    inside = group < len(cuts)
    edges.extend(ended[inside], first + group[inside], REALTIME, 0)
    edges.extend(numbers[:-1], numbers[1:], FREE, 0)
    edges.extend(first + np.searchsorted(cuts, over), begun, FREE, 0)
