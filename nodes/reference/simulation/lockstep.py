"""The pure cores without time: an adversary picks each next step, so that what a clock makes rare is common here.

Any message may be delivered next, or lost; any timer may fire (each node has a clock of its own, which its timers move); any node may
crash, or lose power with a write half done. What is on the disks is kept by the real storage, only without waiting. A step is an action
and a number, so a walk can come from a seed or from Hypothesis:

    world = Lockstep((1, 2, 3))
    world.step("wake", 0)                   # node 1 stands for election
    world.step("deliver", 3)                # some message arrives
    world.invariants.violations             # [] or sentences
    walk(seed=7, steps=300)                 # the same with a seed
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple

from nodes.reference.environment import MILLISECOND
from nodes.reference.protections import ALL_ON, Protections
from nodes.reference.raft.core import Raft
from nodes.reference.raft.events import (
    DURABLE,
    Answered,
    Append,
    Asked,
    BrokenInvariant,
    Effect,
    Event,
    Flushed,
    NotLeader,
    Proposed,
    Respond,
    Send,
    SnapshotTaken,
    Unanswered,
    Woken,
)
from nodes.reference.raft.log import LogConflict, OffsetAndEpoch, Snapshot, Voters
from nodes.reference.raft.messages import Request, Response
from nodes.reference.raft.roles import Leader, RaftConfig
from nodes.reference.raft.storage import Storage
from nodes.reference.simulation.disk import MountedDisk, SimulatedDisk
from nodes.reference.simulation.invariants import Invariants, Seen
from nodes.reference.simulation.loop import Process, simulated_loop
from nodes.reference.simulation.world import SimulatedClock

ACTIONS: Final = ("deliver", "wake", "append", "drop", "crash", "power-loss", "torn-write", "snapshot")
_WEIGHTS: Final = (100, 14, 6, 3, 2, 2, 1, 1)
_NO_CLOCK: Final = SimulatedClock(simulated_loop(), Process("nobody"), 0)


@dataclass
class Node:
    raft: Raft
    storage: Storage
    disk: SimulatedDisk
    seen: Seen
    now: int = 0
    life: int = 0  # of how many


class PromptDisk(MountedDisk):
    async def wait(self) -> None:
        """Takes no time."""


def prompt(disk: SimulatedDisk) -> PromptDisk:
    return PromptDisk(disk, _NO_CLOCK, Random(0), (0, 0))


def promptly(waits: Coroutine[object, object, None]) -> None:
    """Runs what never really waits."""
    try:
        waits.send(None)
    except StopIteration:
        return
    raise AssertionError("it waited")


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
            self._start(node_id, SimulatedDisk(Random(node_id)), 0)

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
            case "power-loss":
                node.disk.lose_power()
                self._start(node_id, node.disk, node.life + 1)
            case "torn-write":
                node.now = max(node.now, node.raft.deadline())
                for effect in node.raft.handle(node.now, Woken()):
                    if isinstance(effect, DURABLE):
                        node.storage.carry_out(effect)
                node.disk.lose_power()
                self._start(node_id, node.disk, node.life + 1)

    def _start(self, node_id: int, disk: SimulatedDisk, life: int) -> None:
        now = self.nodes[node_id].now if node_id in self.nodes else 0
        log, election, storage = Storage.recover(prompt(disk), "lockstep", self.voters, self._protections)
        raft = Raft(node_id, self._config, self._protections, Random(node_id * 1000 + life), log, election)
        self.nodes[node_id] = Node(raft, storage, disk, self.invariants.started(raft), now, life)
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
        durable = [effect for effect in effects if isinstance(effect, DURABLE)]
        for change in durable:
            node.storage.carry_out(change)
        if durable:
            promptly(node.storage.sync())
        for effect in effects:
            if isinstance(effect, Send):
                self.messages.append(Message(node_id, node.life, effect.peer, effect.request))
            elif isinstance(effect, Respond) and effect.token in self._asked:
                self.messages.append(self._asked.pop(effect.token)._replace(response=effect.response))
        appended = [effect for effect in durable if isinstance(effect, Append)]
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
