"""What Jepsen asks of writes that follow each other: whoever sees the later one sees the earlier one.

    comments      write 3, read -> #{1 3}         a read that has 3 has every write that was acknowledged before 3 was invoked
    sequential    read -> [7 ["7_2" "7_1" nil]]   a client writes (or adds) the parts of 7 in order, 7_0 first; a read asks for
                                                  the last first, so behind a part that was there (7_1) none may be missing (7_0)

Both are necessary for strict serializability (comments) and sequential consistency, and enough for neither; they have to be
named, since their ops look like those of a register. A read of `sequential` may come with its key or without.

Source: `comments` and `sequential` of jepsen.cockroach, which elle-cli offers under these names. There a value that nobody
wrote is passed over; here it is `phantom-value`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from harness.checker.models.bad_history import Misfit
from harness.checker.models.jepsen_rules import RuleModel
from harness.checker.models.model import Found, Question
from harness.checker.models.objects import known
from harness.checker.models.rules import Unjudged
from harness.checker.models.values import comparable, shown
from harness.history.formats.pairing import Operation, Paired

_COLLECTIONS = (tuple, list, set, frozenset)


def comments(operations: Sequence[Operation], question: Question) -> Iterable[Found]:
    """What must be there is decided by the write among those seen that was invoked last."""
    writes: dict[Hashable, Operation] = {}
    for operation in operations:
        if operation.f == "write" and writes.setdefault(comparable(operation.value), operation) is not operation:
            raise Unjudged(f"{shown(operation.value)} is written twice")
    acknowledged = sorted((_completed(one), name) for name, one in writes.items() if known(one))
    times = [completed for completed, _ in acknowledged]
    reversals: list[tuple[Operation, Operation, Operation, int]] = []
    phantoms: list[tuple[Operation, Any]] = []
    for read in (one for one in operations if one.f == "read" and known(one) and one.result is not None):
        seen = {comparable(value): value for value in _elements(read)}
        phantoms += [(read, value) for name, value in seen.items() if name not in writes]
        last = max((writes[name] for name in seen if name in writes), key=lambda one: one.invoked, default=None)
        if last is None:
            continue
        due = [name for _, name in acknowledged[: bisect_left(times, last.invoked)]]
        missing = [name for name in due if name not in seen]
        if missing:
            reversals.append((read, writes[missing[0]], last, len(missing)))
    if phantoms:
        read, value = phantoms[0]
        sentence = f"read {read.index} has {shown(value)}, which nobody wrote"
        yield Found(type="phantom-value", count=len(phantoms), sentence=sentence, ops=(read.index,))
    if reversals:
        read, earlier, later, _ = max(reversals, key=lambda one: (one[3], -one[0].index))
        sentence = (
            f"read {read.index} has {shown(later.value)} but not {shown(earlier.value)}, whose write ({earlier.index}) had been "
            f"acknowledged before that of {shown(later.value)} ({later.index}) was invoked"
        )
        ops = (read.index, earlier.index, later.index)
        yield Found(type="causal-reverse", count=len(reversals), sentence=sentence, ops=ops)


def sequential(operations: Sequence[Operation], question: Question) -> Iterable[Found]:
    wrong: list[tuple[Operation, Any]] = []
    for read in (one for one in operations if one.f == "read" and known(one) and one.result is not None):
        parts = _parts(read)
        there = next((place for place, part in enumerate(parts) if part is not None), len(parts))
        if None in parts[there:]:
            wrong.append((read, parts[there]))
    if wrong:
        read, part = wrong[0]
        sentence = f"read {read.index} has {shown(part)}, but not all of what its client had written before that"
        yield Found(type="causal-reverse", count=len(wrong), sentence=sentence, ops=(read.index,))


def _completed(operation: Operation) -> int:
    assert operation.completed is not None
    return operation.completed


def _elements(read: Operation) -> Iterable[Any]:
    if not isinstance(read.result, _COLLECTIONS):
        raise Misfit(read, "a read of comments returns all that it sees")
    return read.result


def _parts(read: Operation) -> Sequence[Any]:
    result = read.result
    if isinstance(result, (tuple, list)) and len(result) == 2 and isinstance(result[1], (tuple, list)):
        result = result[1]
    if not isinstance(result, (tuple, list)):
        raise Misfit(read, "a sequential read returns the parts of a key, the last one first")
    return result


def _never(history: Paired) -> bool:
    """Somebody has to ask for it: the ops are those of a register."""
    return False


_FUNCTIONS = frozenset({"read", "write"})
COMMENTS = RuleModel(name="comments", functions=_FUNCTIONS, rule=comments, looks_like=_never)
SEQUENTIAL = RuleModel(name="sequential", functions=_FUNCTIONS | {"add"}, rule=sequential, looks_like=_never)
