"""A history as the frontier search wants it: only what can matter, in order of time, and a slot for each operation.

Lost operations (of unknown outcome) that observe go: nobody saw what they would have seen. Values that no read returns
and no compare-and-set expects cannot be told apart: one number for all of them; and lost writes of such a value go,
unless a failed compare-and-set might want one. Nor are more identical lost writes kept than can be of use.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.checker.linearizability import kernel
from harness.checker.linearizability.configurations import BITS, CURRENT, GENERATION, LIVE, MAY, MUST, USED
from harness.checker.linearizability.kernel import World
from harness.checker.linearizability.operations import (
    APPEND,
    CAS,
    CAS_FAILED,
    DEQUEUE,
    EMPTY,
    ENQUEUE,
    FETCH_ADD,
    INSERT,
    NAMES,
    NIL,
    OBSERVERS,
    READ,
    REMOVE,
    UNSEEN,
    WRITE,
    Int64s,
    Lists,
    Operations,
)
from harness.checker.linearizability.states import Tree, rehash, walk

_AT_FIRST = 64  # rows of a table
_LISTS = (INSERT, REMOVE, ENQUEUE, DEQUEUE, EMPTY, APPEND)
_OTHER = UNSEEN + 1  # any value that nobody observes
_OBSERVES = np.isin(np.arange(len(NAMES)), list(OBSERVERS))


def listed(operations: Operations) -> bool:
    """Are states lists?"""
    return len(operations.lists.starts) > 1 or operations.has(*_LISTS)


def needed(operations: Operations) -> npt.NDArray[np.bool_]:
    lost = ~operations.certain
    if not lost.any():
        return operations.certain
    kept = ~(lost & _OBSERVES[operations.kind])
    if operations.only(READ, WRITE, CAS) and not listed(operations):
        kept &= ~lost | np.isin(operations.argument, _watched(operations.kind, operations.expected, operations.result))
        kept[_superfluous(operations, np.flatnonzero(lost & kept))] = False
    return kept


def _superfluous(operations: Operations, lost: Int64s) -> Int64s:
    """Of identical lost writes no more are needed than there are operations of known outcome.

    Between two of those, lost ones only lead from one value to another; a way there that comes twice by the same
    operation has a detour.
    """
    most = int(operations.certain.sum())
    if len(lost) <= most:
        return lost[:0]
    columns = [operations.invoked, operations.expected, operations.argument, operations.kind]
    order = lost[np.lexsort([column[lost] for column in columns])]
    alike = np.stack([column[order] for column in columns[1:]])
    starts = np.concatenate(([True], (alike[:, 1:] != alike[:, :-1]).any(axis=0)))
    first = np.maximum.accumulate(np.where(starts, np.arange(len(order)), 0))
    return order[np.arange(len(order)) - first >= most]


def _watched(kind: Int64s, expected: Int64s, result: Int64s) -> Int64s:
    return np.concatenate((result[kind == READ], expected[(kind == CAS) | (kind == CAS_FAILED)]))


def new_world(operations: Operations, initial: int) -> World:
    with_lists = listed(operations)
    ops = np.empty((len(operations), kernel.COLUMNS), np.int64)
    columns = (operations.kind, operations.argument, operations.expected, operations.result)
    for column, values in enumerate(columns):
        ops[:, column] = values
    ops[:, kernel.CERTAIN] = operations.certain
    ops[:, kernel.OBSERVES] = _OBSERVES[operations.kind]
    if not with_lists:
        initial = _forget_unobserved(ops, initial)
    events = _events(operations)
    slots = kernel.assign_slots(events, ops)
    lost = events[(events >= 0) & ~operations.certain[events]]
    _name_twins(ops, lost)
    must, may = -(-slots // BITS), -(-(slots + len(lost)) // BITS)
    width = 1 + must + may
    registers = np.zeros(kernel.REGISTERS, np.int64)
    registers[[MUST, MAY, GENERATION, USED + CURRENT]] = must, may, 1, 1
    masks = np.zeros((4, width), np.int64)
    masks[LIVE, :must] = (1 << BITS) - 1
    masks[LIVE, slots // BITS : must] = (1 << (slots % BITS)) - 1
    tree = _tree(operations, with_lists)
    if with_lists:
        initial = 0 if initial == NIL else _node(tree, initial)
        for column, kinds in ((kernel.ARGUMENT, (WRITE,)), (kernel.RESULT, (READ,))):
            for row in np.flatnonzero(np.isin(ops[:, kernel.KIND], kinds)):
                ops[row, column] = 0 if ops[row, column] == NIL else _node(tree, int(ops[row, column]))
    rows = np.zeros((3, _AT_FIRST, width), np.int64)
    rows[CURRENT, 0, 0] = initial
    return World(
        registers=registers,
        events=events,
        ops=ops,
        opened=np.empty(slots, np.int64),
        lost=lost,
        masks=masks,
        rows=rows,
        links=np.empty((2, _AT_FIRST, 4), np.int64),
        heads=np.zeros((2, 2, 2 * _AT_FIRST), np.int64),
        scratch=np.empty((2, width), np.int64),
        tree=tree,
    )


def _forget_unobserved(ops: Int64s, initial: int) -> int:
    kind = ops[:, kernel.KIND]
    writes = (kind == WRITE) | (kind == CAS)
    if not writes.any():
        return initial
    watched = _watched(kind, ops[:, kernel.EXPECTED], ops[:, kernel.RESULT])
    ops[writes & ~np.isin(ops[:, kernel.ARGUMENT], watched), kernel.ARGUMENT] = _OTHER
    return initial if initial in watched else _OTHER


def _events(operations: Operations) -> Int64s:
    """Operation: invoked; ~operation: completed. At equal positions invocations come first; OPEN ones last."""
    count = len(operations)
    certain = np.flatnonzero(operations.certain)
    when = np.concatenate((operations.invoked, operations.completed[certain]))
    event = np.concatenate((np.arange(count), ~certain)).astype(np.int64)
    events: Int64s = event[np.lexsort((event < 0, when))]
    return events


def _name_twins(ops: Int64s, lost: Int64s) -> None:
    """TWIN: the previous identical lost operation, -1: none."""
    ops[:, kernel.TWIN] = -1
    last: dict[tuple[int, ...], int] = {}
    alike = ops[lost][:, [kernel.KIND, kernel.ARGUMENT, kernel.EXPECTED, kernel.RESULT]]
    alike[alike[:, 0] != FETCH_ADD, 3] = NIL
    for op, key in zip(lost.tolist(), map(tuple, alike.tolist()), strict=True):
        ops[op, kernel.TWIN] = last.get(key, -1)
        last[key] = op


def _tree(operations: Operations, with_lists: bool) -> Tree:
    room = 64 + len(operations.lists.symbols) + len(operations) if with_lists else 1
    nodes, nothing = np.zeros((room, 3), np.int64), np.empty(0, np.int64)
    lists = Lists(*(np.array(column, np.int64) for column in operations.lists))  # one type for kernels: writable
    return rehashed(Tree(nodes, nothing, np.ones(1, np.int64), nothing, lists))


def _node(tree: Tree, number: int) -> int:
    starts, symbols = tree.lists.starts, tree.lists.symbols
    return int(walk(tree, 0, symbols, starts[number], starts[number + 1]))


def rehashed(tree: Tree) -> Tree:
    size = 1 << (2 * len(tree.nodes)).bit_length()
    tree = tree._replace(heads=np.empty(size, np.int64), scratch=np.empty(len(tree.nodes), np.int64))
    rehash(tree)
    return tree
