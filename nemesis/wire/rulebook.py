"""The rules in force inside the gate: which of them a frame meets, in which order, and what they counted.

`Watch` never decides: every one that matches sees the frame. Of the others the first that matches decides, in the order in which
they were armed. Candidates (link, direction, api) are looked up once per connection and api and kept until a rule is armed or
disarmed; what differs from frame to frame (version, client id, fields, count, chance) is asked each time.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from nemesis.wire import apis, predicate
from nemesis.wire.frame import Frame
from nemesis.wire.gate import BadRule, Counts
from nemesis.wire.message import Direction
from nemesis.wire.rule import Close, Delay, Rewrite, Rule, Watch, check

if TYPE_CHECKING:
    from nemesis.wire.stream import Waiting


@dataclass(frozen=True, kw_only=True)
class Names:
    """Nodes whose connections come through the gate."""

    servers: frozenset[str]
    clients: frozenset[str] = frozenset()  # all client nodes
    with_clients: bool = False  # their connections are intercepted, too


@dataclass(eq=False)
class InForce:
    """An armed rule and what it did."""

    rule: Rule
    apis: frozenset[int] | None
    question: predicate.Question | None
    sources: frozenset[str]
    matched: int = 0
    released: int = 0
    dropped: int = 0
    delayed: int = 0
    duplicated: int = 0
    closed: int = 0
    rewritten: int = 0
    met: int = 0  # frames that fulfilled everything but `nth`
    holding: list[Waiting] = field(default_factory=list)
    told: int = 0  # frames told in this tick

    def __post_init__(self) -> None:
        seed = getattr(self.rule.act, "seed", 0)
        self._random = random.Random(seed)

    def counts(self) -> Counts:
        return Counts(
            matched=self.matched,
            held=len(self.holding),
            released=self.released,
            dropped=self.dropped,
            delayed=self.delayed,
            duplicated=self.duplicated,
            closed=self.closed,
            rewritten=self.rewritten,
        )

    def counts_as_json(self) -> dict[str, int]:
        return asdict(self.counts())

    def concerns(self, source: str, destination: str, direction: Direction, api: int) -> bool:
        match = self.rule.match
        return (
            match.direction is direction
            and (self.apis is None or api in self.apis)
            and source in self.sources
            and (match.destination is None or fnmatchcase(destination, match.destination))
        )

    def meets(self, frame: Frame) -> bool:
        """Everything that differs from frame to frame; counts. The frame is decoded already where `where` asks."""
        match = self.rule.match
        if match.versions is not None and not match.versions[0] <= frame.version <= match.versions[1]:
            return False
        if match.client_id is not None and not fnmatchcase(frame.client_id or "", match.client_id):
            return False
        if self.question is not None and (
            frame.decoded is None or not any(self.question(row) for row in frame.decoded.rows())
        ):
            return False
        self.met += 1
        if match.nth is not None and self.met != match.nth:
            return False
        self.matched += 1
        return True

    def delay_s(self) -> float:
        act = self.rule.act
        assert isinstance(act, Delay)
        return max(0.0, self._random.gauss(act.mean_s, act.jitter_s)) if act.jitter_s else act.mean_s

    def strikes(self) -> bool:
        """Does a Close with a chance close this time?"""
        act = self.rule.act
        assert isinstance(act, Close)
        return act.chance >= 1.0 or self._random.random() < act.chance


class Rulebook:
    def __init__(self, names: Names) -> None:
        self.names = names
        self.rules: list[InForce] = []
        self.epoch = 0  # grows whenever the rules change

    def arm(self, rule: Rule) -> InForce:
        """BadRule says what is wrong with it."""
        if self.find(rule.id) is not None:
            raise BadRule(f"rule {rule.id} is armed already; disarm it first or choose another id")
        armed = in_force(rule, self.names)
        self.rules.append(armed)
        self.epoch += 1
        return armed

    def disarm(self, id: str) -> None:
        self.rules = [one for one in self.rules if one.rule.id != id]
        self.epoch += 1

    def find(self, id: str) -> InForce | None:
        return next((one for one in self.rules if one.rule.id == id), None)

    def candidates(self, source: str, destination: str, direction: Direction, api: int) -> Sequence[InForce]:
        return tuple(one for one in self.rules if one.concerns(source, destination, direction, api))


def decide(candidates: Iterable[InForce], frame: Frame) -> tuple[InForce | None, tuple[InForce, ...]]:
    """The rule that decides about a frame, if any, and all that matched it, watchers included."""
    decider: InForce | None = None
    matched = []
    for one in candidates:
        watches = isinstance(one.rule.act, Watch)
        if (watches or decider is None) and one.meets(frame):
            matched.append(one)
            if not watches:
                decider = one
    return decider, tuple(matched)


def in_force(rule: Rule, names: Names) -> InForce:
    check(rule)
    match = rule.match
    keys = _keys(match.api)
    if isinstance(match.api, str) and keys is None:
        near = [name for name in apis.KEYS if match.api.lower() in name.lower()]
        raise BadRule(
            f"rule {rule.id}: no api {match.api!r}; {'did you mean ' + ', '.join(near) if near else 'see docs/wire.md'}"
        )
    try:
        question = predicate.parse(match.where) if match.where is not None else None
    except predicate.BadPredicate as bad:
        raise BadRule(f"rule {rule.id}: where {bad}") from None
    if isinstance(rule.act, Rewrite) and rule.act.error not in apis.ERRORS:
        raise BadRule(f"rule {rule.id}: Kafka has no error {rule.act.error!r}")
    return InForce(rule=rule, apis=keys, question=question, sources=_sources(rule, names))


def _keys(api: str | int | None) -> frozenset[int] | None:
    return apis.KEYS.get(api) if isinstance(api, str) else None if api is None else frozenset({api})


def _sources(rule: Rule, names: Names) -> frozenset[str]:
    """Nodes whose connections a rule speaks of: servers unless its source names a client."""
    match = rule.match
    everybody = ", ".join(sorted(names.servers | names.clients))
    if match.destination is not None and not any(fnmatchcase(name, match.destination) for name in names.servers):
        raise BadRule(f"rule {rule.id}: destination {match.destination!r} is no server; the nodes are {everybody}")
    if match.source is None:
        return names.servers
    found = frozenset(name for name in names.servers | names.clients if fnmatchcase(name, match.source))
    if not found:
        raise BadRule(f"rule {rule.id}: source {match.source!r} is no node; the nodes are {everybody}")
    if not names.with_clients and found <= names.clients:
        raise BadRule(
            f"rule {rule.id}: {match.source} is a client, and the connections of clients do not come through the gate in this run; "
            "say `wire_clients: true` in the spec"
        )
    return found
