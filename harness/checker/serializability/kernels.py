"""Graph algorithms on flat arrays, compiled: 10^7 edges take seconds and some hundred megabytes.

Nodes are numbered from 0; edges are two arrays, or (`successors`) sorted by source: `offsets[u]:offsets[u + 1]` is where
u's edges are. All in this one file: Numba keeps compiled code by the file of the function alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.checker.linearizability.compiling import compiled

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

BATCH = 64  # questions of `first_return` that one sweep answers: bits of a word


@compiled
def successors(source: Int32s, nodes: int) -> tuple[Int64s, Int64s]:
    """Offsets by source, and the edges in that order (a counting sort)."""
    offsets = np.zeros(nodes + 1, np.int64)
    for node in source:
        offsets[node + 1] += 1
    for node in range(nodes):
        offsets[node + 1] += offsets[node]
    free = offsets[:-1].copy()
    order = np.empty(len(source), np.int64)
    for edge in range(len(source)):
        node = source[edge]
        order[free[node]] = edge
        free[node] += 1
    return offsets, order


@compiled
def components(offsets: Int64s, targets: Int32s) -> Int32s:
    """Per node its strongly connected component (Tarjan, 1972, without recursion), numbered against the edges: an edge
    between two components goes from the higher number to the lower.
    """
    nodes = len(offsets) - 1
    component = np.full(nodes, -1, np.int32)
    seen = np.full(nodes, -1, np.int32)  # when a node was reached
    low = np.zeros(nodes, np.int32)
    following = offsets[:-1].copy()
    path = np.empty(nodes, np.int32)
    waiting = np.empty(nodes, np.int32)
    depth, held, clock, count = 0, 0, 0, 0
    for root in range(nodes):
        if seen[root] != -1:
            continue
        path[0], depth = root, 1
        waiting[held] = root
        held += 1
        seen[root] = low[root] = clock
        clock += 1
        while depth:
            node = path[depth - 1]
            if following[node] < offsets[node + 1]:
                other = targets[following[node]]
                following[node] += 1
                if seen[other] == -1:
                    seen[other] = low[other] = clock
                    clock += 1
                    path[depth] = other
                    depth += 1
                    waiting[held] = other
                    held += 1
                elif component[other] == -1 and seen[other] < low[node]:
                    low[node] = seen[other]
                continue
            depth -= 1
            if depth and low[node] < low[path[depth - 1]]:
                low[path[depth - 1]] = low[node]
            if low[node] == seen[node]:
                while True:
                    held -= 1
                    member = waiting[held]
                    component[member] = count
                    if member == node:
                        break
                count += 1
    return component


class SearchSpace(NamedTuple):
    """Room for `shortest_path`, used again and again; after a search `before` and `edge` lead back from the goal."""

    before: Int32s  # node -> the node before it
    edge: Int64s  # node -> place of the edge into it
    seen: Int64s  # node -> search that reached it
    level: Int32s
    following: Int32s
    search: Int64s  # [number of the latest one]


def search_space(nodes: int) -> SearchSpace:
    nodes_of = (np.empty(nodes, np.int32) for _ in range(3))
    before, level, following = nodes_of
    return SearchSpace(
        before, np.empty(nodes, np.int64), np.zeros(nodes, np.int64), level, following, np.zeros(1, np.int64)
    )


@compiled
def shortest_path(
    offsets: Int64s,
    targets: Int32s,
    component: Int32s,
    barrier: Bools,
    start: int,
    goal: int,
    most: int,
    edges: int,
    space: SearchSpace,
) -> tuple[int, int]:
    """Length of a shortest path of at most `most` steps (0: none), and how many edges were looked at: about `edges` at
    most. A step into a barrier counts nothing. Nodes whose component is below the goal's cannot lead to it.
    """
    before, edge, seen, level, following, search = space
    search[0] += 1
    number = search[0]
    level[0] = start
    held, depth, looked = 1, 0, 0
    while held and depth < most and looked < edges:
        depth += 1
        next_held, at = 0, 0
        while at < held:  # `held` grows while barriers are entered
            node = level[at]
            at += 1
            looked += offsets[node + 1] - offsets[node]
            for place in range(offsets[node], offsets[node + 1]):
                other = targets[place]
                if seen[other] == number or component[other] < component[goal]:
                    continue
                if other == start and other != goal:
                    continue
                seen[other] = number
                before[other] = node
                edge[other] = place
                if other == goal:
                    return depth, looked
                if barrier[other]:
                    level[held] = other
                    held += 1
                else:
                    following[next_held] = other
                    next_held += 1
        level[:next_held] = following[:next_held]
        held = next_held
    return 0, looked


@compiled
def first_return(offsets: Int64s, targets: Int32s, order: Int32s, place: Int32s, begins: Int32s, ends: Int32s) -> int:
    """The first i for which ends[i] can be reached from begins[i], or -1.

    The graph is acyclic where that matters, `order` has its nodes, each before its successors, and `place` says where.
    One sweep answers BATCH questions, and goes from the first beginning to the last end: the nearer the beginnings of
    neighbours, the shorter.
    """
    reached = np.zeros(len(offsets) - 1, np.uint64)
    for first in range(0, len(begins), BATCH):
        last = min(first + BATCH, len(begins))
        low, high = len(order), 0
        for i in range(first, last):
            reached[begins[i]] |= np.uint64(1) << np.uint64(i - first)
            low, high = min(low, place[begins[i]]), max(high, place[ends[i]])
        for at in range(low, high):
            node = order[at]
            mask = reached[node]
            if mask:
                for edge in range(offsets[node], offsets[node + 1]):
                    if place[targets[edge]] <= high:
                        reached[targets[edge]] |= mask
        for i in range(first, last):
            if reached[ends[i]] >> np.uint64(i - first) & np.uint64(1):
                return i
        for at in range(low, high + 1):
            reached[order[at]] = np.uint64(0)
        for i in range(first, last):
            reached[begins[i]] = np.uint64(0)
    return -1


@compiled
def later_versions(
    first: Int64s, last: Int64s, own: Int64s, other: Int64s, most: int
) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """For each i the places first[i] ... last[i] - 1 but own[i] and other[i] (where they are among these).

    What follows the excluded ones is told by where it begins: (i, place) in the last two results. Of each gap before
    that, at most so many are told one by one: (i, place) in the first two.
    """
    count = len(first)
    room = 0
    for i in range(count):
        room += min(2 * most, max(0, max(own[i], other[i]) - first[i]))
    one_source, one_place = np.empty(room, np.int64), np.empty(room, np.int64)
    all_source, all_place = np.empty(count, np.int64), np.empty(count, np.int64)
    ones, alls = 0, 0
    for i in range(count):
        begin = first[i]
        low, high = min(own[i], other[i]), max(own[i], other[i])
        for excluded in (low, high):
            if excluded < begin:
                continue
            for place in range(begin, min(excluded, begin + most)):
                one_source[ones], one_place[ones] = i, place
                ones += 1
            begin = excluded + 1
        if begin < last[i]:
            all_source[alls], all_place[alls] = i, begin
            alls += 1
    return one_source[:ones], one_place[:ones], all_source[:alls], all_place[:alls]
