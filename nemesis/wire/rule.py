"""Wire rules as data: which frames, and what the gate does with them.

    Rule(id="stale", match=Match(source="b1", api="AlterPartition", where="newIsr contains 2"), act=Hold())
    Rule(id="slow", match=Match(source="b*", api="Fetch", direction=Direction.RESPONSE), act=Delay(mean_s=0.05))

`match` narrows step by step: what is None matches everything. `source` and `destination` are those of the connection's
opener and its peer, so a rule on the link b1 -> c1 sees b1's requests and c1's responses to them; names may hold `*`.
Frames between servers only, unless a rule names a client node.

TCP keeps order, so a held frame holds everything behind it on its connection and direction, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from nemesis.wire.message import Direction


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
    """Nothing is done: frames are decoded, counted and told, for triggers."""


@dataclass(frozen=True, kw_only=True)
class Hold:
    first: int | None = None  # hold only the first n that match, pass the rest; None: all


@dataclass(frozen=True, kw_only=True)
class Drop:
    """A request vanishes (its caller waits); a response closes its connection: a caller could not go on behind a gap."""


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
