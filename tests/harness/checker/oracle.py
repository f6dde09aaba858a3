"""The definitions of anomalies once more, as loops over rows: slow, obvious, and sharing nothing with the checker.

Keys of findings: the type, then what tells one finding from another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tests.harness.checker.stories import Story
from workloads.op import Record

Key = tuple[Any, ...]
Log = tuple[str, int]


class Oracle:
    def __init__(self, story: Story) -> None:
        self.story = story
        self.records = story.records
        self.acked = [r for r in self.records if r.kind == "send" and r.outcome == "ok" and r.offset is not None]
        self.reads = [r for r in self.records if r.kind == "poll"]
        last: dict[Log, int] = {}
        for r in self.reads:
            if r.phase == "final":
                last[_log(r)] = max(last.get(_log(r), 0), r.process)
        self.final = [r for r in self.reads if r.phase == "final" and r.process == last[_log(r)]]
        self.sends: dict[str | None, list[Record]] = defaultdict(list)
        for r in self.records:
            if r.kind == "send":
                self.sends[r.value].append(r)
        self.places: dict[str | None, set[tuple[Log, int]]] = defaultdict(set)
        for r in self.reads:
            self.places[r.value].add((_log(r), _offset(r)))

        self.missing = {
            (_log(r), r.offset, r.value)
            for r in self.acked
            if self._was_read(_log(r), _offset(r))
            and not any((_log(f), f.offset, f.value) == (_log(r), r.offset, r.value) for f in self.final)
        }
        self.standing = [r for r in self.acked if (_log(r), r.offset, r.value) not in self.missing]

    def _was_read(self, log: Log, offset: int) -> bool:
        """Whether what stands at an offset in the end is known."""
        end = self.end(log)
        return end is not None and not (offset >= end[0] and end[2] <= offset < end[1])

    def findings(self) -> set[Key]:
        every = (
            self.lost,
            self.duplicates,
            self.inconsistent,
            self.phantoms,
            self.aborted,
            self.vanished,
            self.backwards,
            self.skips,
            self.reordered,
            self.nonlinearizable,
        )
        return {key for check in every for key in check()}

    def end(self, log: Log) -> tuple[int, int, int] | None:
        """log start, log end, read to"""
        rows = [
            b
            for b in self.story.bounds
            if (b.topic, b.partition) == log and b.log_end is not None and b.read_to is not None
        ]
        if not rows:
            return None
        b = rows[-1]
        assert b.log_start is not None
        assert b.log_end is not None
        assert b.read_to is not None
        return b.log_start, b.log_end, min(b.read_to, b.log_end)

    def lost(self) -> Iterator[Key]:
        for r in self.acked:
            if self._was_read(_log(r), _offset(r)) and r.value not in {
                f.value for f in self.final if _log(f) == _log(r)
            }:
                yield "lost-write", r.op

    def duplicates(self) -> Iterator[Key]:
        for value, places in self.places.items():
            if value is not None and len(places) > 1 and self.sends[value]:
                yield "duplicate", value

    def inconsistent(self) -> Iterator[Key]:
        values: dict[tuple[Log, int], set[str | None]] = defaultdict(set)
        for r in [*self.acked, *self.reads]:
            values[_log(r), _offset(r)].add(r.value)
        for (log, offset), found in values.items():
            if len(found) > 1:
                yield "inconsistent-offset", log, offset, None
        for r in self.acked:
            places = self.places[r.value]
            if len(places) == 1 and (_log(r), _offset(r)) not in places:
                yield "inconsistent-offset", *next(iter(places)), r.value

    def phantoms(self) -> Iterator[Key]:
        for value, places in self.places.items():
            to = {_log(send) for send in self.sends[value]}
            unknown = {send.outcome for send in self.sends[value]} == {"info"} and len(places) == 1
            if not to or (unknown and next(iter(places))[0] not in to):
                yield from (("phantom-value", value, *place) for place in places)

    def aborted(self) -> Iterator[Key]:
        for value, places in self.places.items():
            if self.sends[value] and all(s.outcome == "fail" for s in self.sends[value]):
                yield from (("aborted-read", value, *place) for place in places)

    def vanished(self) -> Iterator[Key]:
        """Read before the final read, not acknowledged, and nowhere in its log in the end."""
        acked, final = ({(_log(r), r.value) for r in rows} for rows in (self.acked, self.final))
        for r in self.reads:
            known = {(_log(r), r.value)}
            if r not in self.final and self._was_read(_log(r), _offset(r)) and not known & acked and not known & final:
                yield "read-then-vanished", _log(r), r.offset, r.value

    def walks(self) -> Iterator[tuple[bool, Log, Record, Record]]:
        """Whether it is inside one poll or transaction, the log, where the process stood, and what it read then."""
        walks: dict[tuple[int, Log], list[Record]] = defaultdict(list)
        for r in self.reads:
            walks[r.process, _log(r)].append(r)
        for (_, log), reads in walks.items():
            reads.sort(key=lambda r: (r.invoked_ns, r.op, r.position))
            for place, after in enumerate(reads):
                if place and _unit(reads[place - 1]) == _unit(after):
                    yield True, log, reads[place - 1], after
                    continue
                stood = [r for r in reads[:place] if r.outcome == "ok"]
                if stood:
                    yield False, log, stood[-1], after

    def backwards(self) -> Iterator[Key]:
        for inside, _, before, after in self.walks():
            if _offset(after) <= _offset(before):
                yield "int-" * inside + "nonmonotonic-poll", after.op, after.offset, before.offset

    def skips(self) -> Iterator[Key]:
        for inside, log, before, after in self.walks():
            if after.phase == "final":
                continue
            between = range(_offset(before) + 1, _offset(after))
            if any(self.present(log, offset) for offset in between):
                yield "int-" * inside + "poll-skip", after.op, after.offset, before.offset

    def present(self, log: Log, offset: int) -> bool:
        known = any(_log(r) == log and r.offset == offset for r in [*self.acked, *self.reads])
        end = self.end(log)
        if end is None or not known:
            return known
        start, stop, complete = end
        if offset < start or offset >= stop:
            return False
        return offset >= complete or any(_log(r) == log and r.offset == offset for r in self.final)

    def reordered(self) -> Iterator[Key]:
        for late in self.standing:
            earlier = [
                r for r in self.standing
                if (r.client, _log(r)) == (late.client, _log(late))
                and _int(r.sequence) < _int(late.sequence)
                and _offset(r) > _offset(late)
            ]  # fmt: skip
            if earlier:
                yield "producer-reorder", late.op

    def nonlinearizable(self) -> Iterator[Key]:
        appends = [(r, _log(r), _offset(r)) for r in self.standing]
        reads = [r for r in self.reads if (_log(r), r.offset, r.value) not in self.missing]
        for value, places in self.places.items():
            for send in self.sends[value]:
                if send.outcome == "info" and len(places) == 1 and next(iter(places))[0] == _log(send):
                    log, offset = next(iter(places))
                    appends.append((send, log, offset))
        for x, log, offset in appends:
            above = [r for r in self.standing if _log(r) == log and _offset(r) > offset]
            above += [r for r in reads if _log(r) == log and _offset(r) >= offset]
            if any(y.completed_ns is not None and y.completed_ns < x.invoked_ns for y in above):
                yield "nonlinearizable-log", x.op


def _unit(record: Record) -> int:
    return record.op if record.transaction is None else record.transaction


def _log(record: Record) -> Log:
    return record.topic, record.partition


def _offset(record: Record) -> int:
    assert record.offset is not None
    return record.offset


def _int(number: int | None) -> int:
    assert number is not None
    return number
