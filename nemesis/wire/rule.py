"""Wire rules as data: which frames, and what the gate does with them.

    Rule(id="stale", match=Match(source="b1", api="AlterPartition", where="newIsr contains 2"), act=Hold())
    Rule(id="slow", match=Match(source="b*", api="Fetch", direction=Direction.RESPONSE), act=Delay(mean_s=0.05))

`match` narrows step by step: what is None matches everything. `source` and `destination` are those of the connection's
opener and its peer, so a rule on the link b1 -> c1 sees b1's requests and c1's responses to them; names may hold `*`.
Frames between servers only, unless `source` names a client node ("w1", "w*", "*").

TCP keeps order, so a held frame holds everything behind it on its connection and direction, and nothing else.

On its way to the gate process (`as_json`): {"id": "stale", "match": {"source": "b1", ...}, "act": {"kind": "Hold", "first": null}}.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from nemesis.wire.message import Direction

_ID = re.compile(r"[A-Za-z0-9._-]{1,40}")


class BadRule(ValueError):
    """A rule that cannot work: an unknown api, a predicate that does not parse, an id that is armed already."""


@dataclass(frozen=True, kw_only=True)
class Match:
    source: str | None = None  # node that opened the connection, or a pattern: "b*"
    destination: str | None = None
    direction: Direction = Direction.REQUEST
    api: str | int | None = None  # "AlterPartition" or 56
    versions: tuple[int, int] | None = None  # lowest and highest, inclusive
    client_id: str | None = None  # pattern: "broker-2-fetcher-*"
    where: str | None = None  # predicate on decoded fields: "newIsr contains 2", "leaderEpoch >= 3 and topic = t"
    nth: int | None = None  # only the nth frame that matches everything else, from 1


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Nothing is done: frames are decoded, counted and told, for triggers. It never decides: other rules still may."""


@dataclass(frozen=True, kw_only=True)
class Hold:
    first: int | None = None  # hold only the first n that match, pass the rest; None: all


@dataclass(frozen=True, kw_only=True)
class Drop:
    """A request vanishes: its caller waits, and gets no answer behind the gap either until it connects again, because a
    server answers in order. Disarming resets the connections that have such a gap, as a caller's own timeout would later.
    A response closes its connection: a caller could not go on.
    """


@dataclass(frozen=True, kw_only=True)
class Delay:
    mean_s: float
    jitter_s: float = 0.0  # standard deviation of a normal distribution, cut off at 0; drawn from `seed`
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Duplicate:
    """Send a request twice; its caller still gets one response."""


@dataclass(frozen=True, kw_only=True)
class Close:
    when: Literal["before", "after"] = "before"  # before: the frame is lost with the connection
    chance: float = 1.0  # lossy connections: close at random, drawn from `seed`
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Rewrite:
    error: str  # Kafka's name of the error to put into a response, e.g. NOT_CONTROLLER


Act = Watch | Hold | Drop | Delay | Duplicate | Close | Rewrite


@dataclass(frozen=True, kw_only=True)
class Rule:
    id: str  # [A-Za-z0-9._-]{1,40}, unique among the armed ones
    match: Match = field(default_factory=Match)
    act: Act


_ACTS: dict[str, type[Act]] = {kind.__name__: kind for kind in (Watch, Hold, Drop, Delay, Duplicate, Close, Rewrite)}


def as_json(rule: Rule) -> dict[str, Any]:
    return {"id": rule.id, "match": asdict(rule.match), "act": {"kind": type(rule.act).__name__, **asdict(rule.act)}}


def from_json(data: dict[str, Any]) -> Rule:
    match, act = dict(data["match"]), dict(data["act"])
    match["direction"] = Direction(match["direction"])
    match["versions"] = tuple(match["versions"]) if match["versions"] is not None else None
    return Rule(id=data["id"], match=Match(**match), act=_ACTS[act.pop("kind")](**act))


def check(rule: Rule) -> None:
    """BadRule for what makes no sense whatever the nodes and the names of Kafka's APIs are."""
    if wrong := next(_wrong(rule), None):
        raise BadRule(f"rule {rule.id}: {wrong}")


def _wrong(rule: Rule) -> Iterator[str]:
    match, act = rule.match, rule.act
    if not _ID.fullmatch(rule.id):
        yield "its id must be 1-40 letters, digits, '.', '_' or '-'"
    if match.nth is not None and match.nth < 1:
        yield f"nth is {match.nth}; it counts from 1"
    if match.versions is not None and match.versions[0] > match.versions[1]:
        yield f"versions are {match.versions}: lowest first"
    if isinstance(act, Duplicate) and match.direction is not Direction.REQUEST:
        yield "only requests can be duplicated"
    if isinstance(act, Rewrite) and match.direction is not Direction.RESPONSE:
        yield "only responses carry an error to rewrite: match direction response"
    if isinstance(act, Hold) and act.first is not None and act.first < 1:
        yield f"cannot hold the first {act.first}"
    if isinstance(act, Delay) and (act.mean_s < 0 or act.jitter_s < 0):
        yield "a delay is not negative"
    if isinstance(act, Close) and not 0 <= act.chance <= 1:
        yield f"chance is {act.chance}; expected 0 to 1"
