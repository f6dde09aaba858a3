"""Cycles of a dependency graph, each named by the weakest isolation that it contradicts.

    T1 -RW-> T2 -WR-> T1                          G-single-item
    T1 -RW-> T2 -RW-> T1                          G2-item
    T1 -RW-> T2 -WR-> T3, T3 done before T1       G-single-item-realtime

What a cycle may consist of, from weak to strong:

    G0                  WW
    G1c                 WW, WR
    G-single-item       WW, WR, ORDER, and one RW; or some ORDER and no RW
    G-nonadjacent-item  WW, WR, ORDER, RW, no two RW in a row
    G2-item             WW, WR, ORDER, RW

and each of them with orders of processes, or of processes and real time, in it: 15 **cells**. A cell's cycles are the
strongly connected components of its edges. A component that has a cycle of a weaker cell in it is told there and not
here; in one that has none, every cycle is this cell's. So each contradiction is told once, as the weakest thing it is,
and a consistency model that forbids a cell forbids all weaker ones.

G-nonadjacent-item needs more: walks in which an RW follows what is not one are the walks of a graph in which each node
is there twice, reached by an RW or not (Cerone and Gotsman, 2016: snapshot isolation is that there is no such cycle).
Whether one of these has a single RW is reachability, asked for 64 edges in one sweep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from harness.checker.serializability import consistency
from harness.checker.serializability.graph import ANTI, FREE, LEVEL, ORDER, WRITES, Bools, Graph, Int64s
from harness.checker.serializability.kernels import components, first_return, successors

G0, G1C, SINGLE, NONADJACENT, G2 = "G0", "G1c", "G-single-item", "G-nonadjacent-item", "G2-item"
SUFFIXES = ("", consistency.PROCESS, consistency.REALTIME)
_STRENGTH = (G0, G1C, SINGLE, NONADJACENT, G2)
_BUDGET = 300_000  # edges that a search for a short cycle may look at; beyond that the shortest so far will do


class Step(NamedTuple):
    """One dependency of a cycle."""

    source: int
    target: int
    kind: int
    item: int


@dataclass(kw_only=True)
class Cycles:
    """All of one type."""

    type: str
    count: int = 0  # components that have one
    steps: list[Step] = field(default_factory=list)  # the shortest found


def cycles(graph: Graph) -> list[Cycles]:
    """By type, the weakest first."""
    return _Search(graph).run()


class _Search:
    def __init__(self, graph: Graph) -> None:
        """Only what lies on some cycle at all is kept, which of a sound history is nothing."""
        offsets, order = successors(graph.source, graph.nodes)
        component = components(offsets, graph.target[order])
        inside = component[graph.source] == component[graph.target]
        self._edges = np.flatnonzero(inside)
        self._graph = graph
        self._original, renumbered = np.unique(
            np.concatenate((graph.source[inside], graph.target[inside])), return_inverse=True
        )
        self._nodes = len(self._original)
        self._source = renumbered[: len(self._edges)].astype(np.int32)
        self._target = renumbered[len(self._edges) :].astype(np.int32)
        self._kind = graph.kind[inside]
        self._barrier = self._original >= graph.transactions
        self._told: dict[tuple[int, int], Bools] = {}  # cell (level, strength) -> its nodes
        self._found: dict[str, Cycles] = {}

    def run(self) -> list[Cycles]:
        if self._nodes:
            for level in range(len(SUFFIXES)):
                allowed = LEVEL[self._kind] <= level
                calm = allowed & ~ANTI[self._kind]
                self._plain(level, G0, allowed & WRITES[self._kind])
                self._plain(level, G1C, calm & ~ORDER[self._kind])
                self._plain(level, SINGLE, calm)
                self._nonadjacent(level, calm, allowed & ANTI[self._kind])
                self._plain(level, G2, allowed)
        return list(self._found.values())

    def _plain(self, level: int, name: str, mask: Bools) -> None:
        view = _View(self._source[mask], self._target[mask], np.flatnonzero(mask), self._nodes, self._barrier)
        for members in self._untold(level, name, view.groups(), 1):
            self._tell(level, name, members, lambda members=members: view.shortest_cycle(members))

    def _nonadjacent(self, level: int, calm: Bools, anti: Bools) -> None:
        """Node u is 2u when reached by something else than an RW, 2u + 1 when by an RW."""
        free = calm & (self._kind == FREE)
        order = np.concatenate([np.flatnonzero(mask) for mask in (calm, calm & ~free, free, anti)])
        sizes = [int(mask.sum()) for mask in (calm, calm & ~free, free, anti)]
        came = np.repeat(np.array([0, 1, 1, 0], np.int32), sizes)
        goes = np.repeat(np.array([0, 0, 1, 1], np.int32), sizes)
        doubled = _View(
            2 * self._source[order] + came,
            2 * self._target[order] + goes,
            order,
            2 * self._nodes,
            np.repeat(self._barrier, 2),
        )
        view: _View | None = None
        for members in self._untold(level, NONADJACENT, doubled.groups(), 2):
            view = view or _View(
                self._source[calm], self._target[calm], np.flatnonzero(calm), self._nodes, self._barrier
            )
            single = self._single(members, view, np.flatnonzero(anti))
            if single:
                self._tell(level, SINGLE, np.unique(members // 2), lambda single=single: single)
            else:
                self._tell(level, NONADJACENT, members // 2, lambda members=members: doubled.shortest_cycle(members))

    def _single(self, members: Int64s, view: _View, anti: Int64s) -> list[int]:
        """The edges of a short cycle with one RW inside a component of the doubled graph; empty: there is none."""
        inside = np.zeros(2 * self._nodes, bool)
        inside[members] = True
        candidates = anti[inside[2 * self._source[anti]] & inside[2 * self._target[anti] + 1]]
        nodes = np.unique(members // 2)
        allowed = set(nodes.tolist())
        best = _NO_PATH
        budget = _Budget()
        for edge in candidates.tolist():
            back = view.path(int(self._target[edge]), int(self._source[edge]), allowed, budget, best.length - 1)
            if back.edges:
                best = _Path(back.length + 1, [edge, *back.edges])
            if budget.spent:
                break
        else:
            return best.edges
        return best.edges or self._any_single(nodes, view, candidates)

    def _any_single(self, nodes: Int64s, view: _View, candidates: Int64s) -> list[int]:
        place = np.full(self._nodes, -1, np.int32)
        nodes = nodes[np.argsort(-view.component[nodes], kind="stable")]  # along the edges, which have no cycle here
        place[nodes] = np.arange(len(nodes))
        source, target = place[view.source], place[view.target]
        within = (source >= 0) & (target >= 0)
        offsets, order = successors(source[within], len(nodes))
        begins, ends = place[self._target[candidates]], place[self._source[candidates]]
        sequence = np.arange(len(nodes), dtype=np.int32)
        number = int(first_return(offsets, target[within][order], sequence, begins, ends))
        if number < 0:
            return []
        edge = int(candidates[number])
        allowed = set(nodes.tolist())
        return [edge, *view.path(int(self._target[edge]), int(self._source[edge]), allowed, _Budget(None)).edges]

    def _untold(self, level: int, name: str, groups: list[Int64s], copies: int) -> Iterator[Int64s]:
        """Components in which nothing weaker was told."""
        strength = _STRENGTH.index(name)
        told = np.zeros(self._nodes, bool)
        for (other_level, other), nodes in self._told.items():
            if other_level <= level and other <= strength:
                told |= nodes
        for members in groups:
            if not told[members // copies].any():
                yield members

    def _tell(self, level: int, name: str, nodes: Int64s, evidence: object) -> None:
        cell = (level, _STRENGTH.index(name))
        self._told.setdefault(cell, np.zeros(self._nodes, bool))[nodes] = True
        found = self._found.setdefault(name + SUFFIXES[level], Cycles(type=name + SUFFIXES[level]))
        found.count += 1
        if found.count <= 3:  # the smallest components come first
            steps = self._steps(evidence())  # type: ignore[operator]
            if not found.steps or len(steps) < len(found.steps):
                found.steps = steps

    def _steps(self, edges: Sequence[int]) -> list[Step]:
        """Barriers taken out: a path through them is one dependency."""
        graph = self._graph
        rows = [int(self._edges[edge]) for edge in edges]
        begin = next(i for i, row in enumerate(rows) if graph.source[row] < graph.transactions)
        steps: list[Step] = []
        for row in rows[begin:] + rows[:begin]:
            target = int(graph.target[row])
            if graph.kind[row] == FREE:
                steps[-1] = steps[-1]._replace(target=target)
            else:
                steps.append(Step(int(graph.source[row]), target, int(graph.kind[row]), int(graph.item[row])))
        return steps


NEVER = 2**62


class _Path(NamedTuple):
    length: int  # transactions
    edges: list[int]


_NO_PATH = _Path(NEVER, [])


class _Budget:
    def __init__(self, left: int | None = _BUDGET) -> None:
        self._left = left

    def use(self, count: int) -> None:
        if self._left is not None:
            self._left -= count

    @property
    def spent(self) -> bool:
        return self._left is not None and self._left <= 0


class _View:
    """Some of the edges, by source; `edges` are their numbers."""

    def __init__(self, source: Int64s, target: Int64s, edges: Int64s, nodes: int, barrier: Bools) -> None:
        self.source, self.target = source.astype(np.int32), target.astype(np.int32)
        offsets, order = successors(self.source, nodes)
        self.component = components(offsets, self.target[order])
        self._arrays = offsets, self.target[order], edges[order], barrier
        self._lists: tuple[list[int], list[int], list[int], list[bool]] | None = None

    def groups(self) -> list[Int64s]:
        """The components of more than one node, the smallest first."""
        sizes = np.bincount(self.component)
        nodes = np.flatnonzero(sizes[self.component] > 1)
        nodes = nodes[np.lexsort((nodes, self.component[nodes], sizes[self.component[nodes]]))]
        cuts = np.flatnonzero(np.diff(self.component[nodes])) + 1
        return [group for group in np.split(nodes, cuts) if len(group)]

    def shortest_cycle(self, members: Int64s) -> list[int]:
        """Edges, through any of the members of a component."""
        barrier = self._arrays[3]
        allowed = set(members.tolist())
        best = _NO_PATH
        budget = _Budget()
        for start in members[~barrier[members]].tolist():
            found = self.path(start, start, allowed, budget if best.edges else _Budget(None), best.length - 1)
            best = found if found.edges else best
            if budget.spent:
                break
        return best.edges

    def path(self, start: int, goal: int, allowed: set[int], budget: _Budget, most: int = NEVER) -> _Path:
        """A shortest one through allowed nodes, of at most so many transactions; entering a barrier costs nothing."""
        if self._lists is None:
            offsets, target, edges, barrier = self._arrays
            self._lists = offsets.tolist(), target.tolist(), edges.tolist(), barrier.tolist()
        offsets, target, edges, barrier = self._lists
        came: dict[int, tuple[int, int]] = {}  # node -> the node before, and the edge
        level, depth = [start], 0
        while level and depth < most and not budget.spent:
            depth += 1
            following: list[int] = []
            for node in level:  # grows while barriers are entered
                budget.use(offsets[node + 1] - offsets[node])
                for place in range(offsets[node], offsets[node + 1]):
                    other = target[place]
                    if other in came or other not in allowed or (other == start and other != goal):
                        continue
                    came[other] = node, edges[place]
                    if other == goal:
                        return _Path(depth, _traced(came, start, goal))
                    (level if barrier[other] else following).append(other)
            level = following
        return _NO_PATH


def _traced(came: dict[int, tuple[int, int]], start: int, goal: int) -> list[int]:
    path: list[int] = []
    node = goal
    while not path or node != start:
        node, edge = came[node]
        path.append(edge)
    return path[::-1]
