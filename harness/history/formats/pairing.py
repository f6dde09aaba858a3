"""From entries to operations: each invocation with its completion, and when each took place.

    {:process 0 :type :invoke :f :write :value 1}   {:process 1 :type :invoke :f :read}
    {:process 0 :type :ok     :f :write :value 1}   {:process 1 :type :ok :f :read :value 1}

    ->  Operation(index=0, process=0, f="write", value=1, result=1, invoked=0, completed=2, outcome="ok", ...)
        Operation(index=1, process=1, f="read", value=None, result=1, invoked=1, completed=3, outcome="ok", ...)

**Order.** An op precedes another when it completed at a position smaller than the one at which the other was invoked. The
position is the place in the history: by `:index` when every entry has one, else as in the file. `:time` does not decide
the order (Jepsen reads clocks before it writes entries, so that times may run a little backwards), with one exception:
neighbours with equal times get one position, which makes them concurrent (closed intervals, as in Porcupine). A history
whose times are all equal has no clock, and its order stands.

**Unknown outcomes.** `info`, and an invocation without completion: `completed` is None, it may take effect at any later time.

**Completions only.** A history without any invocation, as in papers on transactions: an op may have begun as early as its
process had completed the one before (nothing else is known), so real time orders little, and wrongly orders nothing.

**Problems.** What cannot be is told with its place and left to the caller (`bad-history`); reading goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from harness.history.formats.event import Event, EventType
from workloads.op import Outcome


class Operation(NamedTuple):
    index: int  # type: ignore[assignment]  # of its invocation (its completion, in a history of completions only); hides tuple.index
    process: int | str | None
    f: str
    value: Any  # as invoked
    result: Any  # as completed; None: never completed, or without a value
    key: Any
    invoked: int  # positions
    completed: int | None  # None: unknown outcome
    outcome: Outcome
    error: Any
    invocation: Event | None
    completion: Event | None


class ProblemKind(StrEnum):
    DUPLICATE_INDEX = "duplicate-index"
    COMPLETION_WITHOUT_INVOCATION = "completion-without-invocation"
    OVERLAP = "overlapping-ops"  # of one process
    MISMATCH = "completion-of-another-op"
    AMBIGUOUS = "ambiguous-completion"  # of ops without a process


@dataclass(frozen=True, kw_only=True)
class Problem:
    kind: ProblemKind
    index: int  # of the entry that shows it
    place: str  # where that is in the file
    sentence: str


@dataclass(kw_only=True)
class Paired:
    operations: list[Operation] = field(default_factory=list)  # by invocation
    nemesis: list[Event] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)  # any: the verdict can only be bad-history
    independent: bool = False  # values were [key value], and were taken apart


def pair(events: Iterable[Event], *, independent: bool | None = None) -> Paired:
    """All entries of one history. `independent`: values are [key value] (jepsen.independent); None: see from the reads."""
    history = list(events)
    paired = Paired()
    ordered = _ordered(history, paired.problems)
    clients = [event for event in ordered if not is_nemesis(event.process)]
    paired.nemesis = [event for event in ordered if is_nemesis(event.process)]
    positions = _positions(ordered)
    if any(event.type == EventType.INVOKE for event in clients):
        paired.operations = _Pairing(paired.problems, positions).run(clients)
    else:
        paired.operations = _completions_only(clients, positions)
    paired.independent = _has_independent_keys(paired.operations) if independent is None else independent
    if paired.independent:
        paired.operations = [_with_key(operation) for operation in paired.operations]
    return paired


def is_nemesis(process: int | str | None) -> bool:
    return isinstance(process, str) and process.startswith("nemesis")


def _index(event: Event) -> int:
    return event.number if event.index is None else event.index


def _ordered(events: list[Event], problems: list[Problem]) -> list[Event]:
    """By index, when each has its own."""
    if _numbered_by_process(events):
        events = [event._replace(index=None) for event in events]
    seen: dict[int, Event] = {}
    for event in events:
        if event.index is None:
            continue
        if event.index in seen and not _same_op(seen[event.index], event):
            sentence = f"index {event.index} is there twice: at {seen[event.index].place} and at {event.place}"
            problems.append(_problem(ProblemKind.DUPLICATE_INDEX, event, sentence))
        seen.setdefault(event.index, event)
    if len(seen) == len(events):
        return sorted(events, key=_index)
    return events


def _numbered_by_process(events: Sequence[Event]) -> bool:
    """Some count the entries of each process for itself: 1, 2, 3 ... several times over. That orders nothing."""
    counted: dict[int | str, list[int]] = {}
    for event in events:
        if event.index is None or event.process is None:
            return False
        counted.setdefault(event.process, []).append(event.index)
    first = {numbers[0] for numbers in counted.values()}
    return (
        len(counted) > 1
        and first in ({0}, {1})
        and all(len(own) > 1 and own == [*range(own[0], own[0] + len(own))] for own in counted.values())
    )


def _same_op(first: Event, second: Event) -> bool:
    """Some number ops, not entries: an invocation and its completion share an index, which then is no order."""
    types = {first.type == EventType.INVOKE, second.type == EventType.INVOKE}
    return first.process is not None and first.process == second.process and first.f == second.f and len(types) == 2


def _positions(ordered: Sequence[Event]) -> dict[int, int]:
    """Number of an entry -> its position."""
    times = {event.time for event in ordered}
    clock = len(times) > 1
    positions: dict[int, int] = {}
    position, before = -1, None
    for event in ordered:
        if not (clock and event.time is not None and event.time == before):
            position += 1
        before = event.time
        positions[event.number] = position
    return positions


class _Pairing:
    def __init__(self, problems: list[Problem], positions: dict[int, int]) -> None:
        self._problems = problems
        self._positions = positions
        self._open: dict[int | str, Event] = {}
        self._nameless: list[Event] = []  # open ops of which nobody says whose they are
        self._completions: dict[int, Event] = {}  # number of an invocation -> its completion

    def run(self, events: Sequence[Event]) -> list[Operation]:
        for event in events:
            if event.type == EventType.INVOKE:
                self._invoked(event)
            else:
                self._completed(event)
        invocations = (event for event in events if event.type == EventType.INVOKE)
        return [self._operation(event, self._completions.get(event.number)) for event in invocations]

    def _invoked(self, event: Event) -> None:
        if event.process is None:
            self._nameless.append(event)
            return
        running = self._open.get(event.process)
        if running is not None:
            what = f"process {event.process} invokes {event.f} at {event.place} while its {running.f}, invoked at {running.place}, is open"
            self._report(ProblemKind.OVERLAP, event, f"{what}; a client that does many at once is one process per slot")
        self._open[event.process] = event

    def _completed(self, event: Event) -> None:
        invocation = self._nameless_of(event) if event.process is None else self._open.pop(event.process, None)
        who = "" if event.process is None else f" by process {event.process}"
        if invocation is None:
            sentence = f"{event.f}{who} completes at {event.place} as {event.type}, but was not invoked"
            self._report(ProblemKind.COMPLETION_WITHOUT_INVOCATION, event, sentence)
            return
        if invocation.f != event.f:
            sentence = f"{event.f}{who} completes at {event.place}, but what is open is {invocation.f}, invoked at {invocation.place}"
            self._report(ProblemKind.MISMATCH, event, sentence)
            return
        self._completions[invocation.number] = event

    def _nameless_of(self, event: Event) -> Event | None:
        """The open op with the same value, or the only one that does the same."""
        alike = [running for running in self._nameless if running.f == event.f]
        same = [running for running in alike if running.value is not None and running.value == event.value] or alike
        if len(same) > 1 and same is alike:
            sentence = f"{event.f} completes at {event.place}, but {len(same)} such ops are open and no process tells them apart"
            self._report(ProblemKind.AMBIGUOUS, event, sentence)
        if same:
            self._nameless.remove(same[0])
        return same[0] if same else None

    def _operation(self, invocation: Event, completion: Event | None) -> Operation:
        outcome = Outcome.INFO if completion is None else Outcome(completion.type)
        known = completion is not None and outcome is not Outcome.INFO
        return Operation(
            index=_index(invocation),
            process=invocation.process,
            f=invocation.f,
            value=invocation.value,
            result=None if completion is None else completion.value,
            key=invocation.key if completion is None or invocation.key is not None else completion.key,
            invoked=self._positions[invocation.number],
            completed=self._positions[completion.number] if known and completion else None,
            outcome=outcome,
            error=None if completion is None else completion.error,
            invocation=invocation,
            completion=completion,
        )

    def _report(self, kind: ProblemKind, event: Event, sentence: str) -> None:
        self._problems.append(_problem(kind, event, sentence))


def _problem(kind: ProblemKind, event: Event, sentence: str) -> Problem:
    return Problem(kind=kind, index=_index(event), place=event.place, sentence=sentence)


def _completions_only(events: Sequence[Event], positions: dict[int, int]) -> list[Operation]:
    """Two positions per entry, so that the next op of a process begins strictly after the one before."""
    latest: dict[int | str | None, int] = {}
    operations = []
    for event in events:
        position = 2 * positions[event.number] + 1
        begun = 0 if event.process is None else latest.get(event.process, -1) + 1
        latest[event.process] = position
        outcome = Outcome(event.type)
        operations.append(
            Operation(
                index=_index(event),
                process=event.process,
                f=event.f,
                value=event.value,
                result=event.value,
                key=event.key,
                invoked=begun,
                completed=None if outcome is Outcome.INFO else position,
                outcome=outcome,
                error=event.error,
                invocation=None,
                completion=event,
            )
        )
    return operations


_READS = frozenset({"read", "get"})


def _has_independent_keys(operations: Sequence[Operation]) -> bool:
    """Only jepsen.independent invokes a read with a value: the key, and nothing yet."""
    reads = [operation for operation in operations if operation.f in _READS]
    return bool(reads) and all(_is_pair(o.value) for o in operations) and all(_reads_a_key(o) for o in reads)


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2


def _reads_a_key(read: Operation) -> bool:
    """A vector that it found is [key value] too, or else what it asked for was no key."""
    key, nothing = read.value
    found = read.result
    wrapped = not isinstance(found, tuple) or (_is_pair(found) and found[0] == key)
    return nothing is None and not isinstance(key, tuple) and wrapped


def _with_key(operation: Operation) -> Operation:
    if not _is_pair(operation.value):
        return operation
    key, value = operation.value
    result = operation.result
    if _is_pair(result) and result[0] == key:
        result = result[1]
    return operation._replace(key=key, value=value, result=result)
