"""Cycles of a dependency graph, each named by the weakest isolation that it contradicts.

    T1 -RW-> T2 -WR-> T1                          G-single-item
    T1 -RW-> T2 -RW-> T1                          G2-item
    T1 -RW-> T2 -WR-> T3, T3 done before T1       G-single-item-realtime

What a cycle may consist of, from weak to strong:

    G0                  WW, of transactions that are known to have been committed
    G1c                 WW, WR
    G-single-item       WW, WR, ORDER, and one RW; or some ORDER and no RW
    G-nonadjacent-item  WW, WR, ORDER, RW, no two RW in a row
    G2-item             WW, WR, ORDER, RW

and each of them with orders of processes, or of processes and real time, in it: 15 **cells**. A cell's cycles are the
strongly connected components of its edges. A component that has a cycle of a weaker cell in it is told there and not
here; in one that has none, every cycle is this cell's. So each contradiction is told once, as the weakest thing it is,
and a consistency model that forbids a cell forbids all weaker ones.

A transaction of unknown outcome is in the graph because somebody read what it wrote. So it was committed, or that read
contradicts read-committed (G1a): a cycle of WW with one in it says as much as G1c, and nothing about read-uncommitted.

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
from harness.checker.serializability.graph import ANTI, FREE, LEVEL, ORDER, WRITES, Bools, Graph, Int32s, Int64s
from harness.checker.serializability.kernels import (
    SearchSpace,
    components,
    first_return,
    search_space,
    shortest_path,
    successors,
)

G0, G1C, SINGLE, NONADJACENT, G2 = "G0", "G1c", "G-single-item", "G-nonadjacent-item", "G2-item"
SUFFIXES = ("", consistency.PROCESS, consistency.REALTIME)
_STRENGTH = (G0, G1C, SINGLE, NONADJACENT, G2)
_EDGES = 2_000_000  # that a search for a short cycle may look at; beyond that the shortest so far will do
_SHORTEST = 2  # transactions of a cycle


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


def cycles(graph: Graph, committed: Bools | None = None) -> list[Cycles]:
    """By type, the weakest first. `committed`: of each transaction whether that is known; None: of all."""
    return _Search(graph, committed).run()


class _Search:
    def __init__(self, graph: Graph, committed: Bools | None) -> None:
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
        known = np.ones(graph.nodes, bool)  # barriers, too
        if committed is not None:
            known[: graph.transactions] = committed
        self._known = known[graph.source[inside]] & known[graph.target[inside]]
        self._told: dict[tuple[int, int], Bools] = {}  # cell (level, strength) -> its nodes
        self._found: dict[str, Cycles] = {}

    def run(self) -> list[Cycles]:
        if self._nodes:
            for level in range(len(SUFFIXES)):
                allowed = LEVEL[self._kind] <= level
                calm = allowed & ~ANTI[self._kind]
                self._plain(level, G0, allowed & WRITES[self._kind] & self._known)
                self._plain(level, G1C, calm & ~ORDER[self._kind])
                self._plain(level, SINGLE, calm)
                self._nonadjacent(level, calm, allowed & ANTI[self._kind])
                self._plain(level, G2, allowed)
        return list(self._found.values())

    def _plain(self, level: int, name: str, mask: Bools) -> None:
        view = self._view(mask)
        for members in self._untold(level, name, view.groups(), 1):
            self._tell(level, name, members, lambda members=members: view.shortest_cycle(members))

    def _nonadjacent(self, level: int, calm: Bools, anti: Bools) -> None:
        """Node u is 2u when reached by something else than an RW, 2u + 1 when by an RW."""
        free = calm & (self._kind == FREE)
        parts = [(calm, 0, 0), (calm & ~free, 1, 0), (free, 1, 1), (anti, 0, 1)]
        edges = np.concatenate([np.flatnonzero(mask) for mask, _, _ in parts])
        came, goes = (
            np.concatenate([np.full(int(part[0].sum()), part[end], np.int32) for part in parts]) for end in (1, 2)
        )
        source, target = 2 * self._source[edges] + came, 2 * self._target[edges] + goes
        doubled = _View(source, target, edges, 2 * self._nodes, np.repeat(self._barrier, 2))
        untold = list(self._untold(level, NONADJACENT, doubled.groups(), 2))
        if not untold:
            return
        view = self._view(calm)
        closing = np.flatnonzero(anti)
        label = doubled.component[2 * self._source[closing]]
        inside = label == doubled.component[2 * self._target[closing] + 1]
        inside &= view.component[self._target[closing]] > view.component[self._source[closing]]
        closing, label = closing[inside], label[inside]
        order = np.argsort(label, kind="stable")
        closing, label = closing[order], label[order]
        for members in untold:
            begin, end = np.searchsorted(label, (doubled.component[members[0]], doubled.component[members[0]] + 1))
            single = self._single(view, closing[begin:end])
            nodes = np.unique(members // 2)
            if single:
                self._tell(level, SINGLE, nodes, lambda single=single: single)
            else:
                self._tell(level, NONADJACENT, nodes, lambda members=members: doubled.shortest_cycle(members))

    def _single(self, view: _View, closing: Int64s) -> list[int]:
        """The edges of a short cycle with one RW; `closing` are RWs whose source may be reached from their target.

        Where none of these lies on a cycle of them, the view has none: its components fall along its edges.
        """
        begins, ends = self._target[closing], self._source[closing]
        order = np.argsort(view.component[begins] - view.component[ends], kind="stable")  # what is near comes first
        budget = _Budget()
        best = _NO_PATH
        for i in order.tolist():
            back = view.path(int(begins[i]), int(ends[i]), budget, best.length - 2)
            if back.edges:
                best = _Path(back.length + 1, [int(closing[i]), *back.edges])
            if budget.spent or best.length == _SHORTEST:
                break
        if best.edges or not budget.spent:
            return best.edges
        number = view.first_return(begins, ends)
        if number < 0:
            return []
        back = view.path(int(begins[number]), int(ends[number]), _Budget(NEVER))
        return [int(closing[number]), *back.edges]

    def _view(self, mask: Bools) -> _View:
        return _View(self._source[mask], self._target[mask], np.flatnonzero(mask), self._nodes, self._barrier)

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
        """Of a cycle that begins at a transaction. Barriers taken out: a path through them is one dependency."""
        graph = self._graph
        steps: list[Step] = []
        for row in (int(self._edges[edge]) for edge in edges):
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
    """Edges that searches may still look at."""

    def __init__(self, left: int | None = None) -> None:
        self.left = _EDGES if left is None else left

    @property
    def spent(self) -> bool:
        return self.left <= 0


class _View:
    """Some of the edges, by source; `edges` are their numbers."""

    def __init__(self, source: Int32s, target: Int32s, edges: Int64s, nodes: int, barrier: Bools) -> None:
        self._offsets, order = successors(source, nodes)
        self._targets = target[order]
        self._edges = edges[order]
        self._barrier = barrier
        self.component = components(self._offsets, self._targets)
        self._search: SearchSpace | None = None

    def groups(self) -> list[Int64s]:
        """The components of more than one node, the smallest first."""
        sizes = np.bincount(self.component)
        nodes = np.flatnonzero(sizes[self.component] > 1)
        nodes = nodes[np.lexsort((nodes, self.component[nodes], sizes[self.component[nodes]]))]
        cuts = np.flatnonzero(np.diff(self.component[nodes])) + 1
        return [group for group in np.split(nodes, cuts) if len(group)]

    def shortest_cycle(self, members: Int64s) -> list[int]:
        """Edges, through any of the members of a component."""
        best = _NO_PATH
        budget = _Budget()
        for start in members[~self._barrier[members]].tolist():
            found = self.path(start, start, budget if best.edges else _Budget(NEVER), best.length - 1)
            best = found if found.edges else best
            if budget.spent or best.length == _SHORTEST:
                break
        return best.edges

    def path(self, start: int, goal: int, budget: _Budget, most: int = NEVER) -> _Path:
        """A shortest one of at most so many transactions (entering a barrier costs nothing)."""
        if self._search is None:
            self._search = search_space(len(self._barrier))
        arrays = self._offsets, self._targets, self.component, self._barrier
        length, looked = shortest_path(*arrays, start, goal, most, budget.left, self._search)
        budget.left -= int(looked)
        if not length:
            return _NO_PATH
        places: list[int] = []
        node = goal
        while not places or node != start:
            places.append(int(self._search.edge[node]))
            node = int(self._search.before[node])
        return _Path(int(length), self._edges[places[::-1]].tolist())

    def first_return(self, begins: Int32s, ends: Int32s) -> int:
        """The number of a pair of which the end can be reached from the beginning, or -1; no cycle may be in reach."""
        order = np.argsort(-self.component, kind="stable").astype(np.int32)
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order))
        near = np.argsort(place[begins], kind="stable")
        number = int(first_return(self._offsets, self._targets, order, place, begins[near], ends[near]))
        return int(near[number]) if number >= 0 else -1
