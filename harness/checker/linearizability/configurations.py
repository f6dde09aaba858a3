"""Tables of configurations, each no better than any other in it. Compiled.

A configuration is a row of int64 words: the state, a bit per open operation that must still take effect, a bit per
operation that may or may not (62 bits to a word: no sign to care for). Bits of open operations come first, those of
operations of unknown outcome after them, at the same places in both groups.

    state 3   must 0b0100   may 0b1001        operation 2 must, 0 and 3 may take effect, operation 1 did

One is at least as good as another if the states are equal and for every operation: it may; or both are alike; or it is
an observer that took effect. Then it can do whatever the other can. Two chains per table find such pairs: by state
(general, but only the latest `NEAR` are looked at), and by state and open operations (all, so that of operations of
unknown outcome no more than necessary are used). Missing a pair costs time, never a verdict.
"""

from __future__ import annotations

from harness.checker.linearizability.compiling import bare, inlined
from harness.checker.linearizability.operations import Int64s
from harness.checker.linearizability.states import mix

BITS = 62
NEAR = 48
FOUND, EXPLORED, CURRENT = range(3)  # tables; the last one is a plain list
BY_STATE, BY_LIVE, DEAD, IDLE = range(4)  # columns of `links`
USED = 0  # registers: rows in each of the three tables,
GENERATION, MUST, MAY = 3, 4, 5  # how often they were cleared, words of "must" and of "may" in a row
FRESH, LIVE, MUTATORS, BLIND = range(4)  # rows of `masks`
_ENTRY = (1 << 31) - 1


@inlined
def latest(heads: Int64s, registers: Int64s, table: int, chain: int, place: int) -> int:
    """Heads are stamped with the generation, so that clearing a table costs nothing. -1: the chain is empty."""
    stamped = heads[table, chain, place]
    return (stamped & _ENTRY) - 1 if stamped >> 31 == registers[GENERATION] else -1


@inlined
def compare(rows: Int64s, table: int, entry: int, row: Int64s, masks: Int64s, must: int, may: int) -> int:
    """1: the entry is at least as good as the row; -1: the row is better; 0: neither. Their states are equal."""
    entry_wins = True
    row_wins = True
    for word in range(may):
        theirs, ours = rows[table, entry, 1 + must + word], row[1 + must + word]
        entry_wins = entry_wins and ours & ~theirs == 0
        row_wins = row_wins and theirs & ~ours == 0
        if word < must:
            their_must, our_must = rows[table, entry, 1 + word], row[1 + word]
            changes = masks[MUTATORS, word]
            entry_wins = entry_wins and their_must & ~our_must == 0 and our_must & changes & ~(their_must | theirs) == 0
            row_wins = row_wins and our_must & ~their_must == 0 and their_must & changes & ~(our_must | ours) == 0
    if entry_wins:
        return 1
    return -1 if row_wins else 0


@inlined
def hash_of(row: Int64s, masks: Int64s, must: int) -> int:
    """Of state and open operations."""
    hashed = mix(7, row[0])
    for word in range(must):
        hashed = mix(mix(hashed, row[1 + word]), row[1 + must + word] & masks[LIVE, word])
    return hashed


@inlined
def put(links: Int64s, heads: Int64s, registers: Int64s, table: int, chain: int, place: int, entry: int) -> None:
    """At the head of its chain."""
    links[table, entry, chain] = latest(heads, registers, table, chain, place)
    heads[table, chain, place] = (registers[GENERATION] << 31) | (entry + 1)


@bare
def admit(
    table: int, rows: Int64s, links: Int64s, heads: Int64s, registers: Int64s, masks: Int64s, row: Int64s, idle: int
) -> bool:
    """Keep the row unless one that is as good is there; drop those that it beats. False: no room."""
    must, may = registers[MUST], registers[MAY]
    last = heads.shape[2] - 1
    chain, place = BY_STATE, mix(7, row[0]) & last
    left = NEAR
    entry = latest(heads, registers, table, chain, place)
    while True:
        if (entry < 0 or left == 0) and chain == BY_STATE:
            near = entry < 0
            chain, place = BY_LIVE, hash_of(row, masks, must) & last
            entry = -1 if near else latest(heads, registers, table, chain, place)
        if entry < 0:
            break
        left -= 1
        if links[table, entry, DEAD] == 0 and rows[table, entry, 0] == row[0]:
            order = compare(rows, table, entry, row, masks, must, may)
            if order == 1:
                return True
            if order == -1:
                links[table, entry, DEAD] = 1
        entry = links[table, entry, chain]
    entry = registers[USED + table]
    if entry == rows.shape[1]:
        return False
    registers[USED + table] = entry + 1
    for word in range(len(row)):
        rows[table, entry, word] = row[word]
    links[table, entry, DEAD] = 0
    links[table, entry, IDLE] = idle
    put(links, heads, registers, table, BY_STATE, mix(7, row[0]) & last, entry)
    put(links, heads, registers, table, BY_LIVE, place, entry)
    return True


@bare
def rechain(rows: Int64s, links: Int64s, heads: Int64s, registers: Int64s, masks: Int64s, row: Int64s) -> None:
    """After `heads` has grown and is empty: find every configuration its new places. `row`: room for one."""
    last = heads.shape[2] - 1
    for table in (FOUND, EXPLORED):
        for entry in range(registers[USED + table]):
            for word in range(len(row)):
                row[word] = rows[table, entry, word]
            put(links, heads, registers, table, BY_STATE, mix(7, row[0]) & last, entry)
            put(links, heads, registers, table, BY_LIVE, hash_of(row, masks, registers[MUST]) & last, entry)
