"""The inner loop of the frontier search, compiled: see `frontier` for what it does and why it is right.

A configuration is a row of int64 words: state, a bit per open operation that took effect already, a bit per operation
of unknown outcome that took effect already (62 bits to a word: no sign to care for). Nothing here allocates: when an
array is full, the kernel stops in a state from which it can go on, and its caller decides whether there is money for a
bigger one. States of sets, queues and texts are nodes of a tree of lists that grows as they are met: equal contents are
the same node, so no hash ever decides a verdict.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.checker.linearizability.compiling import compiled, inlined
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
)

BITS = 62

EVENT, EXPLORING, LEVEL, STEPS, CURRENT, FOUND, NODES, LOST, WIDTH, LIVE_WORDS = range(10)  # registers
DONE, ILLEGAL, PAUSED, TABLE_FULL, TREE_FULL = range(5)  # how `advance` ends
KIND, ARGUMENT, EXPECTED, RESULT, SLOT, TWIN, CERTAIN, OBSERVES = range(8)  # columns of `ops`
CHAIN, NEXT, DEAD, HASH = range(4)  # columns of `links`
PARENT, SYMBOL, SIBLING = range(3)  # columns of `nodes`

IMPOSSIBLE = int(np.iinfo(np.int64).min)  # no such step from this state
NO_ROOM = IMPOSSIBLE + 1  # the tree is full
ELSEWHERE = -3  # a text that no read can show, whatever is appended to it


class World(NamedTuple):
    """All arrays of one search; the kernel's own state is in here, so it can stop and go on."""

    registers: Int64s
    events: Int64s  # an operation that is invoked, ~operation: that one completes
    ops: Int64s
    live: Int64s  # the open operation in each slot, -1: none
    lost: Int64s  # operations of unknown outcome, as they are invoked
    current: Int64s  # configurations before the next event
    rows: Int64s  # configurations found while one completion is explained ...
    links: Int64s
    places: Int64s  # ... by hash of state and open operations ...
    levels: Int64s  # ... and, not yet looked at, by the number of lost operations that took effect
    starts: Int64s  # lists
    symbols: Int64s
    nodes: Int64s  # the tree of lists
    heads: Int64s


@inlined
def mix(seed: int, word: int) -> int:
    """31 bits of both; no product exceeds 63 bits."""
    mixed = ((seed ^ (word & 0x7FFFFFFF)) * 0x9E3779B1) & 0x7FFFFFFFFFFFFFFF
    mixed = ((mixed >> 15) ^ (word >> 31)) & 0x7FFFFFFF
    return ((mixed * 0x85EBCA6B) >> 13) & 0x7FFFFFFF


@compiled
def child(nodes: Int64s, heads: Int64s, registers: Int64s, parent: int, symbol: int) -> int:
    """The list at `parent` and one more symbol."""
    place = mix(mix(17, parent), symbol) & (len(heads) - 1)
    node = int(heads[place])
    while node >= 0:
        if nodes[node, PARENT] == parent and nodes[node, SYMBOL] == symbol:
            return node
        node = int(nodes[node, SIBLING])
    node = int(registers[NODES])
    if node == len(nodes):
        return NO_ROOM
    nodes[node, PARENT] = parent
    nodes[node, SYMBOL] = symbol
    nodes[node, SIBLING] = heads[place]
    heads[place] = node
    registers[NODES] = node + 1
    return node


@compiled
def rehash(nodes: Int64s, heads: Int64s, registers: Int64s) -> None:
    heads[:] = -1
    for node in range(1, registers[NODES]):
        place = mix(mix(17, nodes[node, PARENT]), nodes[node, SYMBOL]) & (len(heads) - 1)
        nodes[node, SIBLING] = heads[place]
        heads[place] = node


@compiled
def walk(nodes: Int64s, heads: Int64s, registers: Int64s, start: int, symbols: Int64s) -> int:
    """The list at `start` and all of these symbols."""
    node = start
    for symbol in symbols:
        node = child(nodes, heads, registers, node, symbol)
        if node < 0:
            return node
    return node


@compiled
def appended(world: World, state: int, symbols: Int64s) -> int:
    """The text at `state` and all of these symbols. A text only grows, so one that does not begin anything that was
    read or written whole (those are in the tree from the start) will never be read: all of them are one state.
    """
    nodes, heads = world.nodes, world.heads
    node = state
    for symbol in symbols:
        if node == ELSEWHERE:
            return ELSEWHERE
        parent = node
        node = int(heads[mix(mix(17, parent), symbol) & (len(heads) - 1)])
        while node >= 0 and (nodes[node, PARENT] != parent or nodes[node, SYMBOL] != symbol):
            node = int(nodes[node, SIBLING])
        if node < 0:
            return ELSEWHERE
    return node


