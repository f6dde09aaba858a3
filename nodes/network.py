"""Links between nodes, and what is wrong with them, as data. A backend compares what is there with what is wanted.

A `Cut` is installed at one node and stops packets that come from the named peers; cutting a link both ways takes two. Packet-level: a
one-way cut lets packets pass the other way, although TCP soon notices that its acknowledgements are missing. DROP is silence (peers run
into timeouts), RESET answers TCP with RST (peers fail fast). Rules live in a chain of their own that carries the run's name, each with its
cut's id as a comment, so that healing never touches anybody else's rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Action(StrEnum):
    DROP = "drop"
    RESET = "reset"


@dataclass(frozen=True, kw_only=True)
class Cut:
    id: str  # [A-Za-z0-9._-]{1,40}, unique among the active ones of a node
    at: str  # node where the rule is
    sources: tuple[str, ...]  # nodes whose packets are stopped there
    action: Action = Action.DROP
    established_only: bool = False  # stop what was connected before, let new connections in (half-open connections)


@dataclass(frozen=True, kw_only=True)
class Counter:
    id: str
    at: str
    source: str
    packets: int


class Network(Protocol):
    async def cut(self, cuts: Sequence[Cut]) -> None:
        """Install, all or none; an id that is there already is an error."""
        ...

    async def heal(self, ids: Sequence[str] | None = None) -> None:
        """Remove the cuts with these ids everywhere (None: every cut of the run). Removing what is not there is fine."""
        ...

    async def counters(self) -> list[Counter]:
        """What the active rules stopped so far."""
        ...

    async def reaches(self, source: str, destination: str) -> bool:
        """Does a datagram sent at `source` arrive at `destination`? One way only, answered within a second."""
        ...

    async def intercept(self, at: str, to: Mapping[str, Sequence[int]], *, port: int, mark: int) -> None:
        """Lead new TCP connections that node `at` opens to these nodes' ports (name -> ports) to `port` of `at` itself.

        Except those of sockets with SO_MARK `mark`. Whoever listens there learns the destination by SO_ORIGINAL_DST.
        Connections that exist are not touched, so call it before the node's process starts. NodeError where a backend
        lacks Capability.WIRE.
        """
        ...

    def namespace(self, of: str) -> int:
        """A descriptor of a node's network namespace, for the wire gate to listen and dial in. NodeError without Capability.WIRE."""
        ...
