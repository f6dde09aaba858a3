"""The pure cores without time: an adversary picks each next step, so that what a clock makes rare is common here.

Any message may be delivered next, or lost; any timer may fire (each node has a clock of its own that only its timers move); any node may crash, before
or after the disk has what its last step wanted to keep. A step is a pair of numbers, so a walk can come from a seed or from Hypothesis:

    world = Lockstep((1, 2, 3))
    world.step("wake", 0)                   # node 1 stands for election
    world.step("deliver", 3)                # some message arrives
    world.invariants.violations             # [] or sentences
    walk(seed=7, steps=300)                 # the same with a seed
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from nodes.reference.environment import MILLISECOND
from nodes.reference.protections import ALL_ON, Protections
from nodes.reference.raft.core import Raft
from nodes.reference.raft.events import (
    Answered,
    Append,
    Asked,
    BrokenInvariant,
    Effect,
    ElectionState,
    Event,
    Flushed,
    NotLeader,
    Persist,
    Proposed,
    Respond,
    Send,
    SnapshotTaken,
    StoreSnapshot,
    Truncate,
    Unanswered,
    Woken,
)
from nodes.reference.raft.log import Batch, LogConflict, MetadataLog, OffsetAndEpoch, Snapshot, Voters
from nodes.reference.raft.messages import Request, Response
from nodes.reference.raft.roles import Leader, RaftConfig
from nodes.reference.simulation.invariants import Invariants, Seen

ACTIONS: Final = ("deliver", "wake", "append", "drop", "crash", "crash-unsaved", "snapshot")
_WEIGHTS: Final = (100, 12, 6, 3, 2, 1, 1)


@dataclass
class Disk:
    """All that a crash leaves."""

    election: ElectionState = ElectionState()
    batches: list[Batch] = field(default_factory=list)
    snapshot: Snapshot | None = None

    def recover(self, voters: Voters) -> MetadataLog:
        log = MetadataLog(voters)
        if self.snapshot is not None:
            log.begin_at(self.snapshot)
        for batch in self.batches:
            log.append(batch)
        return log

    def carry_out(self, effect: Effect) -> None:
        match effect:
            case Persist(state):
                self.election = state
            case Append(batch):
                self.batches.append(batch)
            case Truncate(end_offset):
                self.batches = [batch for batch in self.batches if batch.next_offset <= end_offset]
            case StoreSnapshot(snapshot, whole):
                self.snapshot = snapshot
                kept = [] if whole else [batch for batch in self.batches if batch.base_offset >= snapshot.id.offset]
                self.batches = kept


@dataclass
class Node:
    raft: Raft
    disk: Disk
    seen: Seen
    now: int = 0
    life: int = 0  # of how many


class Message(NamedTuple):
    """A request, or with `response` the answer to it; both die with the asker."""

    asker: int
    life: int
    peer: int
    request: Request
    response: Response | None = None


class Lockstep:
    def __init__(self, voters: Sequence[int], observers: Sequence[int] = (), protections: Protections = ALL_ON) -> None:
        self.voters = Voters(tuple(voters))
        self.invariants = Invariants()
        self.messages: list[Message] = []
        self._protections = protections
        self._config = RaftConfig(cluster_id="lockstep", voters=self.voters, fetch_max_bytes=1, snapshot_max_bytes=60)
        self._asked: dict[int, Message] = {}
        self._tokens = 0
        self._appended = 0
        self.nodes: dict[int, Node] = {}
        for node_id in (*voters, *observers):
            self._start(node_id, Disk(), 0)

    def step(self, action: str, choice: int) -> None:
        """`choice` picks the message or the node, modulo how many there are."""
        try:
            if action in ("deliver", "drop"):
                if self.messages:
                    message = self.messages.pop(choice % len(self.messages))
                    self._deliver(message) if action == "deliver" else self._drop(message)
                return
            node_id = sorted(self.nodes)[choice % len(self.nodes)]
            self._disturb(action, node_id)
        except (BrokenInvariant, LogConflict) as broken:
            self.invariants.violations.append(f"a node stops: {broken!r}")

    def _disturb(self, action: str, node_id: int) -> None:
        node = self.nodes[node_id]
        match action:
            case "wake":
                node.now = max(node.now, node.raft.deadline())
                self._handle(node_id, Woken())
            case "append" if isinstance(node.raft.role, Leader):
                self._appended += 1
                self._handle(node_id, Proposed(node.raft.epoch, (b"%d" % self._appended,), 0))
            case "snapshot":
                log, offset = node.raft.log, node.raft.high_watermark
                if offset > log.start_offset:
                    taken = OffsetAndEpoch(offset, log.epoch_before(offset))
                    self._handle(node_id, SnapshotTaken(Snapshot(taken, log.voters_before(offset), ())))
            case "crash":
                self._start(node_id, node.disk, node.life + 1)
            case "crash-unsaved":
                node.now = max(node.now, node.raft.deadline())
                node.raft.handle(node.now, Woken())  # what it wants done is not done
                self._start(node_id, node.disk, node.life + 1)

    def _start(self, node_id: int, disk: Disk, life: int) -> None:
        log = disk.recover(self.voters)
        raft = Raft(node_id, self._config, self._protections, Random(node_id * 1000 + life), log, disk.election)
        now = self.nodes[node_id].now if node_id in self.nodes else 0
        self.nodes[node_id] = Node(raft, disk, self.invariants.started(raft), now, life)
        self._carry_out(node_id, raft.start(now))

    def _handle(self, node_id: int, event: Event) -> None:
        node = self.nodes[node_id]
        try:
            effects = node.raft.handle(node.now, event)
        except NotLeader:
            return
        self.invariants.check(node.raft, node.seen, node.now)
        self._carry_out(node_id, effects)

    def _carry_out(self, node_id: int, effects: list[Effect]) -> None:
        node = self.nodes[node_id]
        for effect in effects:
            node.disk.carry_out(effect)
        for effect in effects:
            if isinstance(effect, Send):
                self.messages.append(Message(node_id, node.life, effect.peer, effect.request))
            elif isinstance(effect, Respond) and effect.token in self._asked:
                self.messages.append(self._asked.pop(effect.token)._replace(response=effect.response))
        appended = [effect for effect in effects if isinstance(effect, Append)]
        if appended:
            self._handle(node_id, Flushed(appended[-1].batch.next_offset))

    def _deliver(self, message: Message) -> None:
        if message.response is not None:
            if self.nodes[message.asker].life == message.life:
                self._handle(message.asker, Answered(message.peer, message.request, message.response))
            return
        self._tokens += 1
        self._asked[self._tokens] = message
        peer = self.nodes[message.peer]
        peer.now += MILLISECOND // 10
        self._handle(message.peer, Asked(self._tokens, message.request))

    def _drop(self, message: Message) -> None:
        if self.nodes[message.asker].life == message.life:
            self._handle(message.asker, Unanswered(message.peer, message.request))


def walk(seed: int, steps: int, *, protections: Protections = ALL_ON, observers: Sequence[int] = ()) -> Lockstep:
    """A random walk; ends at the first violation."""
    random = Random(seed)
    world = Lockstep((1, 2, 3), observers, protections)
    for action in random.choices(ACTIONS, _WEIGHTS, k=steps):
        world.step(action, random.randrange(1 << 16))
        if world.invariants.violations:
            break
    return world
