"""Transactions that append unique elements to lists and read whole lists: what each read tells about the order of appends.

    T1: [append x 1]      T2: [append x 2] [r y [5]]      T3: [r x [1 2]]

A list that was read is its whole past, so the longest one that anybody read of a key is the order of its versions, and
all other reads of that key are beginnings of it (`incompatible-order` if not). Appends of transactions that happened but
that nobody read come after it, in an order that nobody knows. From there:

    WW    between the appends of neighbouring elements
    WR    from the append of a read's last element to the read
    RW    from a read to the append of the element after its last one; from the longest read to the unread appends

The own appends at the end of what a transaction reads are taken off: what is left is what it read of others. Where reads
contradict each other, or an element is in a list twice, only the beginning on which all agree is used. An element that
nobody appended is told and goes without a writer: the history may not have begun with an empty database.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.checker.serializability.findings import Findings
from harness.checker.serializability.graph import (
    RW,
    WR,
    WW,
    Bools,
    Edges,
    Int64s,
    neighbours,
)
from harness.checker.serializability.history import (
    FAILED,
    OK,
    READ,
    NotATransaction,
    Transactions,
    micro_operations,
    said,
)
from harness.history.formats.pairing import Paired

APPEND = "append"


@dataclass
class _Key:
    """One list."""

    name: Any
    longest: tuple[Any, ...] = ()
    longest_row: int = -1
    writers: dict[Any, int] = field(default_factory=dict)  # element -> row, of those that may have happened
    aborted: dict[Any, int] = field(default_factory=dict)  # of those that failed
    ambiguous: set[Any] = field(default_factory=set)  # appended by several
    intermediate: set[Any] = field(default_factory=set)  # its transaction appended another one later
    agreed: int = 0  # the beginning of `longest` that no read contradicts
    settled: bool = True  # nothing contradicts any of it


@dataclass
class _Reads:
    """Columns, one row per read of a transaction that happened."""

    row: list[int] = field(default_factory=list)
    key: list[int] = field(default_factory=list)
    value: list[tuple[Any, ...]] = field(default_factory=list)
    others: list[int] = field(default_factory=list)  # elements that are not own appends at the end
    before_append: list[int] = field(default_factory=list)  # reads whose transaction appends to the same key


class Lists:
    """Reads a history; `findings` are its anomalies but for cycles, `edges` its dependencies. NotATransaction."""

    def __init__(self, history: Paired, transactions: Transactions) -> None:
        self.findings = Findings()
        self._transactions = transactions
        self._keys: list[_Key] = []
        self._reads = _Reads()
        self._gather(history)
        self._compare()
        self._number_versions()
        self.happened = self._happened()
        self._phenomena()

    @property
    def ambiguous(self) -> str:
        """Why a history without violation is not proven valid; empty: it is."""
        for key in self._keys:
            for element in key.ambiguous:
                return f"{said(element)} was appended to {said(key.name)} more than once; elements have to be unique"
        return ""

    def _gather(self, history: Paired) -> None:
        numbers: dict[Any, int] = {}
        for row, outcome, done in micro_operations(history, APPEND):
            try:
                self._gather_one(row, outcome, done, numbers)
            except TypeError as error:  # of a dictionary
                raise NotATransaction(row, f"op {history.operations[row].index}: {error}") from None

    def _gather_one(self, row: int, outcome: int, done: Any, numbers: dict[Any, int]) -> None:
        keys, reads = self._keys, self._reads
        own: dict[int, list[Any]] = {}
        known: dict[int, tuple[Any, ...]] = {}  # what a read must give now
        first_read = len(reads.row)
        for micro in done:
            number = numbers.setdefault(micro[1], len(keys))
            if number == len(keys):
                keys.append(_Key(micro[1]))
            key = keys[number]
            if micro[0] == READ:
                self._gather_read(row, number, micro, own.get(number), known)
                continue
            element = micro[2]
            if outcome == FAILED:
                key.aborted[element] = row
                continue
            if element in key.writers:
                key.ambiguous.add(element)
            key.writers[element] = row
            own.setdefault(number, []).append(element)
            if number in known:
                if element in known[number]:
                    sentence = f"{self._name(row)} read {said(element)} from {said(key.name)} before it appended it"
                    self.findings.add("future-read", [row], sentence)
                known[number] += (element,)
        for number, elements in own.items():
            keys[number].intermediate.update(elements[:-1])
        if own:
            reads.before_append.extend(i for i in range(first_read, len(reads.row)) if reads.key[i] in own)

    def _gather_read(self, row: int, number: int, micro: Any, own: list[Any] | None, known: dict[int, Any]) -> None:
        key, reads = self._keys[number], self._reads
        value = micro[2] if len(micro) == 3 else None
        if value is None:
            value = ()
        if type(value) is not tuple:
            raise NotATransaction(row, f"{self._name(row)} read {said(value)} from {said(key.name)}: that is no list")
        others = len(value)
        if own:
            tail = value[-len(own) :] == tuple(own)
            others -= len(own) if tail else 0
        else:
            tail = True
        if not tail or (number in known and known[number] != value):
            expected = said(known[number]) if number in known else f"a list that ends with {said(tuple(own or ()))}"
            what = f"{self._name(row)} read {said(value)} from {said(key.name)}"
            self.findings.add("internal", [row], f"{what}, where its own micro-operations before leave {expected}")
        known[number] = value
        if len(value) > len(key.longest):
            key.longest, key.longest_row = value, row
        reads.row.append(row)
        reads.key.append(number)
        reads.value.append(value)
        reads.others.append(others)

    def _compare(self) -> None:
        """Reads of a key must be beginnings of the longest one, which must have no element twice."""
        keys, reads = self._keys, self._reads
        for key in keys:
            key.agreed = len(key.longest)
            if self._repeats(key.longest, key.longest_row):
                self._repeated(key, key.longest, key.longest_row)
        for row, number, value in zip(reads.row, reads.key, reads.value, strict=True):
            key = keys[number]
            if key.longest[: len(value)] == value:
                continue
            key.settled = False
            key.agreed = min(key.agreed, _agreement(key.longest, value))
            if self._repeats(value, row):
                self._repeated(key, value, row)
            sentence = f"{self._name(row)} read {said(value)} from {said(key.name)}, and {self._name(key.longest_row)}"
            self.findings.add("incompatible-order", [row, key.longest_row], f"{sentence} read {said(key.longest)}")

    def _repeats(self, value: tuple[Any, ...], row: int) -> bool:
        try:
            return len(set(value)) < len(value)
        except TypeError as error:
            raise NotATransaction(row, f"{self._name(row)} read {said(value)}: {error}") from None

    def _repeated(self, key: _Key, value: tuple[Any, ...], row: int) -> None:
        seen: set[Any] = set()
        for place, element in enumerate(value):
            if element in seen:
                key.settled = False
                key.agreed = min(key.agreed, place)
                sentence = f"{self._name(row)} read {said(element)} twice in {said(key.name)}: {said(value)}"
                self.findings.add("duplicate-elements", [row], sentence)
                return
            seen.add(element)

    def _number_versions(self) -> None:
        """Version `base[key] + n` of a key is the one with n elements."""
        keys, reads = self._keys, self._reads
        sizes = np.array([key.agreed + 1 for key in keys], np.int64)
        self._base = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        writer: list[int] = []
        for key in keys:
            writer.append(-1)
            find = key.writers.get
            if key.ambiguous:
                writer.extend(-1 if e in key.ambiguous else find(e, -1) for e in key.longest[: key.agreed])
            else:
                writer.extend([find(e, -1) for e in key.longest[: key.agreed]])
        self._writer = np.array(writer, np.int64)
        self._read_row = np.array(reads.row, np.int64)
        self._read_key = np.array(reads.key, np.int64)
        others = np.array(reads.others, np.int64)
        agreed = sizes[self._read_key] - 1
        self._exact = others <= agreed
        self._read_version = self._base[self._read_key] + np.minimum(others, agreed)
        self._by_version = np.argsort(self._read_version, kind="stable")

    def _happened(self) -> Bools:
        """What succeeded, and what is of unknown outcome and was seen."""
        outcome = self._transactions.outcome
        seen = np.zeros(len(outcome), bool)
        seen[self._writer[self._writer >= 0]] = True
        for key in self._keys:
            if not key.settled:
                seen[[key.writers[e] for e in key.longest[key.agreed :] if e in key.writers]] = True
        return np.asarray((outcome == OK) | (seen & (outcome != FAILED)))

    def _phenomena(self) -> None:
        for key in self._keys:
            if key.aborted:
                self._dirty_update(key)
            nobody = [e for e in key.longest if e not in key.writers and e not in key.aborted]
            if nobody:
                what = f"{self._name(key.longest_row)} read {said(nobody[0])} from {said(key.name)}"
                self.findings.add("phantom-value", [key.longest_row], f"{what}, which nobody appended", len(nobody))
        aborted = {number for number, key in enumerate(self._keys) if key.aborted and self._shows_aborted(key)}
        if aborted:
            self._aborted_reads(aborted)
        self._intermediate_reads()
        self._lost_updates()

    def _shows_aborted(self, key: _Key) -> bool:
        return not key.settled or any(e in key.aborted and e not in key.writers for e in key.longest)

    def _dirty_update(self, key: _Key) -> None:
        failed = next((e for e in key.longest if e in key.aborted and e not in key.writers), None)
        if failed is None:
            return
        later = key.longest[key.longest.index(failed) + 1 :]
        for element in later:
            row = key.writers.get(element, -1)
            if row >= 0 and self.happened[row]:
                aborted = key.aborted[failed]
                what = f"{self._name(row)} appended {said(element)} to {said(key.name)} after {said(failed)}"
                self.findings.add("dirty-update", [row, aborted], f"{what}, of {self._name(aborted)}, which failed")
                return

    def _aborted_reads(self, numbers: set[int]) -> None:
        reads = self._reads
        for row, number, value in zip(reads.row, reads.key, reads.value, strict=True):
            if number not in numbers:
                continue
            key = self._keys[number]
            for element in value:
                if element in key.aborted and element not in key.writers:
                    writer = key.aborted[element]
                    what = f"{self._name(row)} read {said(element)} from {said(key.name)}, which {self._name(writer)}"
                    self.findings.add("G1a", [row, writer], f"{what} appended, which failed")
                    break

    def _intermediate_reads(self) -> None:
        flags = np.zeros(len(self._writer), bool)
        for number, key in enumerate(self._keys):
            if key.intermediate:
                base = int(self._base[number]) + 1
                for place, element in enumerate(key.longest[: key.agreed]):
                    if element in key.intermediate:
                        flags[base + place] = True
        version = self._read_version
        hit = np.flatnonzero(self._exact & flags[version] & (self._writer[version] != self._read_row))
        if len(hit):
            row, seen = int(self._read_row[hit[0]]), int(version[hit[0]])
            key, element = self._element(seen)
            writer = int(self._writer[seen])
            what = f"{self._name(row)} read {said(key.name)} as it was after {said(element)}"
            sentence = f"{what}, in the middle of {self._name(writer)}, which appended more to it"
            self.findings.add("G1b", [row, writer], sentence, len(hit))

    def _lost_updates(self) -> None:
        reads = np.array(self._reads.before_append, np.int64)
        reads = reads[self._exact[reads]]
        pairs = np.unique(np.stack((self._read_version[reads], self._read_row[reads])), axis=1)
        versions, first, count = np.unique(pairs[0], return_index=True, return_counts=True)
        lost = np.flatnonzero(count > 1)
        if len(lost):
            where = first[lost[0]]
            one, two = (int(row) for row in pairs[1][where : where + 2])
            key = self._keys[self._key_of(int(versions[lost[0]]))]
            read = said(key.longest[: int(versions[lost[0]] - self._base[self._key_of(int(versions[lost[0]]))])])
            what = f"{self._name(one)} and {self._name(two)} both read {read} from {said(key.name)}"
            self.findings.add("lost-update", [one, two], f"{what} and appended to it", len(lost))

    def edges(self) -> Edges:
        edges = Edges(len(self._transactions.operations))
        key = np.repeat(np.arange(len(self._keys)), np.diff(self._base))
        known = np.flatnonzero(self._writer >= 0)
        one, two = neighbours(key[known], self._transactions.outcome[self._writer[known]] == OK)
        edges.extend(self._writer[known[one]], self._writer[known[two]], WW, known[two])
        if len(self._read_row) and len(known):
            place = np.searchsorted(known, self._read_version, side="right")  # of the next known one
            before = known[np.maximum(place - 1, 0)]
            saw = (place > 0) & (key[before] == self._read_key)
            edges.extend(self._writer[before[saw]], self._read_row[saw], WR, before[saw])
            after = known[np.minimum(place, len(known) - 1)]
            missed = (place < len(known)) & (key[after] == self._read_key)
            edges.extend(self._read_row[missed], self._writer[after[missed]], RW, after[missed])
        for number, targets in self._unread():
            self._tail(edges, number, targets)
        return edges

    def _unread(self) -> Iterator[tuple[int, list[int]]]:
        """Keys with transactions that appended to it after everything that was read."""
        for number, key in enumerate(self._keys):
            if not key.settled or len(key.writers) <= len(key.longest) - _unknown(self._slice(number)):
                continue
            read = set(key.longest)
            rows = [r for e, r in key.writers.items() if e not in read and e not in key.ambiguous and self.happened[r]]
            if rows:
                yield number, rows

    def _tail(self, edges: Edges, number: int, targets: list[int]) -> None:
        """From the last one that is known to have appended what was read, and from who saw no known one after that."""
        writers = self._slice(number)
        known = np.flatnonzero(writers >= 0)
        last = int(known[-1]) + 1 if len(known) else 0  # elements of its version
        versions = (self._base[number] + last, self._base[number + 1])
        begin, end = np.searchsorted(self._read_version, versions, sorter=self._by_version)
        sources = [(row, RW) for row in np.unique(self._read_row[self._by_version[begin:end]]).tolist()]
        if len(known):
            sources.append((int(writers[known[-1]]), WW))
            sure = known[self._transactions.outcome[writers[known]] == OK]
            if len(sure) and writers[sure[-1]] != writers[known[-1]]:
                sources.append((int(writers[sure[-1]]), WW))
        edges.fan(sources, targets, -1 - number)

    def words(self, source: int, target: int, kind: int, item: int) -> str:
        """One dependency as a sentence."""
        if item < 0:
            key = self._keys[-1 - item]
            element = next(e for e, row in key.writers.items() if row == target and e not in key.longest)
            earlier = key.longest
        else:
            key, element = self._element(item)
            earlier = key.longest[: item - int(self._base[self._key_of(item)]) - 1]
        before = next((e for e in reversed(earlier) if key.writers.get(e) == source), None)
        one, two, where = self._name(source), self._name(target), said(key.name)
        if kind == WR:
            return f"{two} saw {one}'s append of {said(element)} to {where}"
        if kind == RW:
            return f"{one} did not see {two}'s append of {said(element)} to {where}"
        return f"{two} appended {said(element)} to {where} after {one} appended {said(before)}"

    def _slice(self, number: int) -> Int64s:
        return self._writer[self._base[number] + 1 : self._base[number + 1]]

    def _key_of(self, version: int) -> int:
        return int(np.searchsorted(self._base, version, side="right")) - 1

    def _element(self, version: int) -> tuple[_Key, Any]:
        number = self._key_of(version)
        key = self._keys[number]
        return key, key.longest[version - int(self._base[number]) - 1]

    def _name(self, row: int) -> str:
        return f"T{self._transactions.operations[row].index}"


def _agreement(one: tuple[Any, ...], two: tuple[Any, ...]) -> int:
    """Length of the common beginning of two of which none begins the other."""
    return next(i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b)


def _unknown(writers: Int64s) -> int:
    return int((writers < 0).sum())
