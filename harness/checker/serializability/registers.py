"""Transactions that read registers and write unique values to them: who read whose write, and what that tells about order.

    T1: [w x 1]      T2: [r x 1] [w x 2]      T3: [r x 1]

A read names the write that it saw, but the order of a register's versions is only partly known:

    the initial value comes before all others
    T2 read 1 and then wrote 2: 1 comes before 2. Were it not so, the transactions would contradict read-committed
    in a process, or in real time: something that touched 1 was over before something that touched 2 began

The last two hold where transactions keep the order of processes or real time, so their edges have that level. With
version a before b: ORDER from a's writer to b's (what a transaction read and then wrote it has as WR already), and RW
from a's readers to b's writer. From that:

    T3 -RW-> T2     since T3 saw 1, and 2 came after it

In real time a version lasts from the first completion to the last invocation of what touched it, and a comes before b
iff a's first completion is before b's last invocation (zones: Gibbons and Korach, 1997). By register, versions lie in the
order of their last invocation, so that b are all from some place on: a chain of barriers. It may hold a itself, and what
a's reader wrote: to those in between there are single edges, but at most GAP each, so that with many versions open at
the same time some of what real time tells goes unused. All that is told is true; that all is told cannot be had for
registers (Papadimitriou, 1979: whether a history of reads and writes is serializable is NP-complete).

A value that nobody wrote is told, but not judged: the history may not have begun with an empty database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.checker.serializability.findings import Findings
from harness.checker.serializability.graph import (
    ANTI,
    FREE,
    OPEN,
    ORDER_PROCESS,
    ORDER_REALTIME,
    RW,
    RW_PROCESS,
    RW_REALTIME,
    WR,
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
from harness.checker.serializability.kernels import later_versions
from harness.history.formats.pairing import Paired

WRITE = "w"
GAP = 8
_FEW = 32  # edges from the readers of a version to the writers of later ones that need no barrier


@dataclass
class _Versions:
    """Columns, one row per value of a register."""

    key: list[int] = field(default_factory=list)
    value: list[Any] = field(default_factory=list)
    writer: list[int] = field(default_factory=list)  # row that may have happened; -1: none
    aborted: list[int] = field(default_factory=list)  # row that failed
    ambiguous: list[bool] = field(default_factory=list)  # several wrote it, or it is the initial value
    intermediate: list[bool] = field(default_factory=list)  # its transaction wrote the register again


class Registers:
    """Reads a history; `findings` are its anomalies but for cycles, `edges` its dependencies. NotATransaction."""

    def __init__(self, history: Paired, transactions: Transactions, initial: Any = None) -> None:
        self.findings = Findings()
        self._transactions = transactions
        self._initial = initial
        self._keys: list[Any] = []
        self._numbers: list[dict[Any, int]] = []  # of a key: value -> version
        self._versions = _Versions()
        self._reads: list[tuple[int, int]] = []  # row, version; of what happened, its own writes left out
        self._touches: list[tuple[int, int]] = []  # the same, and final writes, in the order of rows
        self._follows: list[tuple[int, int, int]] = []  # row, version that it read, version that it then wrote
        self._gather(history)
        self._settle()
        self._phenomena()

    @property
    def ambiguous(self) -> str:
        """Why a history without violation is not proven valid; empty: it is."""
        for version in np.flatnonzero(self._ambiguous):
            value, key = said(self._versions.value[version]), said(self._keys[self._versions.key[version]])
            return (
                f"{value} was written to {key} more than once, or was there at the beginning; values have to be unique"
            )
        return ""

    def _gather(self, history: Paired) -> None:
        numbers: dict[Any, int] = {}
        for row, outcome, done in micro_operations(history, WRITE):
            try:
                self._gather_one(row, outcome, done, numbers)
            except TypeError as error:  # of a dictionary
                raise NotATransaction(row, f"op {history.operations[row].index}: {error}") from None

    def _gather_one(self, row: int, outcome: int, done: Any, keys: dict[Any, int]) -> None:
        versions = self._versions
        known: dict[int, int] = {}  # register -> version that a read must give now
        based: dict[int, int] = {}  # register -> version that was read before the first write
        own: dict[int, int] = {}  # register -> version that was written last
        first_read = len(self._reads)
        for micro in done:
            key = keys.get(micro[1], -1)
            if key < 0:
                key = keys[micro[1]] = self._new_key(micro[1])
            version = self._version(key, micro[2] if len(micro) == 3 else None)
            if micro[0] == READ:
                self._gather_read(row, key, version, known, own)
                continue
            if outcome == FAILED:
                versions.aborted[version] = row
                continue
            if (row, version) in self._reads[first_read:]:
                what = f"{self._name(row)} read {said(micro[2])} from {said(micro[1])} before it wrote it"
                self.findings.add("future-read", [row], what)
            if versions.writer[version] >= 0 or micro[2] == self._initial:
                versions.ambiguous[version] = True
            versions.writer[version] = row
            if key in own:
                versions.intermediate[own[key]] = True
            elif key in known:
                based[key] = known[key]
            own[key] = known[key] = version
        for key, version in own.items():
            self._touches.append((row, version))
            if key in based:
                self._follows.append((row, based[key], version))

    def _gather_read(self, row: int, key: int, version: int, known: dict[int, int], own: dict[int, int]) -> None:
        expected = known.get(key, version)
        if expected != version:
            value = self._versions.value
            what = f"{self._name(row)} read {said(value[version])} from {said(self._keys[key])}"
            rest = f"where its own micro-operations before leave {said(value[expected])}"
            self.findings.add("internal", [row], f"{what}, {rest}")
        if own.get(key) != version:
            self._reads.append((row, version))
            self._touches.append((row, version))
        known[key] = version

    def _new_key(self, name: Any) -> int:
        self._keys.append(name)
        self._numbers.append({})
        return len(self._keys) - 1

    def _version(self, key: int, value: Any) -> int:
        numbers, versions = self._numbers[key], self._versions
        version = numbers.setdefault(value, len(versions.key))
        if version == len(versions.key):
            versions.key.append(key)
            versions.value.append(value)
            versions.writer.append(-1)
            versions.aborted.append(-1)
            versions.ambiguous.append(False)
            versions.intermediate.append(False)
        return version

    def _settle(self) -> None:
        """Columns as arrays, and what happened: what succeeded, and what is of unknown outcome and was seen."""
        versions, outcome = self._versions, self._transactions.outcome
        self._key = np.array(versions.key, np.int64)
        self._ambiguous = np.array(versions.ambiguous, bool)
        self._aborted = np.array(versions.aborted, np.int64)
        self._intermediate = np.array(versions.intermediate, bool)
        self._writer = np.array(versions.writer, np.int64)
        self._writer[self._ambiguous] = -1
        self._start = np.array([value == self._initial for value in versions.value], bool) & ~self._ambiguous
        self._read_row, self._read_version = _columns(self._reads, 2)
        seen = np.zeros(len(outcome) + 1, bool)  # one more for -1
        seen[self._writer[self._read_version]] = True
        self.happened: Bools = (outcome == OK) | (seen[:-1] & (outcome != FAILED))
        self._writer[(self._writer >= 0) & ~self.happened[self._writer]] = -1
        self._by_version = np.argsort(self._read_version, kind="stable")
        self._read_from = np.searchsorted(self._read_version[self._by_version], np.arange(len(self._key) + 1))
        follows = _columns(self._follows, 3)
        sure = (outcome[follows[0]] == OK) & ~self._ambiguous[follows[1]] & (follows[1] != follows[2])
        self._follow_row, self._follow_before, self._follow_after = (column[sure] for column in follows)

    def _phenomena(self) -> None:
        writer, read = self._writer[self._read_version], self._read_version
        self._tell_reads(
            "G1a", (writer < 0) & (self._aborted[read] >= 0), "{reader} read {what}, which {writer} wrote, which failed"
        )
        middle = self._intermediate[read] & (writer >= 0) & (writer != self._read_row)
        self._tell_reads("G1b", middle, "{reader} read {what}, in the middle of {writer}, which wrote it again")
        nobody = (np.array(self._versions.writer, np.int64)[read] < 0) & (self._aborted[read] < 0) & ~self._start[read]
        self._tell_reads("phantom-value", nobody, "{reader} read {what}, which nobody wrote")
        self._lost_updates()
        self._cyclic_versions()

    def _tell_reads(self, type_: str, mask: Bools, words: str) -> None:
        hit = np.flatnonzero(mask)
        if not len(hit):
            return
        row, version = int(self._read_row[hit[0]]), int(self._read_version[hit[0]])
        writers = (int(column[version]) for column in (self._writer, self._aborted))
        writer = next((other for other in writers if other >= 0), -1)
        name = self._name(writer) if writer >= 0 else ""
        what = f"{said(self._versions.value[version])} from {self._where(version)}"
        rows = [row, writer] if writer >= 0 else [row]
        self.findings.add(type_, rows, words.format(reader=self._name(row), what=what, writer=name), len(hit))

    def _lost_updates(self) -> None:
        pairs = np.unique(np.stack((self._follow_before, self._follow_row)), axis=1)
        versions, first, count = np.unique(pairs[0], return_index=True, return_counts=True)
        lost = np.flatnonzero(count > 1)
        if len(lost):
            one, two = (int(row) for row in pairs[1][first[lost[0]] : first[lost[0]] + 2])
            version = int(versions[lost[0]])
            read = f"{said(self._versions.value[version])} from {self._where(version)}"
            what = f"{self._name(one)} and {self._name(two)} both read {read} and then wrote it"
            self.findings.add("lost-update", [one, two], what, len(lost))

    def _cyclic_versions(self) -> None:
        """Each version follows at most one that its writer read."""
        before = np.full(len(self._key), -1, np.int64)
        before[self._follow_after] = self._follow_before
        before[self._ambiguous] = -1
        links = before.tolist()
        state = bytearray(len(links))  # 0: not seen, 1: on this walk, 2: done
        for start in np.flatnonzero(before >= 0).tolist():
            walk = []
            version = start
            while version >= 0 and not state[version]:
                state[version] = 1
                walk.append(version)
                version = links[version]
            if version >= 0 and state[version] == 1:
                cycle = walk[walk.index(version) :][::-1]
                values = ", ".join(said(self._versions.value[one]) for one in cycle)
                what = f"of {self._where(version)}, {values} each follow the one before, and the first follows the last"
                self.findings.add("cyclic-versions", [int(self._writer[one]) for one in cycle], what)
            for one in walk:
                state[one] = 2

    def edges(self) -> Edges:
        edges = Edges(len(self._transactions.operations))
        writer = self._writer[self._read_version]
        known = writer >= 0
        edges.extend(writer[known], self._read_row[known], WR, self._read_version[known])
        self._initial_first(edges)
        later = ~self._start[self._follow_before]
        self._before(edges, self._follow_before[later], self._follow_row[later], RW)
        self._in_processes(edges)
        self._in_real_time(edges)
        return edges

    def _final(self) -> Int64s:
        """Versions that a transaction which happened left behind."""
        return np.flatnonzero((self._writer >= 0) & ~self._intermediate)

    def _initial_first(self, edges: Edges) -> None:
        """Before the versions of which nothing else is known to be before them; the others follow one of these."""
        start = np.full(len(self._keys), -1, np.int64)
        start[self._key[self._start]] = np.flatnonzero(self._start)
        rooted = np.zeros(len(self._key), bool)
        rooted[self._follow_after[self._writer[self._follow_before] >= 0]] = True
        roots = self._final()
        roots = roots[~rooted[roots] & (start[self._key[roots]] >= 0)]
        self._before(edges, start[self._key[roots]], self._writer[roots], RW)

    def _before(self, edges: Edges, version: Int64s, target: Int64s, kind: int) -> None:
        """The readers of a version come before the writer of a later one, for many such pairs."""
        order = np.argsort(version, kind="stable")
        version, target = version[order], target[order]
        readers = self._read_from[version + 1] - self._read_from[version]
        targets = np.bincount(version, minlength=1)[version]
        few = readers * targets <= _FEW
        rows = np.repeat(np.flatnonzero(few), readers[few])
        begins = np.cumsum(readers[few]) - readers[few]
        place = np.arange(len(rows)) - np.repeat(begins, readers[few]) + self._read_from[version[rows]]
        edges.extend(self._read_row[self._by_version[place]], target[rows], kind, version[rows])
        many = np.flatnonzero(~few)
        for group in np.split(many, np.flatnonzero(np.diff(version[many])) + 1):
            if len(group):
                one = int(version[group[0]])
                sources = np.unique(self._readers(one)).tolist()
                edges.fan([(row, kind) for row in sources], target[group].tolist(), one)

    def _readers(self, version: int) -> Int64s:
        return self._read_row[self._by_version[self._read_from[version] : self._read_from[version + 1]]]

    def _in_processes(self, edges: Edges) -> None:
        """What a process touched in one register, one after the other."""
        row, version = _columns(self._touches, 2)
        process = self._transactions.process[row]
        sure = (process >= 0) & self.happened[row] & (self._writer[version] >= 0) & ~self._intermediate[version]
        row, version, process = row[sure], version[sure], process[sure]
        order = np.lexsort((np.arange(len(row)), self._key[version], process))
        row, version, process = row[order], version[order], process[order]
        same = (process[1:] == process[:-1]) & (self._key[version[1:]] == self._key[version[:-1]])
        news = np.flatnonzero(same & (version[1:] != version[:-1]) & (row[1:] != row[:-1]))
        pairs = np.unique(np.stack((version[news], version[news + 1])), axis=1)
        before, after = pairs[0], pairs[1]
        edges.extend(self._writer[before], self._writer[after], ORDER_PROCESS, before)
        self._before(edges, before, self._writer[after], RW_PROCESS)

    def _in_real_time(self, edges: Edges) -> None:
        final = self._final()
        if not len(final):
            return
        first, last = self._zones()
        final = final[np.lexsort((last[final], self._key[final]))]
        place = np.full(len(self._key) + 1, -1, np.int64)  # one more for none
        place[final] = np.arange(len(final))
        earliest = int(last[final].min())
        width = int(last[final].max()) - earliest + 2  # of a register on the one axis on which all of them lie
        axis = self._key * width
        read = np.flatnonzero(place[self._read_version] >= 0)
        wrote = self._written(self._read_row[read], self._key[self._read_version[read]])
        version = np.concatenate((self._read_version[read], final))
        source = np.concatenate((self._read_row[read], self._writer[final]))
        kind = np.concatenate((np.full(len(read), RW_REALTIME), np.full(len(final), ORDER_REALTIME)))
        other = np.concatenate((place[wrote], np.full(len(final), -1)))
        over = np.clip(first, earliest - 1, earliest + width - 2) - earliest
        begins = np.searchsorted(axis[final] + last[final] - earliest, axis[version] + over[version], side="right")
        ends = np.searchsorted(axis[final], axis[version], side="right")
        one, single, many, chain = later_versions(begins, ends, place[version], other, GAP)
        barrier = edges.barriers(len(final))
        numbers = np.arange(len(final), dtype=np.int64)
        linked, _ = neighbours(self._key[final])
        edges.extend(barrier + numbers, self._writer[final], FREE, 0)
        edges.extend(barrier + linked, barrier + linked + 1, FREE, 0)
        for which in (RW_REALTIME, ORDER_REALTIME):
            mine = kind[one] == which
            edges.extend(source[one[mine]], self._writer[final[single[mine]]], which, version[one[mine]])
            mine = kind[many] == which
            edges.extend(source[many[mine]], barrier + chain[mine], which, version[many[mine]])

    def _zones(self) -> tuple[Int64s, Int64s]:
        """Per version: when the first of what touched it was over, and when the last began."""
        first = np.full(len(self._key), OPEN, np.int64)
        last = np.full(len(self._key), np.iinfo(np.int64).min, np.int64)  # times may be negative
        row, version = _columns(self._touches, 2)
        sure = self.happened[row]
        row, version = row[sure], version[sure]
        np.minimum.at(first, version, self._transactions.completed[row])
        np.maximum.at(last, version, self._transactions.invoked[row])
        return first, last

    def _written(self, row: Int64s, key: Int64s) -> Int64s:
        """The version that a transaction left in a register; -1: none."""
        final = self._final()
        width = len(self._keys) + 1
        known = self._writer[final] * width + self._key[final]
        order = np.argsort(known)
        wanted = row * width + key
        place = np.minimum(np.searchsorted(known[order], wanted), len(final) - 1)
        return np.where(known[order][place] == wanted, final[order][place], -1)

    def words(self, source: int, target: int, kind: int, item: int) -> str:
        """One dependency as a sentence."""
        one, two, where = self._name(source), self._name(target), self._where(item)
        value = said(self._versions.value[item])
        if kind == WR:
            return f"{two} saw {one}'s write of {value} to {where}"
        wrote = self._written(np.array([target]), self._key[[item]])[0]
        written = said(self._versions.value[wrote])
        if ANTI[kind]:
            return f"{one} read {value} from {where} and did not see {two}'s write of {written}"
        return f"{where} was {written}, of {two}, after it was {value}, of {one}"

    def _where(self, version: int) -> str:
        return said(self._keys[self._versions.key[version]])

    def _name(self, row: int) -> str:
        return f"T{self._transactions.operations[row].index}"


def _columns(rows: Sequence[tuple[int, ...]], width: int) -> list[Int64s]:
    return list(np.array(rows, np.int64).reshape(-1, width).T)
