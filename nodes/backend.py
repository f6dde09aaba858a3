"""Where nodes run: a backend makes nodes and the network between them, and leaves nothing behind.

Registered as `krash.backends` entry points. Life: `probe()` says what is missing (for `krash doctor` and before a run) -> `enclose(argv)`
wraps the command of the run's inner process (the local backend puts it into fresh namespaces, the others leave it alone) -> inside that
process `open`, `add` for each node, ..., `close`. `sweep(run)` removes whatever a killed run left, from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Protocol

from nodes.network import Network
from nodes.node import Node, NodeRequest


class Capability(StrEnum):
    """What a fault may need; a fault whose needs a backend lacks is refused before the run."""

    CUT = "cut"
    PAUSE = "pause"
    FILES = "files"  # wipe, copy, truncate
    LIMITS = "limits"  # memory and CPU limits
    CLIENTS = "clients"  # client nodes with the harness's Python
    WIRE = "wire"  # connections can be led through the wire gate (Network.intercept)


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """One line of `krash doctor`: something a backend needs, whether it is here, and the exact command that installs it."""

    name: str  # "iptables", "user namespaces", "Docker engine"
    present: bool
    found: str  # version or path, or what was seen instead
    remedy: str  # exact command; empty when present
    replaced_by: str = ""  # a setting of the spec that makes it unnecessary, e.g. "image"


@dataclass(frozen=True, kw_only=True)
class Leftover:
    run: str
    what: str  # "container krash-…-b1", "network …"


def unheard(text: str) -> None:
    """Progress that nobody follows."""


class Backend(Protocol):
    name: ClassVar[str]
    clock: str
    capabilities: ClassVar[frozenset[Capability]]
    network: Network

    @classmethod
    def probe(cls) -> list[Requirement]: ...
    @classmethod
    def enclose(cls, argv: Sequence[str]) -> list[str]:
        """The command to start instead of argv, so that argv runs where this backend can work."""
        ...

    @classmethod
    def leftovers(cls) -> list[Leftover]:
        """What runs of this backend left on the machine (their processes are dead)."""
        ...

    @classmethod
    def sweep(cls, run: str) -> list[str]:
        """Remove everything a run left; returns what was removed."""
        ...

    async def open(
        self, *, run: str, home: Path, image: str | None = None, progress: Callable[[str], None] = unheard
    ) -> None:
        """Get ready inside the run's process; node homes live below `home` where the backend uses this machine's disk.

        image: what the spec says nodes run in; NodeError where a backend has no images. progress: told what takes long.
        """
        ...

    async def add(self, request: NodeRequest) -> Node: ...
    async def close(self) -> None: ...
