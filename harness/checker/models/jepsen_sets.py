"""Jepsen's two checks of sets to which elements are only added.

`final-set`: only the last read counts. An element that was acknowledged and is not in it is lost, one in it that nobody
tried to add is unexpected; one of unknown outcome that is in it is recovered, which is as well.

`set-full`: every read counts. An element is known from the completion of its add, or of the first read that has it:

    add 7 [0, 3]   read: {} [2, 4]   read: {} [5, 6]   read: {7} [8, 9]    known at 3; absent for the last time at 5,
                                                                            present at 8: stable, and stale in between

    stable      the last-invoked read that has it was invoked after the last one that lacks it
    lost        known, and the last one that lacks it was invoked after that and after the last one that has it
    never-read  neither
    stale       stable, but a read lacks it that was invoked after it was known

Lost is a violation; stale is one if `linearizable` is asked for (consistency). No stable element at all: unknown.
Here an element counts as stale however short it was (Jepsen rounds down to milliseconds), and elements that a read has
twice (`duplicate-elements`) or that nobody had tried to add by then (`unexpected`) are violations, as they are in `final-set`.

Source: `jepsen.checker/set`, `jepsen.checker/set-full`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from harness.checker.models.bad_history import Misfit
from harness.checker.models.model import Found, Question
from harness.checker.models.objects import known
from harness.checker.models.rules import Unjudged, ended_at
from harness.checker.models.values import comparable, shown
from harness.history.formats.pairing import Operation, Paired

_COLLECTIONS = (tuple, list, set, frozenset)


class _Read(NamedTuple):
    operation: Operation
    elements: dict[Hashable, Any]


@dataclass
class _Element:
    value: Any
    add: Operation  # the first
    known: Operation | None  # what made it known
    present: _Read | None = None  # the last-invoked read that has it ...
    absent: _Read | None = None  # ... that lacks it, and had not completed before the add was invoked

    @property
    def stable(self) -> bool:
        if self.present is None:
            return False
        return self.absent is None or _place(self.absent.operation) < _place(self.present.operation)

    @property
    def missed(self) -> bool:
        """A read lacks it that was invoked after it was known."""
        return (
            self.absent is not None and self.known is not None and ended_at(self.known) < self.absent.operation.invoked
        )

    @property
    def lost(self) -> bool:
        return self.missed and not self.stable


def final_set(operations: Sequence[Operation], question: Question) -> Iterable[Found]:
    reads = _reads(operations)
    if not reads:
        raise Unjudged("the set was never read")
    last = max(reads, key=lambda read: ended_at(read.operation))
    adds = [operation for operation in operations if operation.f == "add"]
    acknowledged = {comparable(add.value): add for add in filter(known, adds)}
    lost = [add for element, add in acknowledged.items() if element not in last.elements]
    yield from _strangers([last], adds)
    if lost:
        sentence = (
            f"{shown(lost[0].value)} was added ({lost[0].index}), but the last read ({last.operation.index}) lacks it"
        )
        ops = (lost[0].index, last.operation.index)
        yield Found(type="lost", count=len(lost), sentence=sentence, ops=ops)
    recovered = last.elements.keys() & {comparable(add.value) for add in adds} - acknowledged.keys()
    if recovered:
        sentence = f"{shown(last.elements[min(recovered, key=repr)])} is there, though nobody knew whether it was added"
        yield Found(
            type="recovered", count=len(recovered), sentence=sentence, ops=(last.operation.index,), violation=False
        )


def set_full(operations: Sequence[Operation], question: Question) -> Iterable[Found]:
    reads = _reads(operations)
    adds = [operation for operation in operations if operation.f == "add"]
    yield from _strangers(reads, adds)
    yield from _repeated(reads)
    elements = list(_elements(adds, reads).values())
    lost = [element for element in elements if element.lost]
    stale = [element for element in elements if element.stable and element.missed]
    for kind, some, violation in (("lost", lost, True), ("stale", stale, "linearizable" in question.consistency)):
        if some:
            first = some[0]
            assert first.known is not None
            assert first.absent is not None
            what = "and no later read has it" if kind == "lost" else "though a later one has it"
            sentence = (
                f"{shown(first.value)} was known to be there when {first.known.f} {first.known.index} completed, but read "
                f"{first.absent.operation.index} lacks it, {what}"
            )
            ops = (first.known.index, first.absent.operation.index)
            yield Found(type=kind, count=len(some), sentence=sentence, ops=ops, violation=violation)
    if not lost and not any(element.stable for element in elements):
        raise Unjudged("no read shows that an element was there to stay")


def _elements(adds: Sequence[Operation], reads: Sequence[_Read]) -> dict[Hashable, _Element]:
    """In time proportional to what the reads hold together."""
    elements: dict[Hashable, _Element] = {}
    for add in adds:
        element = elements.setdefault(comparable(add.value), _Element(add.value, add, None))
        if known(add) and (element.known is None or ended_at(add) < ended_at(element.known)):
            element.known = add
    for read in reads:
        for key in read.elements.keys() & elements.keys():
            element = elements[key]
            if ended_at(read.operation) < element.add.invoked:
                continue
            if element.known is None or ended_at(read.operation) < ended_at(element.known):
                element.known = read.operation
    latest_first = sorted(reads, key=lambda read: _place(read.operation), reverse=True)
    for key, element in elements.items():
        for read in latest_first:
            if ended_at(read.operation) < element.add.invoked:
                continue
            if key not in read.elements:
                element.absent = element.absent or read
            elif element.present is None:
                element.present = read
            if element.absent is not None and (element.present is not None or element.known is None):
                break
    return elements


def _strangers(reads: Sequence[_Read], adds: Sequence[Operation]) -> Iterable[Found]:
    tried: dict[Hashable, int] = {}
    for add in adds:
        tried.setdefault(comparable(add.value), add.invoked)
    strange = {
        key: read
        for read in reversed(reads)
        for key in read.elements
        if tried.get(key, math.inf) > ended_at(read.operation)
    }
    if strange:
        key, read = min(strange.items(), key=lambda item: (item[1].operation.index, repr(item[0])))
        sentence = f"read {read.operation.index} has {shown(read.elements[key])}, which nobody had tried to add by then"
        yield Found(type="unexpected", count=len(strange), sentence=sentence, ops=(read.operation.index,))


def _repeated(reads: Sequence[_Read]) -> Iterable[Found]:
    twice: dict[Hashable, tuple[_Read, int]] = {}
    for read in reads:
        if len(read.elements) == len(read.operation.result):
            continue
        for key, count in Counter(map(comparable, read.operation.result)).items():
            if count > 1 and key not in twice:
                twice[key] = read, count
    if twice:
        key, (read, count) = next(iter(twice.items()))
        sentence = f"read {read.operation.index} has {shown(read.elements[key])} {count} times"
        yield Found(type="duplicate-elements", count=len(twice), sentence=sentence, ops=(read.operation.index,))


def _reads(operations: Sequence[Operation]) -> list[_Read]:
    found = []
    for operation in filter(known, operations):
        if operation.f == "read" and operation.result is not None:
            if not isinstance(operation.result, _COLLECTIONS):
                raise Misfit(operation, "a read of a set finds a set")
            found.append(_Read(operation, {comparable(element): element for element in operation.result}))
    return found


def _place(operation: Operation) -> tuple[int, int]:
    """In the order of invocations."""
    return operation.invoked, operation.index


def reads_whole_sets(history: Paired) -> bool:
    reads = [o.result for o in history.operations if o.f == "read" and known(o) and o.result is not None]
    adds = any(operation.f == "add" for operation in history.operations)
    return adds and bool(reads) and all(isinstance(found, _COLLECTIONS) for found in reads)
