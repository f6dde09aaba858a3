"""What Jepsen checks by rules of its own, without asking for an order of all operations.

    unique-ids       generate                                 an identifier was handed out twice: duplicate
    total-queue      enqueue, dequeue, drain -> [1 2 ...]     acknowledged and never out: lost; out and never in: unexpected
    counter-bounds   add, read                                a read is outside [surely added before, perhaps added by now]
    bank             read -> {account balance}, transfer      the total of a read is another one, or a balance is negative
    long-fork        read [[:r k v] ...], write [[:w k v]]    each of two reads saw a write that the other did not
    final-set, set-full                                       see `jepsen_sets`

These rules are weaker than linearizability, and some histories of a correct system break none of the stronger ones; they
are here so that a verdict can be compared with Jepsen's. Where Jepsen gives up or throws, the verdict is unknown with
the reason. Two are more general than there: decrements widen the bounds of a counter, and a group of keys (long-fork) is
whatever a read reads, so nobody has to say how large groups are.

Source: `jepsen.checker`, `jepsen.tests.bank`, `jepsen.tests.long-fork`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from harness.checker.models.bad_history import Misfit, bad_history, unknown_functions
from harness.checker.models.jepsen_sets import final_set, reads_whole_sets, set_full
from harness.checker.models.model import ABSENT, Found, Judgement, Question, verdict_of
from harness.checker.models.objects import by_key, happened, known, of_key
from harness.checker.models.rules import Unjudged, ended_at
from harness.checker.models.values import comparable, shown
from harness.history.formats.pairing import Operation, Paired
from reports.verdict import Validity
from workloads.op import Outcome

ENGINE = "jepsen-rule"
Rule = Callable[[Sequence[Operation], Question], Iterable[Found]]  # raises Misfit, Unjudged


@dataclass(frozen=True, kw_only=True)
class RuleModel:
    """Judges key by key (jepsen.independent) and adds up what it finds."""

    name: str
    functions: frozenset[str]
    rule: Rule
    looks_like: Callable[[Paired], bool]

    def fits(self, history: Paired) -> bool:
        functions = {operation.f for operation in history.operations}
        return bool(functions) and functions <= self.functions and self.looks_like(history)

    def judge(self, history: Paired, question: Question) -> Judgement:
        strange = unknown_functions(self.name, self.functions, history.operations)
        if strange is not None:
            return strange
        found: dict[str, Found] = {}
        reasons: list[str] = []
        for key, operations in by_key(history.operations):
            try:
                for one in self.rule(operations, question):
                    first = found.setdefault(one.type, replace(one, count=0, sentence=of_key(key) + one.sentence))
                    found[one.type] = replace(first, count=first.count + one.count)
            except Misfit as error:
                return bad_history(str(error), error.operation)
            except Unjudged as unjudged:
                reasons.append(of_key(key) + str(unjudged))
        verdict = verdict_of(tuple(found.values()))
        if verdict is Validity.VALID and reasons:
            return Judgement(
                verdict=Validity.UNKNOWN, engine=ENGINE, found=tuple(found.values()), reason="; ".join(reasons[:5])
            )
        return Judgement(verdict=verdict, engine=ENGINE, found=tuple(found.values()))


def unique_ids(operations: Sequence[Operation], question: Question) -> Iterable[Found]:
    handed_out: dict[Hashable, list[Operation]] = defaultdict(list)
    for operation in filter(known, operations):
        handed_out[comparable(operation.result)].append(operation)
    again = [owners for owners in handed_out.values() if len(owners) > 1]
    if again:
        worst = max(again, key=len)
        sentence = f"{shown(worst[0].result)} was handed out {len(worst)} times"
        yield Found(type="duplicate", count=len(again), sentence=sentence, ops=_indexes(worst))


def total_queue(operations: Sequence[Operation], question: Question) -> Iterable[Found]:
    """What goes in must come out. How often a value came out does not matter, as in Jepsen: `duplicated` is no violation."""
    values: dict[Hashable, Any] = {}
    tried, sure, out = (_Bag(values) for _ in range(3))
    crashed = None
    for operation in operations:
        if operation.f == "enqueue":
            tried.add(operation.value, operation)
            if known(operation):
                sure.add(operation.value, operation)
        elif known(operation):
            for value in _drained(operation) if operation.f == "drain" else (operation.result,):
                out.add(value, operation)
        elif operation.f == "drain" and operation.outcome is Outcome.INFO:
            crashed = operation
    lost = sure.counts - out.counts
    unexpected = {value: count for value, count in out.counts.items() if value not in tried.counts}
    again = Counter({value: count for value, count in out.counts.items() if value not in unexpected}) - tried.counts
    if unexpected:
        value, by = out.first(unexpected)
        sentence = f"{by.f} {by.index} returned {shown(value)}, which nobody tried to enqueue"
        yield Found(type="unexpected", count=sum(unexpected.values()), sentence=sentence, ops=(by.index,))
    if crashed is not None:
        raise Unjudged(f"drain {crashed.index} is of unknown outcome, so nobody knows what it took out")
    if lost:
        value, by = sure.first(lost)
        sentence = f"{shown(value)} was enqueued ({by.index}), and never came out"
        yield Found(type="lost", count=sum(lost.values()), sentence=sentence, ops=(by.index,))
    if again:
        value, by = out.first(again)
        sentence = f"{shown(value)} came out more often than somebody tried to enqueue it"
        yield Found(
            type="duplicated", count=sum(again.values()), sentence=sentence, ops=out.owners(value), violation=False
        )


class _Bag:
    """Values with repetitions, and whose they are."""

    def __init__(self, values: dict[Hashable, Any]) -> None:
        self.counts: Counter[Hashable] = Counter()
        self._values = values
        self._owners: dict[Hashable, list[Operation]] = defaultdict(list)

    def add(self, value: Any, owner: Operation) -> None:
        key = comparable(value)
        self._values.setdefault(key, value)
        self.counts[key] += 1
        self._owners[key].append(owner)

    def first(self, some: Mapping[Hashable, int]) -> tuple[Any, Operation]:
        key = min(some, key=lambda key: self._owners[key][0].index)
        return self._values[key], self._owners[key][0]

    def owners(self, value: Any) -> tuple[int, ...]:
        return _indexes(self._owners[comparable(value)])


def _drained(operation: Operation) -> Iterable[Any]:
    if not isinstance(operation.result, (tuple, list, set, frozenset)):
        raise Misfit(operation, "a drain returns what it took out, as a vector")
    return operation.result


def counter_bounds(operations: Sequence[Operation], question: Question) -> Iterable[Found]:
    initial = 0 if question.initial in (ABSENT, None) else _whole(operations[0], question.initial)
    adds = [operation for operation in happened(operations) if operation.f == "add"]
    grows = [operation for operation in adds if _whole(operation, operation.value) > 0]
    shrinks = [operation for operation in adds if operation.value < 0]
    done_more, done_less = _Sums(grows, ended_at), _Sums(shrinks, ended_at)
    begun_more, begun_less = _Sums(grows, _begun_at), _Sums(shrinks, _begun_at)
    wrong = []
    for read in (operation for operation in filter(known, operations) if operation.f == "read"):
        low = initial + done_more.before(read.invoked) + begun_less.up_to(ended_at(read))
        high = initial + begun_more.up_to(ended_at(read)) + done_less.before(read.invoked)
        if not low <= _whole(read, read.result) <= high:
            wrong.append((max(low - read.result, read.result - high), read, low, high))
    if wrong:
        _, read, low, high = max(wrong, key=lambda one: (one[0], -one[1].index))
        sentence = f"read {read.index} returned {read.result}; it can only have been from {low} to {high}"
        yield Found(type="out-of-bounds", count=len(wrong), sentence=sentence, ops=(read.index,))


class _Sums:
    """Of amounts, in order of time."""

    def __init__(self, adds: Sequence[Operation], when: Callable[[Operation], float]) -> None:
        ordered = sorted(adds, key=when)
        self._times = [when(operation) for operation in ordered]
        self._sums: list[int] = [0, *accumulate(operation.value for operation in ordered)]

    def before(self, time: float) -> int:
        return self._sums[bisect_left(self._times, time)]

    def up_to(self, time: float) -> int:
        return self._sums[bisect_right(self._times, time)]


def _begun_at(operation: Operation) -> float:
    return operation.invoked


def _whole(operation: Operation, value: Any) -> int:
    if type(value) is not int:
        raise Misfit(operation, "amounts are whole numbers")
    return value


def bank(operations: Sequence[Operation], question: Question) -> Iterable[Found]:
    """`initial`: the total, or balances by account. Else the first read says what the accounts are and what they hold."""
    reads = sorted((o for o in filter(known, operations) if o.f == "read"), key=ended_at)
    balances = [_balances(read) for read in reads]
    if not reads:
        raise Unjudged("no balance was ever read")
    accounts, total = _began_with(operations[0], question, balances[0])
    wrong: dict[str, list[tuple[int, Operation, str]]] = defaultdict(list)
    for read, found in zip(reads, balances, strict=True):
        strange = found.keys() - accounts
        missing = [account for account, balance in found.items() if balance is None]
        held = sum(balance for balance in found.values() if balance is not None)
        least = min((balance for balance in found.values() if balance is not None), default=0)
        if strange:
            told = f"knows of an account {shown(min(strange, key=repr))} that was not there before"
            wrong["unexpected-key"].append((len(strange), read, told))
        elif missing:
            wrong["nil-balance"].append((len(missing), read, f"found no balance in account {shown(missing[0])}"))
        elif held != total:
            wrong["wrong-total"].append((abs(held - total), read, f"adds up to {held} instead of {total}"))
        elif least < 0:
            poorest = next(account for account, balance in found.items() if balance == least)
            wrong["negative-value"].append((-least, read, f"found {least} in account {shown(poorest)}"))
    for kind, errors in wrong.items():
        _, read, told = max(errors, key=lambda error: (error[0], -error[1].index))
        yield Found(type=kind, count=len(errors), sentence=f"read {read.index} {told}", ops=(read.index,))


def _balances(read: Operation) -> dict[Hashable, int | None]:
    found = read.result
    if isinstance(found, (tuple, list)):  # as micro-operations: [[:r account balance] ...]
        found = _read_keys(read)
    if not isinstance(found, dict):
        raise Misfit(read, "a read of a bank finds balances by account")
    for balance in found.values():
        if balance is not None and type(balance) is not int:
            raise Misfit(read, "a balance is a whole number")
    return {comparable(account): balance for account, balance in found.items()}


def _began_with(
    first: Operation, question: Question, balances: dict[Hashable, int | None]
) -> tuple[frozenset[Hashable], int]:
    if question.initial in (ABSENT, None):
        return frozenset(balances), sum(balance or 0 for balance in balances.values())
    if isinstance(question.initial, dict):
        amounts = [_whole(first, amount) for amount in question.initial.values()]
        return frozenset(map(comparable, question.initial)), sum(amounts)
    return frozenset(balances), _whole(first, question.initial)


def long_fork(operations: Sequence[Operation], question: Question) -> Iterable[Found]:
    """Reads of one group of keys, each key written once, must form a chain.

    Sorted by how much they saw, a chain grows from each read to the next; where it does not, the two are a fork.
    """
    written: dict[Hashable, Operation] = {}
    for operation in operations:
        for word, key, _ in _micro(operation, operation.value):
            if word == "w" and comparable(key) in written:
                raise Unjudged(
                    f"key {shown(key)} is written twice ({written[comparable(key)].index}, {operation.index})"
                )
            if word == "w":
                written[comparable(key)] = operation
    groups: dict[frozenset[Hashable], list[tuple[dict[Hashable, Any], Operation]]] = defaultdict(list)
    for operation in filter(known, operations):
        seen = _read_keys(operation)
        if seen:
            groups[frozenset(seen)].append((seen, operation))
    forks = []
    for group, reads in groups.items():
        _one_value_each(group, reads)
        reads.sort(key=lambda read: (sum(value is not None for value in read[0].values()), read[1].index))
        forks += [pair for pair in pairwise(reads) if _forked(*pair)]
    if forks:
        (less, one), (more, other) = forks[0]
        mine = next(key for key, value in less.items() if value is not None and more[key] is None)
        theirs = next(key for key, value in more.items() if value is not None and less[key] is None)
        sentence = (
            f"read {one.index} saw the write of key {shown(mine)} but not of {shown(theirs)}, read {other.index} the "
            "other way round"
        )
        yield Found(type="long-fork", count=len(forks), sentence=sentence, ops=(one.index, other.index))


def _forked(less: tuple[dict[Hashable, Any], Operation], more: tuple[dict[Hashable, Any], Operation]) -> bool:
    return any(value is not None and more[0][key] is None for key, value in less[0].items())


def _one_value_each(group: frozenset[Hashable], reads: Sequence[tuple[dict[Hashable, Any], Operation]]) -> None:
    values: dict[Hashable, Hashable] = {}
    for seen, operation in reads:
        for key in group:
            value = seen[key]
            if value is not None and values.setdefault(key, comparable(value)) != comparable(value):
                raise Misfit(
                    operation, f"key {shown(key)} has another value than in an earlier read, but is written once"
                )


def _micro(operation: Operation, value: Any) -> list[tuple[str, Any, Any]]:
    items = value if isinstance(value, (tuple, list)) else ()
    for item in items:
        if not (isinstance(item, (tuple, list)) and len(item) == 3 and item[0] in ("r", "w")):
            raise Misfit(operation, f"its parts are [:r key value] and [:w key value], not {shown(item)}")
    return [(item[0], item[1], item[2]) for item in items]


def _read_keys(operation: Operation) -> dict[Hashable, Any]:
    return {comparable(key): value for word, key, value in _micro(operation, operation.result) if word == "r"}


def _indexes(operations: Sequence[Operation]) -> tuple[int, ...]:
    return tuple(operation.index for operation in operations[:4])


def _always(history: Paired) -> bool:
    return True


def _never(history: Paired) -> bool:
    """Somebody has to ask for it: a stronger model fits the same ops."""
    return False


def _drains(history: Paired) -> bool:
    return any(operation.f == "drain" for operation in history.operations)


def _forks_can_be_seen(history: Paired) -> bool:
    """Each key is written once, by a write of its own; reads are of several keys."""
    written: list[Hashable] = []
    for operation in history.operations:
        parts = operation.value
        if (
            not isinstance(parts, (tuple, list))
            or not parts
            or not all(isinstance(part, (tuple, list)) for part in parts)
        ):
            return False
        functions = [part[0] if part else None for part in parts]
        if functions == ["w"] and len(parts[0]) == 3:
            written.append(comparable(parts[0][1]))
        elif len(parts) == 1 or set(functions) != {"r"}:
            return False
    return len(set(written)) == len(written)


UNIQUE_IDS = RuleModel(name="unique-ids", functions=frozenset({"generate"}), rule=unique_ids, looks_like=_always)
TOTAL_QUEUE = RuleModel(
    name="total-queue", functions=frozenset({"enqueue", "dequeue", "drain"}), rule=total_queue, looks_like=_drains
)
COUNTER_BOUNDS = RuleModel(
    name="counter-bounds", functions=frozenset({"add", "read"}), rule=counter_bounds, looks_like=_never
)
BANK = RuleModel(
    name="bank",
    functions=frozenset({"read", "transfer"}),
    rule=bank,
    looks_like=lambda history: any(operation.f == "transfer" for operation in history.operations),
)
LONG_FORK = RuleModel(
    name="long-fork", functions=frozenset({"read", "write", "txn"}), rule=long_fork, looks_like=_forks_can_be_seen
)
FINAL_SET = RuleModel(name="final-set", functions=frozenset({"add", "read"}), rule=final_set, looks_like=_never)
SET_FULL = RuleModel(name="set-full", functions=frozenset({"add", "read"}), rule=set_full, looks_like=reads_whole_sets)
MODELS = (SET_FULL, FINAL_SET, TOTAL_QUEUE, UNIQUE_IDS, COUNTER_BOUNDS, BANK, LONG_FORK)
