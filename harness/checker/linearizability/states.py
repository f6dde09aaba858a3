"""What an operation does to a state, compiled.

A state is one number: a register's value, a counter, a mutex's holder. Contents of sets, queues and texts are lists,
and the number is a node of a tree of lists that grows as they are met: equal contents are the same node, so no hash
ever decides a verdict.

    {}  -1->  {1}  -2->  {1, 2}        nodes: (parent 0, symbol 1), (parent 1, symbol 2)
     `-2->  {2}                               (parent 0, symbol 2)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.checker.linearizability.compiling import bare, inlined
from harness.checker.linearizability.operations import (
    ACQUIRE,
    ADD,
    CAS,
    CAS_FAILED,
    CONTAINS,
    DEQUEUE,
    EMPTY,
    ENQUEUE,
    INSERT,
    NIL,
    READ,
    RELEASE,
    REMOVE,
    UNSEEN,
    WRITE,
    Int64s,
    Lists,
)

PARENT, SYMBOL, SIBLING = range(3)  # columns of `nodes`

IMPOSSIBLE = int(np.iinfo(np.int64).min)  # no such step from this state
NO_ROOM = IMPOSSIBLE + 1  # the tree is full
ELSEWHERE = -3  # a text that no read can show, whatever is appended to it


class Tree(NamedTuple):
    nodes: Int64s  # the first one is the empty list
    heads: Int64s  # by hash of parent and symbol, the latest of the nodes there
    used: Int64s  # one number: how many nodes there are
    scratch: Int64s  # room for one list
    lists: Lists  # of the history


@inlined
def mix(seed: int, word: int) -> int:
    """31 bits of both; no product exceeds 63 bits."""
    mixed = ((seed ^ (word & 0x7FFFFFFF)) * 0x9E3779B1) & 0x7FFFFFFFFFFFFFFF
    mixed = ((mixed >> 15) ^ (word >> 31)) & 0x7FFFFFFF
    return ((mixed * 0x85EBCA6B) >> 13) & 0x7FFFFFFF


@bare
def child(tree: Tree, parent: int, symbol: int) -> int:
    """The list at `parent` and one more symbol."""
    nodes, heads = tree.nodes, tree.heads
    place = mix(mix(17, parent), symbol) & (len(heads) - 1)
    node = int(heads[place])
    while node >= 0:
        if nodes[node, PARENT] == parent and nodes[node, SYMBOL] == symbol:
            return node
        node = int(nodes[node, SIBLING])
    node = int(tree.used[0])
    if node == len(nodes):
        return NO_ROOM
    nodes[node, PARENT] = parent
    nodes[node, SYMBOL] = symbol
    nodes[node, SIBLING] = heads[place]
    heads[place] = node
    tree.used[0] = node + 1
    return node


@bare
def rehash(tree: Tree) -> None:
    """After `heads` has grown."""
    nodes, heads = tree.nodes, tree.heads
    heads[:] = -1
    for node in range(1, tree.used[0]):
        place = mix(mix(17, nodes[node, PARENT]), nodes[node, SYMBOL]) & (len(heads) - 1)
        nodes[node, SIBLING] = heads[place]
        heads[place] = node


@bare
def walk(tree: Tree, start: int, symbols: Int64s, first: int, end: int) -> int:
    """The list at `start` and symbols[first:end]."""
    node = start
    for place in range(first, end):
        node = child(tree, node, symbols[place])
        if node < 0:
            return node
    return node


@bare
def append(tree: Tree, state: int, symbols: Int64s, first: int, end: int) -> int:
    """The text at `state` and symbols[first:end]. A text only grows, so one that does not begin anything that was read or
    written whole (those are in the tree from the start) will never be read: all of them are one state.
    """
    nodes, heads = tree.nodes, tree.heads
    node = state
    for place in range(first, end):
        if node == ELSEWHERE:
            return ELSEWHERE
        parent, symbol = node, symbols[place]
        node = int(heads[mix(mix(17, parent), symbol) & (len(heads) - 1)])
        while node >= 0 and (nodes[node, PARENT] != parent or nodes[node, SYMBOL] != symbol):
            node = int(nodes[node, SIBLING])
        if node < 0:
            return ELSEWHERE
    return node


@bare
def contains(tree: Tree, state: int, element: int) -> bool:
    """Sets are sorted lists: numbered by first use, elements mostly come at the end, so this is mostly one step."""
    nodes = tree.nodes
    above = state
    while above > 0 and nodes[above, SYMBOL] > element:
        above = nodes[above, PARENT]
    return above > 0 and nodes[above, SYMBOL] == element


@bare
def change_set(tree: Tree, state: int, kind: int, element: int) -> int:
    nodes, tail = tree.nodes, tree.scratch
    if contains(tree, state, element) == (kind == INSERT):
        return state
    kept = len(tail)
    above = state
    while above > 0 and nodes[above, SYMBOL] > element:
        kept -= 1
        tail[kept] = nodes[above, SYMBOL]
        above = nodes[above, PARENT]
    above = child(tree, above, element) if kind == INSERT else int(nodes[above, PARENT])
    return walk(tree, above, tail, kept, len(tail)) if above >= 0 else above


@bare
def dequeue(tree: Tree, state: int, result: int) -> int:
    nodes, rest = tree.nodes, tree.scratch
    if state == 0:
        return IMPOSSIBLE
    kept = len(rest)
    node = state
    while nodes[node, PARENT] > 0:
        kept -= 1
        rest[kept] = nodes[node, SYMBOL]
        node = nodes[node, PARENT]
    if result != UNSEEN and nodes[node, SYMBOL] != result:
        return IMPOSSIBLE
    return walk(tree, 0, rest, kept, len(rest))


@inlined
def step(kind: int, argument: int, expected: int, result: int, state: int) -> int:
    """The state after one operation on a plain value; `IMPOSSIBLE` if it could not have answered what it did."""
    if kind == READ:
        return state if state == result else IMPOSSIBLE
    if kind == WRITE:
        return argument
    if kind == CAS:
        return argument if state == expected else IMPOSSIBLE
    if kind == CAS_FAILED:
        return IMPOSSIBLE if state == expected else state
    if kind == ACQUIRE:
        return argument if state == NIL else IMPOSSIBLE
    if kind == RELEASE:
        return NIL if state == argument and state != NIL else IMPOSSIBLE
    if kind == ADD:
        return state + argument
    return state + argument if result in (UNSEEN, state) else IMPOSSIBLE  # FETCH_ADD


@bare
def step_on_list(tree: Tree, kind: int, argument: int, result: int, state: int) -> int:
    """The same where the state is a list. `NO_ROOM`: the tree is full."""
    if kind in (INSERT, REMOVE):
        return change_set(tree, state, kind, argument)
    if kind == CONTAINS:
        return state if contains(tree, state, argument) == (result == 1) else IMPOSSIBLE
    if kind == ENQUEUE:
        return child(tree, state, argument)
    if kind == DEQUEUE:
        return dequeue(tree, state, result)
    if kind == EMPTY:
        return state if state == 0 else IMPOSSIBLE
    starts = tree.lists.starts  # APPEND
    return append(tree, state, tree.lists.symbols, starts[argument], starts[argument + 1])


@inlined
def after(tree: Tree, kind: int, argument: int, expected: int, result: int, state: int) -> int:
    """The state after one operation on whatever object."""
    if kind < INSERT:
        return step(kind, argument, expected, result, state)
    return step_on_list(tree, kind, argument, result, state)


@inlined
def changes_nothing(tree: Tree, kind: int, argument: int, expected: int, state: int) -> bool:
    """Would this operation, which could change the state, leave this one as it is?"""
    if kind == WRITE:
        return argument == state
    if kind == CAS:
        return expected == state and argument == state
    if kind == ADD:
        return argument == 0
    if kind == INSERT:
        return contains(tree, state, argument)
    return kind == REMOVE and not contains(tree, state, argument)
