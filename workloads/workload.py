"""A workload: what clients do to the system, and what a run must record so that it can be judged.

Registered as `krash.workloads` entry points. A workload runs in client processes of its own, one operating-system
process per client node, each with as many logical processes (threads, slots in flight) as its settings ask. The harness
starts `python -m harness.client` in a client node; that builds a recorder and a random stream, and calls `run`. `drain`
is called the same way, in a fresh client process, after everything was healed.

Nothing here knows nodes, faults or files: a recorder, random streams and a stop event are passed in.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

from workloads.group import GroupProtocol
from workloads.op import OpKind, Outcome, Phase


class Reads(NamedTuple):
    """What one poll returned, as columns of equal length, in the order in which the client handed the records out."""

    topics: Sequence[str]
    partitions: Sequence[int]
    offsets: Sequence[int]
    values: Sequence[str | None]
    leader_epochs: Sequence[int | None]
    timestamps_ms: Sequence[int | None]


class Positions(NamedTuple):
    """What one op of a group says: columns of equal length, as in group.py."""

    group: str
    protocol: GroupProtocol | None
    member: str | None
    generation: int | None
    topics: Sequence[str]
    partitions: Sequence[int]
    offsets: Sequence[int | None]


class Recorder(Protocol):
    """Where ops go. `invoke` and `invoke_sends` return only when the invocations are in the kernel's hands (written,
    not buffered); completions and read records may be buffered for at most 100 ms. Thread-safe. Everything that comes
    in thousands comes as columns: a call per record would cost more than the send itself.

    A transaction is recorded in the order in which it happens, each op completed with what the client was told:

        transaction = recorder.invoke(client=c, kind=OpKind.BEGIN, phase=phase, process=p)
        ops = recorder.invoke_sends(client=c, ..., transaction=transaction)
        end = recorder.invoke(client=c, kind=OpKind.COMMIT, phase=phase, process=p, transaction=transaction)   # or ABORT

    `client` names one Kafka client instance (its `client.id`, such as "w1.p0": node w1, producer 0), because the order
    of `sequence` means something within one producer only.
    """

    def now_ns(self) -> int: ...
    def new_process(self) -> int:
        """A process number never used before in this run."""
        ...

    def invoke_sends(
        self,
        *,
        client: str,
        phase: Phase,
        topics: Sequence[str],
        partitions: Sequence[int],
        processes: Sequence[int],
        sequences: Sequence[int],
        values: Sequence[str],
        transaction: int | None = None,
    ) -> range:
        """Write a batch of sends as invoked now; returns their op ids. `transaction`: the op id of their begin."""
        ...

    def complete_sends(
        self,
        *,
        ops: Sequence[int],
        outcomes: Sequence[Outcome],
        errors: Sequence[str | None],
        offsets: Sequence[int | None],
        timestamps_ms: Sequence[int | None],
        leader_epochs: Sequence[int | None] | None = None,
        brokers: Sequence[int | None] | None = None,
    ) -> None:
        """Sends that completed just now, in any order, of any earlier batches; None for a whole column: the client does
        not tell."""
        ...

    def invoke(
        self,
        *,
        client: str,
        kind: OpKind,
        phase: Phase,
        process: int,
        topic: str | None = None,
        partition: int | None = None,
        transaction: int | None = None,
    ) -> int:
        """Write one op as invoked now; returns its id. `transaction`: of a commit, an abort, or a commit of offsets in a
        transaction, the op id of its begin."""
        ...

    def complete(
        self,
        op: int,
        outcome: Outcome,
        *,
        error: str | None = None,
        broker: int | None = None,
        reads: Reads | None = None,
    ) -> None: ...

    def bounds(
        self,
        op: int,
        *,
        phase: Phase,
        topic: str,
        partition: int,
        log_start: int | None,
        log_end: int | None,
        read_to: int | None,
        error: str | None,
        stable_end: int | None = None,
    ) -> None: ...

    def positions(self, op: int, found: Positions) -> None:
        """What an op of a consumer group said of partitions (group.py), in the kernel's hands when this returns. Of an op
        that was invoked here and has not completed: of a commit, before it is sent."""
        ...

    def flush(self) -> None:
        """Everything recorded so far is in the kernel's hands when this returns."""
        ...


@dataclass(frozen=True, kw_only=True)
class TopicFacts:
    name: str
    partitions: int


@dataclass(frozen=True, kw_only=True)
class ClientContext:
    """Everything a client process gets. `settings` are the workload's own (validated by its `Settings` model)."""

    client: str  # name of the client node, "w1"
    index: int  # 0-based among `clients`
    clients: int
    bootstrap: str
    topics: tuple[TopicFacts, ...]
    settings: Mapping[str, Any]
    rate: float | None  # records per second over all clients; None: as fast as it goes
    recorder: Recorder
    stream: Callable[[str, int], random.Random]  # substream (actor, index) -> recorded random source
    stop: threading.Event  # set: finish what is in flight, then return
    progress: Callable[
        [Mapping[str, int]], None
    ]  # {"attempted": .., "acknowledged": .., "failed": .., "unknown": .., "read": ..}; at most 2/s


class Workload(Protocol):
    name: ClassVar[str]
    Settings: ClassVar[type]  # a pydantic model: every setting with its default and description

    def run(self, context: ClientContext) -> None: ...
    def drain(self, context: ClientContext, deadline_s: float) -> None:
        """The final read, in every client (fresh processes): each reads its share of the partitions, as `index` of
        `clients` says."""
        ...