@compiled
def change_set(nodes: Int64s, heads: Int64s, registers: Int64s, state: int, kind: int, element: int) -> int:
    """Sets are sorted lists: numbered by first use, elements mostly come at the end, so this is mostly one step."""
    above = state
    while above > 0 and nodes[above, SYMBOL] > element:
        above = nodes[above, PARENT]
    there = above > 0 and nodes[above, SYMBOL] == element
    if kind == CONTAINS:
        return state if there else -1
    if there == (kind == INSERT):
        return state
    kept = 0
    node = state
    while node != above:
        kept += 1
        node = nodes[node, PARENT]
    tail = np.empty(kept, np.int64)
    node = state
    while node != above:
        kept -= 1
        tail[kept] = nodes[node, SYMBOL]
        node = nodes[node, PARENT]
    if kind == INSERT:
        above = child(nodes, heads, registers, above, element)
        if above < 0:
            return above
    else:
        above = nodes[above, PARENT]
    return walk(nodes, heads, registers, above, tail)


@compiled
def dequeue(nodes: Int64s, heads: Int64s, registers: Int64s, state: int, result: int) -> int:
    if state == 0:
        return IMPOSSIBLE
    length = 0
    node = state
    while nodes[node, PARENT] > 0:
        length += 1
        node = nodes[node, PARENT]
    if result != UNSEEN and nodes[node, SYMBOL] != result:
        return IMPOSSIBLE
    rest = np.empty(length, np.int64)
    node = state
    while length > 0:
        length -= 1
        rest[length] = nodes[node, SYMBOL]
        node = nodes[node, PARENT]
    return walk(nodes, heads, registers, 0, rest)


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


@compiled
def step_on_list(world: World, kind: int, argument: int, result: int, state: int) -> int:
    """The same where the state is a list. `NO_ROOM`: the tree is full."""
    nodes, heads, registers = world.nodes, world.heads, world.registers
    if kind in (INSERT, REMOVE):
        return change_set(nodes, heads, registers, state, kind, argument)
    if kind == CONTAINS:
        there = change_set(nodes, heads, registers, state, kind, argument) >= 0
        return state if there == (result == 1) else IMPOSSIBLE
    if kind == ENQUEUE:
        return child(nodes, heads, registers, state, argument)
    if kind == DEQUEUE:
        return dequeue(nodes, heads, registers, state, result)
    if kind == EMPTY:
        return state if state == 0 else IMPOSSIBLE
    symbols = world.symbols[world.starts[argument] : world.starts[argument + 1]]  # APPEND
    return appended(world, state, symbols)


@compiled
def assign_slots(events: Int64s, ops: Int64s) -> int:
    """A small number for each open operation, used again when it has returned; lost ones are numbered for good."""
    free = np.empty(len(ops) + 1, np.int64)
    spare = 0
    used = 0
    lost = 0
    for event in events:
        if event < 0:
            free[spare] = ops[~event, SLOT]
            spare += 1
        elif ops[event, CERTAIN] == 0:
            ops[event, SLOT] = lost
            lost += 1
        elif spare > 0:
            spare -= 1
            ops[event, SLOT] = free[spare]
        else:
            ops[event, SLOT] = used
            used += 1
    return used


