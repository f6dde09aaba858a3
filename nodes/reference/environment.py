"""What a node of the reference cluster is given instead of reaching for it: clock, network, disk, randomness.

The cluster runs in two worlds with the same code: for real (one process per node, real Kafka clients), and simulated (all nodes in one
thread, time is a number, and a seed decides delays, losses and crashes). So nothing in `nodes/reference` asks the operating system for
anything except through an `Environment`; a test walks the imports and proves it.

Three layers, and what each may know:

    pure cores   raft/core.py, partition/, controller        events in, effects out. No asyncio, no environment: time is an argument
    shells       raft/replica.py, broker, server             asyncio coroutines that carry effects out through an Environment
    environments process/ (the real world) | simulation/     implement the protocols below

Shells are coroutines in both worlds: the simulation is an asyncio event loop whose time is simulated. They wait with `clock.sleep_until`
and `Clock.call_at`, not with `asyncio.sleep`, because nodes may have clocks that drift apart. A simulated kill -9 drops a node's
callbacks; its `finally` blocks never run, as in a real one.

**The network carries messages, not bytes**: immutable objects, kio's entities or those of `raft/messages.py`. Where bytes begin (framing,
junk, unknown versions) is the business of the real network and is tested there; encoding every message of a simulated cluster would cost
more than everything else it does. Requests of one connection arrive, are served and are answered in order, as Kafka does it; connections
know nothing of each other.

    connection = await environment.network.connect(Address("10.0.0.2", 9093), client_id="controller-1")
    response = await connection.ask(VoteRequest(...), deadline=environment.clock.now() + 2 * SECOND)

**The disk tells what was written from what is safe**: `append` reaches the page cache, `sync` the medium. A crash of the machine loses
what was not synced, in whole or in part (a torn write); a crash of the process alone loses nothing that was appended. Calls are plain, so
that a log is a plain object; a shell that must not stall for a slow medium awaits `sync_aside()` instead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple, Protocol

MILLISECOND: Final = 1_000_000  # in ns, as all times are
SECOND: Final = 1_000 * MILLISECOND


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """Monotonic time of one node. Another node's may run faster or slower, and started elsewhere."""

    def now(self) -> int:
        """Nanoseconds since some moment before the node started."""
        ...

    def wall(self) -> int:
        """Milliseconds since 1970, for timestamps of records; nothing is decided by it."""
        ...

    def call_at(self, when: int, callback: Callable[[], None]) -> Timer:
        """Once, at or after `when`."""
        ...

    async def sleep_until(self, when: int) -> None: ...


class Address(NamedTuple):
    host: str
    port: int


class Disconnected(Exception):
    """Refused, closed, or no answer before the deadline: whether the request was carried out is unknown."""


class Refused(Exception):
    """What a serving end raises at a request that gets no answer: the connection is closed. The message is for the log."""


class Connection(Protocol):
    """The asking end."""

    async def ask(self, request: object, *, deadline: int) -> object:
        """The response. Disconnected when there is none at the deadline (ns, own clock); the connection is closed then."""
        ...

    def tell(self, request: object) -> None:
        """A request without a response (Produce with acks=0). Disconnected if it is known to be closed."""
        ...

    @property
    def closed(self) -> bool: ...

    def close(self) -> None: ...


class Caller(NamedTuple):
    """Who asks, as the serving end sees it: one value per connection."""

    host: str
    client_id: str
    connection: int  # unique at the serving node


Serve = Callable[[Caller, object], Awaitable[object | None]]  # None: this request gets no response. Refused


class Listening(Protocol):
    @property
    def address(self) -> Address:
        """The port that was given where 0 was asked for."""
        ...

    def close(self) -> None:
        """No new connections, and those that are open end."""
        ...


class Network(Protocol):
    async def connect(self, address: Address, *, client_id: str, deadline: int) -> Connection:
        """Disconnected if nobody listens there or nobody answers before the deadline."""
        ...

    async def listen(self, address: Address, serve: Serve) -> Listening:
        """OSError if the address is taken."""
        ...


class File(Protocol):
    """A file that grows at its end. OSError when the disk is full or fails; then nothing more may be acknowledged."""

    def size(self) -> int: ...

    def append(self, content: bytes | bytearray) -> None: ...

    def read(self, position: int, size: int) -> bytes:
        """Fewer bytes than asked for only where the file ends."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """What was appended or truncated before, and the file's name, survive a crash of the machine."""
        ...

    async def sync_aside(self) -> None:
        """`sync` while other coroutines of the node go on."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """The data directory of one node. Paths are relative, with slashes."""

    def open(self, path: str) -> File:
        """Created empty if it is missing."""
        ...

    def read(self, path: str) -> bytes | None:
        """The whole content; None if it is missing."""
        ...

    def replace(self, path: str, content: bytes, *, sync: bool = True) -> None:
        """The whole content at once (.part, sync, rename): after a crash of the machine there is the old or the new one. Durable on return.

        sync: False where the content can be learnt anew, or a switched-off protection asks for it; then a crash of the machine may undo
        it or leave nothing in it.
        """
        ...

    def rename(self, source: str, target: str) -> None:
        """`target` becomes this file at once. Durable on return; what `source` held only if it was synced."""
        ...

    def list(self, directory: str) -> list[str]:
        """Names, sorted; empty if it is missing."""
        ...

    def make_directory(self, path: str) -> None:
        """With its parents; no error if it exists."""
        ...

    def remove(self, path: str) -> None:
        """Durable on return; no error if it is missing."""
        ...


@dataclass(frozen=True, slots=True)
class Environment:
    clock: Clock
    network: Network
    disk: Disk
    random: Random
