"""An append-only log whose appends tell their offsets (a partition): exact, by sorting and one sweep.

    {:f :append :value "a"} -> ok [0 "a"]      {:f :read} -> ok [[0 "a"] [1 "b"]]      {:f :tail} -> ok 2

A read returns some run of the log, from anywhere; a tail is the offset behind the last record. Values are unique.
Offsets may have gaps, as Kafka's have (transaction markers, compaction), so for `log` a gap that nobody filled is no
anomaly. `contiguous-log` is for logs whose every offset holds one record: there an offset that nobody was told and nobody
read needs an append of unknown outcome that may be there (`linearizability.holes`), and no read passes over an offset.

What can be wrong: one offset with two values, one value at two offsets, a value that nobody appended or whose append
failed, a read that is not in the order of offsets, an acknowledged record that a read of both its neighbours lacks, and
offsets that contradict real time (see `linearizability.log`). Kafka's own histories are judged by `kafka`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from harness.checker.linearizability.holes import unexplained
from harness.checker.linearizability.log import NEVER, OPEN, inversions
from harness.checker.models.bad_history import Misfit, bad_history, unknown_functions
from harness.checker.models.model import Found, Judgement, Question
from harness.checker.models.objects import by_key, known, of_key
from harness.checker.models.values import comparable, shown
from harness.history.formats.pairing import Operation, Paired
from reports.verdict import Validity
from workloads.op import Outcome

ENGINE = "slot-sweep"
_MOST = 1 << 61


class _Read(NamedTuple):
    operation: Operation
    records: tuple[tuple[int, Any], ...]


@dataclass(frozen=True, kw_only=True)
class LogModel:
    name: str
    contiguous: bool  # every offset holds one record
    functions: frozenset[str] = frozenset({"append", "read", "tail"})

    def fits(self, history: Paired) -> bool:
        """Whether offsets may have gaps cannot be seen from the ops: without a name they may."""
        if self.contiguous:
            return False
        operations = history.operations
        appends = [operation.result for operation in operations if operation.f == "append" and known(operation)]
        return (
            {operation.f for operation in operations} <= self.functions
            and bool(appends)
            and all(isinstance(result, tuple) and len(result) == 2 for result in appends)
        )

    def judge(self, history: Paired, question: Question) -> Judgement:
        strange = unknown_functions(self.name, self.functions, history.operations)
        if strange is not None:
            return strange
        found: dict[str, Found] = {}
        for key, operations in by_key(history.operations):
            try:
                log = _Log(operations)
            except Misfit as error:
                return bad_history(str(error), error.operation)
            if log.repeated is not None:
                reason = (
                    f"{of_key(key)}value {shown(log.repeated)} is appended more than once: offsets cannot be told apart"
                )
                return Judgement(verdict=Validity.UNKNOWN, engine=ENGINE, reason=reason)
            for kind, sentence, ops in log.anomalies(self.contiguous):
                known_count = found[kind].count if kind in found else 0
                first = found.get(kind) or Found(type=kind, count=0, sentence=of_key(key) + sentence, ops=ops)
                found[kind] = Found(type=kind, count=known_count + 1, sentence=first.sentence, ops=first.ops)
        verdict = Validity.INVALID if found else Validity.VALID
        return Judgement(verdict=verdict, engine=ENGINE, found=tuple(found.values()))


LOG = LogModel(name="log", contiguous=False)
CONTIGUOUS_LOG = LogModel(name="contiguous-log", contiguous=True)
_Anomaly = tuple[str, str, tuple[int, ...]]  # type, sentence, ops


class _Log:
    def __init__(self, operations: Sequence[Operation]) -> None:
        """Misfit."""
        self._appends = {comparable(o.value): o for o in operations if o.f == "append"}
        effective = [o for o in operations if o.f == "append" and o.outcome is not Outcome.FAIL]
        counts = Counter(comparable(o.value) for o in effective)
        self.repeated = next((o.value for o in effective if counts[comparable(o.value)] > 1), None)
        self._appends |= {comparable(o.value): o for o in effective}
        self._acknowledged = [(o, _acknowledged(o)) for o in effective if known(o)]
        self._reads = [_Read(o, _records(o)) for o in operations if o.f == "read" and known(o) and o.result is not None]
        self._tails = [(o, _offset(o, o.result)) for o in operations if o.f == "tail" and known(o)]

    def anomalies(self, contiguous: bool) -> Iterator[_Anomaly]:
        yield from self._identity()
        yield from self._lost()
        yield from self._order()
        if contiguous:
            yield from self._gaps()

    def _observed(self) -> Iterator[tuple[int, Any, Operation]]:
        for operation, offset in self._acknowledged:
            yield offset, operation.value, operation
        for read in self._reads:
            for offset, value in read.records:
                yield offset, value, read.operation

    def _identity(self) -> Iterator[_Anomaly]:
        at: dict[int, tuple[Hashable, Any, Operation]] = {}
        of: dict[Hashable, tuple[int, Operation]] = {}
        told: set[Hashable] = set()
        for offset, value, operation in self._observed():
            name = comparable(value)
            append = self._appends.get(name)
            if append is None and (None, name) not in told:
                told.add((None, name))
                yield (
                    "phantom-value",
                    f"{shown(value)} was read at offset {offset}; nobody appended it",
                    (operation.index,),
                )
            elif append is not None and append.outcome is Outcome.FAIL and (False, name) not in told:
                told.add((False, name))
                yield "aborted-read", f"{shown(value)} was read, but its append failed", (operation.index, append.index)
            there = at.setdefault(offset, (name, value, operation))
            if there[0] != name:
                sentence = f"offset {offset} held {shown(there[1])} and {shown(value)}"
                yield "inconsistent-offset", sentence, (there[2].index, operation.index)
            elsewhere = of.setdefault(name, (offset, operation))
            if elsewhere[0] != offset:
                sentence = f"{shown(value)} was at offset {elsewhere[0]} and at offset {offset}"
                yield "duplicate", sentence, (elsewhere[1].index, operation.index)
        for read in self._reads:
            for (earlier, _), (later, _) in pairwise(read.records):
                if later <= earlier:
                    sentence = f"read {read.operation.index} returned offset {later} after offset {earlier}"
                    yield "nonmonotonic-poll", sentence, (read.operation.index,)
                    break

    def _lost(self) -> Iterator[_Anomaly]:
        """Acknowledged, and absent between two offsets that one read returned."""
        acknowledged = sorted((offset, operation.index) for operation, offset in self._acknowledged)
        offsets = np.array([offset for offset, _ in acknowledged], np.int64)
        told: set[int] = set()
        for read in self._reads:
            held = {offset for offset, _ in read.records}
            if len(held) < 2:
                continue
            first, last = np.searchsorted(offsets, (min(held), max(held)))
            if last - first <= 0:
                continue
            for offset, append in acknowledged[first:last]:
                if offset not in held and offset not in told:
                    told.add(offset)
                    sentence = f"offset {offset} was acknowledged; read {read.operation.index} passed it and lacks it"
                    yield "lost-write", sentence, (append, read.operation.index)

    def _order(self) -> Iterator[_Anomaly]:
        rows = [*self._rows()]
        if not rows:
            return
        slot, invoked, completed, operations = zip(*rows, strict=True)
        found = inversions(
            np.zeros(len(rows), np.int64),
            np.array(slot, np.int64),
            np.array(invoked, np.int64),
            np.array(completed, np.int64),
        )
        for x, y in zip(found.x.tolist(), found.y.tolist(), strict=True):
            late, early = operations[x], operations[y]
            sentence = (
                f"{late.f} {late.index} was invoked after {early.f} {early.index} had shown that the log was longer"
            )
            yield "nonlinearizable-log", sentence, (late.index, early.index)

    def _gaps(self) -> Iterator[_Anomaly]:
        """Offsets that hold nothing, or nothing that anybody can have put there."""
        for read in self._reads:
            for (earlier, _), (later, _) in pairwise(read.records):
                if later > earlier + 1:
                    sentence = (
                        f"read {read.operation.index} went from offset {earlier} to {later}, in a log without gaps"
                    )
                    yield "unexplained-gap", sentence, (read.operation.index,)
                    return
        rows = [*self._rows()]
        observed = [*self._observed()]
        seen = {comparable(value) for _, value, _ in observed}
        unseen = [o.invoked for name, o in self._appends.items() if o.outcome is Outcome.INFO and name not in seen]
        hole = unexplained(
            np.array([slot for slot, _, _, _ in rows], np.int64),
            np.array([completed for _, _, completed, _ in rows], np.int64),
            np.array([offset for offset, _, _ in observed], np.int64),
            np.array(unseen, np.int64),
        )
        if hole is not None:
            shows = rows[hole.row][3]
            sentence = (
                f"by the end of {shows.f} {shows.index} offset {hole.offset} held a record; {hole.holes} offsets up to it are "
                f"nobody's, and {hole.appends} appends that could be there had been invoked"
            )
            yield "unexplained-gap", sentence, (shows.index,)

    def _rows(self) -> Iterator[tuple[int, int, int, Operation]]:
        """(slot, invoked, completed, operation)"""
        for operation, offset in self._acknowledged:
            yield 2 * offset + 1, operation.invoked, _end(operation), operation
        for operation, offset in self._tails:
            yield 2 * offset, operation.invoked, _end(operation), operation
        seen: dict[Hashable, int] = {}
        for read in self._reads:
            seen |= {comparable(value): offset for offset, value in read.records}
            if read.records:
                last = max(offset for offset, _ in read.records)
                yield 2 * last + 2, NEVER, _end(read.operation), read.operation
        for name, operation in self._appends.items():
            if operation.outcome is Outcome.INFO and name in seen:
                yield 2 * seen[name] + 1, operation.invoked, OPEN, operation


def _end(operation: Operation) -> int:
    return OPEN if operation.completed is None else operation.completed


def _acknowledged(operation: Operation) -> int:
    result = operation.result
    return _offset(operation, result[0] if isinstance(result, tuple) and len(result) == 2 else result)


def _records(operation: Operation) -> tuple[tuple[int, Any], ...]:
    if not isinstance(operation.result, tuple):
        raise Misfit(operation, "a read of a log returns [[offset value] ...]")
    return tuple(_checked(operation, operation.result))


def _checked(operation: Operation, records: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    for record in records:
        if not isinstance(record, tuple) or len(record) != 2:
            raise Misfit(operation, f"{shown(record)} is not [offset value]")
        yield _offset(operation, record[0]), record[1]


def _offset(operation: Operation, offset: Any) -> int:
    if type(offset) is not int or not 0 <= offset < _MOST:
        raise Misfit(operation, f"{shown(offset)} is no offset: those are whole numbers from 0 to 2^61")
    return offset