@inlined
def observe(world: World, row: Int64s) -> None:
    """Every open observer that is right about the state takes effect now: that loses nothing."""
    live, ops = world.live, world.ops
    state = row[0]
    steps = 0
    for slot in range(len(live)):
        number = live[slot]
        if number >= 0 and ops[number, OBSERVES] == 1 and (row[1 + slot // BITS] >> (slot % BITS)) & 1 == 0:
            steps += 1
            kind = ops[number, KIND]
            if kind < INSERT:
                after = step(kind, ops[number, ARGUMENT], ops[number, EXPECTED], ops[number, RESULT], state)
            else:
                after = step_on_list(world, kind, ops[number, ARGUMENT], ops[number, RESULT], state)
            if after != IMPOSSIBLE:
                row[1 + slot // BITS] |= 1 << (slot % BITS)
    world.registers[STEPS] += steps


@inlined
def admit(world: World, row: Int64s) -> bool:
    """Keep a configuration unless one that is as good is there; drop those that it beats. False: no room."""
    rows, links, registers = world.rows, world.links, world.registers
    width = registers[WIDTH]
    first_lost = 1 + registers[LIVE_WORDS]
    hashed = 7
    for word in range(first_lost):
        hashed = mix(hashed, row[word])
    place = hashed & (len(world.places) - 1)
    entry = world.places[place]
    while entry >= 0:
        if links[entry, DEAD] == 0:
            same = True
            for word in range(first_lost):
                same = same and rows[entry, word] == row[word]
            if same:
                below = True
                above = True
                for word in range(first_lost, width):
                    both = rows[entry, word] & row[word]
                    below = below and both == rows[entry, word]
                    above = above and both == row[word]
                if below:
                    return True
                if above:
                    links[entry, DEAD] = 1
        entry = links[entry, CHAIN]
    entry = registers[FOUND]
    if entry == len(rows):
        return False
    registers[FOUND] = entry + 1
    level = 0
    for word in range(width):
        rows[entry, word] = row[word]
        if word >= first_lost:
            bits = row[word]
            while bits:
                bits &= bits - 1
                level += 1
    links[entry, CHAIN] = world.places[place]
    world.places[place] = entry
    links[entry, DEAD] = 0
    links[entry, HASH] = place
    links[entry, NEXT] = world.levels[level]
    world.levels[level] = entry
    return True


@compiled
def replace(world: World) -> None:
    """After `places` has grown: find every configuration its new place."""
    width = 1 + world.registers[LIVE_WORDS]
    for entry in range(world.registers[FOUND]):
        hashed = 7
        for word in range(width):
            hashed = mix(hashed, world.rows[entry, word])
        place = hashed & (len(world.places) - 1)
        world.links[entry, HASH] = place
        world.links[entry, CHAIN] = world.places[place]
        world.places[place] = entry


@inlined
def branch(world: World, base: Int64s, row: Int64s) -> int:
    """Every open or lost operation that may take effect next. `DONE`, or which array is full."""
    registers, live, ops, lost = world.registers, world.live, world.ops, world.lost
    state = base[0]
    first_lost = 1 + registers[LIVE_WORDS]
    for candidate in range(len(live) + registers[LOST]):
        if candidate < len(live):
            slot, first = candidate, 1
            number = live[slot]
            if number < 0 or ops[number, OBSERVES] == 1:
                continue
        else:
            slot, first = candidate - len(live), first_lost
            number = lost[slot]
            twin = ops[number, TWIN]
            if twin >= 0 and (base[first + twin // BITS] >> (twin % BITS)) & 1 == 0:
                continue
        if (base[first + slot // BITS] >> (slot % BITS)) & 1 == 1:
            continue
        registers[STEPS] += 1
        kind = ops[number, KIND]
        if kind < INSERT:
            after = step(kind, ops[number, ARGUMENT], ops[number, EXPECTED], ops[number, RESULT], state)
        else:
            after = step_on_list(world, kind, ops[number, ARGUMENT], ops[number, RESULT], state)
        if after == NO_ROOM:
            return TREE_FULL
        if after == IMPOSSIBLE or (first == first_lost and after == state):
            continue
        for word in range(len(base)):
            row[word] = base[word]
        row[0] = after
        row[first + slot // BITS] |= 1 << (slot % BITS)
        observe(world, row)
        if not admit(world, row):
            return TABLE_FULL
    return DONE


@inlined
def explain(world: World, target: int, base: Int64s, row: Int64s, limit: int) -> int:
    """From all current configurations find those in which the operation in slot `target` took effect."""
    registers, levels, links = world.registers, world.levels, world.links
    if registers[EXPLORING] == 0:
        if registers[CURRENT] > len(world.rows):
            return TABLE_FULL
        registers[LEVEL] = 0
        for index in range(registers[CURRENT]):
            row[:] = world.current[index]
            observe(world, row)
            admit(world, row)
        registers[EXPLORING] = 1
    while registers[LEVEL] <= registers[LOST]:
        level = registers[LEVEL]
        entry = levels[level]
        if entry < 0:
            registers[LEVEL] += 1
            continue
        if registers[STEPS] >= limit:
            return PAUSED
        levels[level] = links[entry, NEXT]
        if links[entry, DEAD] == 1 or (world.rows[entry, 1 + target // BITS] >> (target % BITS)) & 1 == 1:
            continue
        for word in range(len(base)):
            base[word] = world.rows[entry, word]
        status = branch(world, base, row)
        if status != DONE:
            links[entry, NEXT] = levels[level]
            levels[level] = entry
            return status
    return DONE


@inlined
def collect(world: World, target: int) -> bool:
    """What was found becomes current, without the bit of the operation that returned. False: nothing was found."""
    registers, links, current = world.registers, world.links, world.current
    kept = 0
    for entry in range(registers[FOUND]):
        kept += links[entry, DEAD] == 0 and (world.rows[entry, 1 + target // BITS] >> (target % BITS)) & 1 == 1
    if kept == 0:
        return False
    kept = 0
    for entry in range(registers[FOUND]):
        world.places[links[entry, HASH]] = -1
        if links[entry, DEAD] == 0 and (world.rows[entry, 1 + target // BITS] >> (target % BITS)) & 1 == 1:
            for word in range(registers[WIDTH]):
                current[kept, word] = world.rows[entry, word]
            current[kept, 1 + target // BITS] &= ~(1 << (target % BITS))
            kept += 1
    registers[CURRENT] = kept
    registers[FOUND] = 0
    registers[EXPLORING] = 0
    return True


@compiled
def advance(world: World, limit: int) -> int:
    """Go on until the end, a contradiction, `limit` steps in all, or a full array; `registers` hold where it stands."""
    registers, events, ops, live = world.registers, world.events, world.ops, world.live
    base = np.empty(registers[WIDTH], np.int64)
    row = np.empty(registers[WIDTH], np.int64)
    while registers[EVENT] < len(events):
        event = events[registers[EVENT]]
        if event < 0:
            target = ops[~event, SLOT]
            status = explain(world, target, base, row, limit)
            if status != DONE:
                return status
            if not collect(world, target):
                return ILLEGAL
            live[target] = -1
        elif ops[event, CERTAIN] == 1:
            live[ops[event, SLOT]] = event
        else:
            registers[LOST] += 1
        registers[EVENT] += 1
    return DONE
