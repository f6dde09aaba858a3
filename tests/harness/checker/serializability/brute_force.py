"""Transactions by definition, for histories of a few of them, sharing nothing with the checker.

`serializable`: some order of the transactions, respecting what it must, gives every read its answer. `violated`: all
simple cycles of the full dependency graph (all pairs, nothing reduced), each named, and the models that forbid them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise, product
from typing import Any

from harness.history.formats.pairing import Operation, Paired
from workloads.op import Outcome

Before = Callable[[Operation, Operation], bool]


def in_real_time(one: Operation, two: Operation) -> bool:
    return in_session(one, two) or (one.completed is not None and one.completed < two.invoked)


def in_session(one: Operation, two: Operation) -> bool:
    return one.process == two.process and one.index < two.index


def in_no_time(one: Operation, two: Operation) -> bool:
    return False


def serializable(history: Paired, before: Before, lists: bool) -> bool:
    certain = [o for o in history.operations if o.outcome is Outcome.OK]
    unknown = [o for o in history.operations if o.outcome is Outcome.INFO]
    chosen = (certain + list(some) for count in range(len(unknown) + 1) for some in combinations(unknown, count))
    return any(_some_order(transactions, {}, before, lists) for transactions in chosen)


def _some_order(left: list[Operation], state: dict[Any, Any], before: Before, lists: bool) -> bool:
    if not left:
        return True
    for one in left:
        if not any(before(other, one) for other in left if other is not one):
            after = _applied(one, state, lists)
            if after is not None and _some_order([o for o in left if o is not one], after, before, lists):
                return True
    return False


def _applied(one: Operation, state: dict[Any, Any], lists: bool) -> dict[Any, Any] | None:
    state = dict(state)
    for f, key, value in one.result if one.outcome is Outcome.OK else one.value:
        now = state.get(key, () if lists else None)
        if f == "append":
            state[key] = (*now, value)
        elif f == "w":
            state[key] = value
        elif one.outcome is Outcome.OK and value != now:
            return None
    return state


def list_cycles(history: Paired) -> set[str] | None:
    """Names of all simple cycles of appends and reads; None where reads disagree about the order of a key."""
    orders: dict[Any, tuple[Any, ...]] = {}
    reads = [(o, m) for o in history.operations if o.outcome is Outcome.OK for m in o.result if m[0] == "r"]
    for _, (_, key, value) in reads:
        orders[key] = max(orders.get(key, ()), value, key=len)
    if any(orders[key][: len(value)] != value for _, (_, key, value) in reads):
        return None
    if any(len(set(order)) < len(order) for order in orders.values()):
        return None
    seen = {(key, element) for key, order in orders.items() for element in order}
    happened = [
        o for o in history.operations if o.outcome is Outcome.OK or (o.outcome is Outcome.INFO and _writes(o) & seen)
    ]
    return set(_names(happened, _list_edges(happened, orders)))


def _writes(one: Operation) -> set[tuple[Any, Any]]:
    return {(key, value) for f, key, value in one.value if f != "r"}


def _list_edges(happened: list[Operation], orders: dict[Any, tuple[Any, ...]]) -> dict[tuple[int, int], set[str]]:
    """All dependencies between all pairs; an element that nobody read is after all that somebody read."""
    place = {(key, e): i for key, order in orders.items() for i, e in enumerate(order)}
    edges: dict[tuple[int, int], set[str]] = {}
    for a, b in product(range(len(happened)), repeat=2):
        if a == b:
            continue
        kinds = edges.setdefault((a, b), set())
        mine, others = _writes(happened[a]), _writes(happened[b])
        for key, one in mine:
            first = place.get((key, one))
            if first is not None and any(k == key and place.get((k, e), 10**6) > first for k, e in others):
                kinds.add("ww")
        for key, length, read in _external(happened[b]):
            if any(k == key and e in read[:length] for k, e in mine):
                kinds.add("wr")
        for key, length, _ in _external(happened[a]):
            if any(k == key and place.get((k, e), 10**6) >= length for k, e in others):
                kinds.add("rw")
    return edges


def _external(one: Operation) -> Iterator[tuple[Any, int, tuple[Any, ...]]]:
    if one.outcome is not Outcome.OK:
        return
    own: dict[Any, list[Any]] = {}
    for f, key, value in one.result:
        mine = own.setdefault(key, [])
        if f != "r":
            mine.append(value)
        elif mine and list(value[-len(mine) :]) == mine:
            yield key, len(value) - len(mine), value
        else:
            yield key, len(value), value


def _names(happened: list[Operation], edges: dict[tuple[int, int], set[str]]) -> Iterator[str]:
    for (a, b), kinds in edges.items():
        if in_session(happened[a], happened[b]):
            kinds.add("process")
        elif in_real_time(happened[a], happened[b]):
            kinds.add("realtime")
    for cycle in _simple_cycles(len(happened), edges):
        pairs = [*pairwise(cycle), (cycle[-1], cycle[0])]
        committed = all(happened[one].outcome is Outcome.OK for one in cycle)
        for kinds in product(*(sorted(edges[pair]) for pair in pairs)):
            yield _name(kinds, committed=committed)


def _simple_cycles(nodes: int, edges: dict[tuple[int, int], set[str]]) -> Iterator[list[int]]:
    def walks(path: list[int]) -> Iterator[list[int]]:
        for other in range(path[0], nodes):
            if edges.get((path[-1], other)):
                if other == path[0]:
                    yield path
                elif other not in path:
                    yield from walks([*path, other])

    for start in range(nodes):
        yield from walks([start])


def _name(kinds: Sequence[str], *, committed: bool) -> str:
    """committed: that is known of all of them; otherwise what one wrote was read although it may have been aborted."""
    level = "-realtime" if "realtime" in kinds else "-process" if "process" in kinds else ""
    anti = [kind == "rw" for kind in kinds]
    if not any(anti):
        name = "G1c" if "wr" in kinds or not committed else "G0"
    elif sum(anti) == 1:
        name = "G-single-item"
    else:
        row = any(one and two for one, two in zip(anti, anti[1:] + anti[:1], strict=True))
        name = "G2-item" if row else "G-nonadjacent-item"
    return name + level
