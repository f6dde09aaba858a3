"""The inner loop of the frontier search, compiled: see `frontier` for what it does and why it is right.

Nothing here allocates: when an array is full, the kernel stops in a state from which it can go on, and its caller
decides whether there is money for a bigger one. Arrays are handed over one by one: Numba counts references whenever one
is taken out of a tuple, and a step costs less than that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.checker.linearizability.compiling import bare, compiled, inlined
from harness.checker.linearizability.configurations import (
    BITS,
    BLIND,
    CURRENT,
    DEAD,
    EXPLORED,
    FOUND,
    FRESH,
    GENERATION,
    IDLE,
    MUST,
    MUTATORS,
    USED,
    admit,
)
from harness.checker.linearizability.operations import ADD, APPEND, CAS, WRITE, Int64s
from harness.checker.linearizability.states import IMPOSSIBLE, NO_ROOM, Tree, after, changes_nothing

EVENT, EXPLORING, CURSOR, STEPS, OPENED, SETTLED, LOST, CONDITIONAL, REGISTERS = range(6, 15)  # registers
DONE, ILLEGAL, PAUSED, TABLE_FULL, TREE_FULL = range(5)  # how `advance` ends
KIND, ARGUMENT, EXPECTED, RESULT, WORD, BIT, TWIN, CERTAIN, OBSERVES, COLUMNS = range(10)  # columns of `ops`


class World(NamedTuple):
    """All arrays of one search; the kernel's own state is in here, so it can stop and go on."""

    registers: Int64s
    events: Int64s  # an operation that is invoked, ~operation: that one completes
    ops: Int64s
    opened: Int64s  # operations of known outcome that are open, by invocation; those from SETTLED on are new
    lost: Int64s  # operations of unknown outcome, as they are invoked
    masks: Int64s  # FRESH: what was invoked since the last completion, as in a row. Per word of "must": bits that open
    # operations use at some time (LIVE), of those that change the state (MUTATORS), of blind ones (BLIND)
    rows: Int64s  # configurations: before the next event; in which the one that completes took effect; on the way there
    links: Int64s
    heads: Int64s
    scratch: Int64s  # two rows
    tree: Tree


@compiled
def assign_slots(events: Int64s, ops: Int64s) -> int:
    """A small number for each open operation, used again when it has completed; those of unknown outcome come after."""
    free = np.empty(len(ops) + 1, np.int64)
    spare = 0
    used = 0
    lost = 0
    for event in events:
        if event < 0:
            free[spare] = ops[~event, WORD]
            spare += 1
        elif ops[event, CERTAIN] == 0:
            ops[event, WORD] = lost
            lost += 1
        elif spare > 0:
            spare -= 1
            ops[event, WORD] = free[spare]
        else:
            ops[event, WORD] = used
            used += 1
    for number in range(len(ops)):
        slot = ops[number, WORD] + (used if ops[number, CERTAIN] == 0 else 0)
        ops[number, WORD] = slot // BITS
        ops[number, BIT] = 1 << (slot % BITS)
    return used


@inlined
def settle(tree: Tree, registers: Int64s, ops: Int64s, opened: Int64s, row: Int64s, first: int) -> int:
    """What is open from place `first` on and need not wait: observers that are right about the state take effect;
    what would not change the state may have. How many did that would not have been possible in every state.
    """
    must = registers[MUST]
    state = row[0]
    satisfied = 0
    for place in range(first, registers[OPENED]):
        number = opened[place]
        word, bit = ops[number, WORD], ops[number, BIT]
        if row[1 + word] & bit == 0:
            continue
        kind, argument, expected = ops[number, KIND], ops[number, ARGUMENT], ops[number, EXPECTED]
        if ops[number, OBSERVES] == 1:
            if after(tree, kind, argument, expected, ops[number, RESULT], state) != IMPOSSIBLE:
                row[1 + word] &= ~bit
                satisfied += 1
        elif changes_nothing(tree, kind, argument, expected, state):
            row[1 + word] &= ~bit
            row[1 + must + word] |= bit
            satisfied += kind == CAS
    return satisfied


@inlined
def hides(registers: Int64s, ops: Int64s, masks: Int64s, base: Int64s, number: int) -> bool:
    """Can something blind that is still to take effect come just before this operation?"""
    hidden = 0
    if ops[number, KIND] == WRITE:
        for word in range(registers[MUST]):
            hidden |= base[1 + word] & masks[BLIND, word]
    return hidden != 0


@inlined
def take(registers: Int64s, ops: Int64s, masks: Int64s, row: Int64s, number: int, state: int) -> None:
    """This operation takes effect."""
    must = registers[MUST]
    word, bit = ops[number, WORD], ops[number, BIT]
    row[0] = state
    if ops[number, CERTAIN] == 1:
        row[1 + word] &= ~bit
    row[1 + must + word] &= ~bit
    if ops[number, KIND] == WRITE:  # whatever else is blind may have come just before, which nobody can have seen
        for index in range(must):
            hidden = row[1 + index] & masks[BLIND, index]
            row[1 + index] &= ~hidden
            row[1 + must + index] |= hidden


@inlined
def available(registers: Int64s, ops: Int64s, row: Int64s, number: int) -> int:
    """2: it must still take effect, 1: it may, 0: it cannot, or an identical lost one goes first."""
    may = 1 + registers[MUST]
    word, bit, twin = ops[number, WORD], ops[number, BIT], ops[number, TWIN]
    if row[may + word] & bit != 0:
        return 0 if twin >= 0 and row[may + ops[twin, WORD]] & ops[twin, BIT] != 0 else 1
    return 2 if ops[number, CERTAIN] == 1 and row[1 + word] & bit != 0 else 0


@inlined
def branch(
    tree: Tree,
    registers: Int64s,
    ops: Int64s,
    opened: Int64s,
    lost: Int64s,
    masks: Int64s,
    rows: Int64s,
    links: Int64s,
    heads: Int64s,
    base: Int64s,
    row: Int64s,
    target: int,
) -> int:
    """Every open or lost operation that may take effect next. `DONE`, or which array is full."""
    may = 1 + registers[MUST]
    idle = links[EXPLORED, registers[CURSOR], IDLE]
    target_word, target_bit = ops[target, WORD], ops[target, BIT]
    for place in range(len(base)):
        base[place] = rows[EXPLORED, registers[CURSOR], place]
    count = registers[OPENED]
    for candidate in range(count + registers[LOST]):
        number = opened[candidate] if candidate < count else lost[candidate - count]
        kind = ops[number, KIND]
        if ops[number, OBSERVES] == 1 or (idle == 1 and kind == WRITE):
            continue
        wants = available(registers, ops, base, number)
        if wants == 0:
            continue
        registers[STEPS] += 1
        state = after(tree, kind, ops[number, ARGUMENT], ops[number, EXPECTED], ops[number, RESULT], base[0])
        if state == NO_ROOM:
            return TREE_FULL
        if state == IMPOSSIBLE or (wants == 1 and state == base[0] and not hides(registers, ops, masks, base, number)):
            continue
        for place in range(len(base)):
            row[place] = base[place]
        take(registers, ops, masks, row, number, state)
        satisfied = settle(tree, registers, ops, opened, row, 0)
        must_still, may_still = row[1 + target_word] & target_bit, row[may + target_word] & target_bit
        here = base[1 + target_word] & target_bit != 0 and may_still != 0 and state == ops[target, ARGUMENT]
        if here or must_still | may_still == 0:  # `here`: where it changes nothing
            row[may + target_word] &= ~target_bit
            if not admit(FOUND, rows, links, heads, registers, masks, row, 0):
                return TABLE_FULL
            row[may + target_word] |= may_still
        idles = satisfied == 0 and (wants == 1 or kind in (WRITE, ADD, APPEND))
        if must_still | may_still == 0 or (idles and registers[CONDITIONAL] == 0):
            continue
        if not admit(EXPLORED, rows, links, heads, registers, masks, row, 1 if idles else 0):
            return TABLE_FULL
    return DONE


@inlined
def begin(
    tree: Tree, registers: Int64s, ops: Int64s, opened: Int64s, masks: Int64s, rows: Int64s, row: Int64s, target: int
) -> bool:
    """What was invoked since becomes part of the current configurations. Do all of them explain the target already?"""
    word, bit = ops[target, WORD], ops[target, BIT]
    unexplained = 0
    for index in range(registers[USED + CURRENT]):
        for place in range(len(row)):
            row[place] = rows[CURRENT, index, place] | masks[FRESH, place]
        settle(tree, registers, ops, opened, row, registers[SETTLED])
        unexplained |= (row[1 + word] | row[1 + registers[MUST] + word]) & bit
        for place in range(len(row)):
            rows[CURRENT, index, place] = row[place]
    for place in range(len(row)):
        masks[FRESH, place] = 0
    registers[SETTLED] = registers[OPENED]
    return unexplained == 0


@inlined
def sow(
    registers: Int64s,
    ops: Int64s,
    masks: Int64s,
    rows: Int64s,
    links: Int64s,
    heads: Int64s,
    row: Int64s,
    target: int,
) -> bool:
    """Those that explain it are found, those that could by another operation are where to begin. False: no room."""
    word, bit, may = ops[target, WORD], ops[target, BIT], 1 + registers[MUST]
    for index in range(registers[USED + CURRENT]):
        for place in range(len(row)):
            row[place] = rows[CURRENT, index, place]
        open_still = (row[1 + word] | row[may + word]) & bit != 0
        if open_still and not admit(EXPLORED, rows, links, heads, registers, masks, row, 0):
            return False
        row[may + word] &= ~bit
        if row[1 + word] & bit == 0 and not admit(FOUND, rows, links, heads, registers, masks, row, 0):
            return False
    return True


@inlined
def collect(registers: Int64s, rows: Int64s, links: Int64s) -> bool:
    """What was found becomes current. False: nothing was found."""
    kept = 0
    for entry in range(registers[USED + FOUND]):
        if links[FOUND, entry, DEAD] == 0:
            for place in range(rows.shape[2]):
                rows[CURRENT, kept, place] = rows[FOUND, entry, place]
            kept += 1
    if kept == 0:
        return False
    registers[USED + CURRENT] = kept
    registers[USED + FOUND] = 0
    registers[USED + EXPLORED] = 0
    registers[GENERATION] += 1
    registers[EXPLORING] = 0
    return True


@inlined
def enter(registers: Int64s, ops: Int64s, opened: Int64s, masks: Int64s, number: int) -> None:
    """An operation was invoked."""
    word, bit, kind = ops[number, WORD], ops[number, BIT], ops[number, KIND]
    registers[CONDITIONAL] += ops[number, OBSERVES] == 0 and kind != WRITE
    if ops[number, CERTAIN] == 0:
        registers[LOST] += 1
        masks[FRESH, 1 + registers[MUST] + word] |= bit
        return
    opened[registers[OPENED]] = number
    registers[OPENED] += 1
    masks[FRESH, 1 + word] |= bit
    if ops[number, OBSERVES] == 0:
        masks[MUTATORS, word] |= bit
    if kind in (WRITE, ADD, APPEND):
        masks[BLIND, word] |= bit


@inlined
def leave(registers: Int64s, ops: Int64s, opened: Int64s, masks: Int64s, number: int) -> None:
    """It completed."""
    word, bit = ops[number, WORD], ops[number, BIT]
    registers[OPENED] -= 1
    place = 0
    while opened[place] != number:
        place += 1
    for behind in range(place, registers[OPENED]):
        opened[behind] = opened[behind + 1]
    registers[SETTLED] = registers[OPENED]
    registers[CONDITIONAL] -= ops[number, OBSERVES] == 0 and ops[number, KIND] != WRITE
    masks[MUTATORS, word] &= ~bit
    masks[BLIND, word] &= ~bit


@bare
def run(
    tree: Tree,
    registers: Int64s,
    events: Int64s,
    ops: Int64s,
    opened: Int64s,
    lost: Int64s,
    masks: Int64s,
    rows: Int64s,
    links: Int64s,
    heads: Int64s,
    base: Int64s,
    row: Int64s,
    limit: int,
) -> int:
    while registers[EVENT] < len(events):
        event = events[registers[EVENT]]
        if event >= 0:
            enter(registers, ops, opened, masks, event)
            registers[EVENT] += 1
            continue
        target = ~event
        if registers[EXPLORING] == 0 and not begin(tree, registers, ops, opened, masks, rows, row, target):
            registers[EXPLORING] = 1
        if registers[EXPLORING] == 1:
            if not sow(registers, ops, masks, rows, links, heads, row, target):
                return TABLE_FULL
            registers[CURSOR] = 0
            registers[EXPLORING] = 2
        while registers[EXPLORING] == 2 and registers[CURSOR] < registers[USED + EXPLORED]:
            if registers[STEPS] >= limit:
                return PAUSED
            if links[EXPLORED, registers[CURSOR], DEAD] == 0:
                status = branch(tree, registers, ops, opened, lost, masks, rows, links, heads, base, row, target)
                if status != DONE:
                    return status
            registers[CURSOR] += 1
        if registers[EXPLORING] == 2 and not collect(registers, rows, links):
            return ILLEGAL
        leave(registers, ops, opened, masks, target)
        registers[EVENT] += 1
    return DONE


def advance(world: World, limit: int) -> int:
    """Go on until the end, a contradiction, `limit` steps in all, or a full array; `registers` hold where it stands."""
    arrays = (world.tree, world.registers, world.events, world.ops, world.opened, world.lost, world.masks)
    return run(*arrays, world.rows, world.links, world.heads, world.scratch[0], world.scratch[1], limit)
