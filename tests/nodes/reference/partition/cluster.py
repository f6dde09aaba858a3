"""Three replicas of one partition, a controller as small as the rules allow, clients, and a network that delays and loses: driven by bytes.

Every decision takes one byte of a script, so that Hypothesis can make scripts and shrink them, and a seed can make thousands quickly. The
controller elects cleanly, validates AlterPartition as Kafka does, and fences. After every step `Observer` looks for what must never be.

    Cluster(random.Random(7).randbytes(400), Protections()).run()     # Violation says what went wrong, and when
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kio.schema.errors import ErrorCode

from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.log.log import Log, LogSettings
from nodes.reference.partition.effects import (
    AlterPartition,
    AlterPartitionAnswer,
    AskLeaderOffsets,
    Effect,
    ProduceAnswered,
)
from nodes.reference.partition.local import Local
from nodes.reference.partition.partition import Partition
from nodes.reference.partition.requests import Produce, Timestamp, WriteMarker
from nodes.reference.partition.view import PartitionSettings, PartitionView
from nodes.reference.protections import Protections
from tests.nodes.reference.lone_disk import LoneDisk
from tests.nodes.reference.partition.controller import Controller
from tests.nodes.reference.partition.machine import Machine, Message
from tests.nodes.reference.partition.observer import Observer
from tests.nodes.reference.partition.producers import IdempotentProducer, TransactionalProducer

BROKERS = (1, 2, 3)
LAG = 100 * MILLISECOND


class Cluster:
    def __init__(self, script: bytes, protections: Protections, *, flush: bool = True) -> None:
        """flush: every append is durable before it counts (log.flush.interval.messages=1)."""
        self._script = iter(script)
        self.flush = flush
        self.protections = protections
        self.now = SECOND
        self.trace: list[str] = []
        self.machines = {id: Machine(id, LoneDisk(self.choose(256))) for id in BROKERS}
        self.messages: list[Message] = []
        self.controller = Controller(BROKERS, self.note)
        self.settings = PartitionSettings(min_insync_replicas=1 + self.choose(2), replica_lag_time_max_ms=100)
        self.observer = Observer(self)
        self.producers: list[IdempotentProducer | TransactionalProducer] = [
            IdempotentProducer(self, 1),
            IdempotentProducer(self, 2),
            TransactionalProducer(self, 3),
        ]
        self._actions = [action for weight, action in self._weights() for _ in range(weight)]
        for machine in self.machines.values():
            self.start(machine)
        self.controller.activate_all()
        self.controller.commit(self.view)
        for machine in self.machines.values():
            self.apply_metadata(machine, len(self.controller.metadata))

    def _weights(self) -> list[tuple[int, Callable[[], None]]]:
        """How often each thing happens; some schedules are calmer than others, so that more comes to pass between two faults."""
        calm = 1 + self.choose(2)
        return [
            (24 * calm, self.deliver_message),
            (12 * calm, self.fetch),
            (16 * calm, self.exchange),
            (12 * calm, self.produce),
            (10 * calm, self.follow_metadata),
            (3 * calm, self.follow_all_metadata),
            (6 * calm, self.tick),
            (3 * calm, self.pass_time),
            (2, self.lose_message),
            (2, self.repeat_alter_partition),
            (3, self.fence),
            (2, self.move_leader),
            (1, self.stop_gracefully),
            (3, self.kill),
            (2, self.fail_over),
            (1, self.cut_power),
            (1, self.replace_disk),
            (5, self.restart),
            (6, self.unfence),
            (4, self.read),
        ]

    @property
    def view(self) -> PartitionView:
        """What the controller has committed."""
        return self.controller.view

    def choose(self, below: int) -> int:
        """0 when the script is at its end."""
        return next(self._script, 0) % below if below > 1 else 0

    def run(self) -> None:
        """The whole script, then everything heals."""
        while (byte := next(self._script, None)) is not None:
            self._actions[byte % len(self._actions)]()
            self.observer.look()
        self.heal()
        self.observer.look()
        self.observer.final()

    # --- the network

    def send(self, what: str, deliver: Callable[[], None]) -> None:
        self.messages.append(Message(what, deliver))

    def deliver_message(self) -> None:
        if self.messages:
            message = self.messages.pop(self.choose(min(len(self.messages), 4)))
            self.note(f"deliver {message.what}")
            message.deliver()

    def lose_message(self) -> None:
        if self.messages:
            self.note(f"lose {self.messages.pop(self.choose(len(self.messages))).what}")
            for machine in self.machines.values():
                machine.fetching = False  # connections time out

    def repeat_alter_partition(self) -> None:
        """A leader that got no answer sends the very same request again (research: it never times out)."""
        for message in self.messages:
            if message.what.startswith("AlterPartition"):
                self.messages.append(message)
                return

    # --- the controller

    def fence(self) -> None:
        """A session ends: mostly of a broker that is down."""
        down = [
            machine.id
            for machine in self.machines.values()
            if machine.partition is None and self.controller.active(machine.id)
        ]
        self.controller.fence_broker(down[0] if down else BROKERS[self.choose(3)])

    def unfence(self) -> None:
        for machine in self.machines.values():
            broker = self.controller.registered[machine.id]
            if broker.fenced and machine.partition is not None and machine.epoch == broker.epoch:
                self.note(f"unfence {machine.id}")
                self.controller.registered[machine.id] = replace(broker, fenced=False, in_controlled_shutdown=False)
                if self.view.leader == -1 and machine.id in self.view.isr:
                    self.controller.change(isr=self.view.isr, leader=machine.id)
                else:
                    self.controller.commit(self.view)
                return

    def move_leader(self) -> None:
        """As a preferred election does: anyone in the ISR that is active."""
        others = [id for id in sorted(self.view.isr) if id != self.view.leader and self.controller.active(id)]
        if others:
            self.controller.change(isr=self.view.isr, leader=others[self.choose(len(others))])

    def stop_gracefully(self) -> None:
        id = BROKERS[self.choose(3)]
        if self.controller.active(id):
            self.note(f"controlled shutdown of {id}")
            self.controller.registered[id] = replace(self.controller.registered[id], in_controlled_shutdown=True)
            self.controller.leave(id)

    def alter_partition(self, sender: int, asked: AlterPartition) -> None:
        """Validation in Kafka's order, then a commit; the answer goes back over the network."""
        error = self.controller.alter_partition_error(sender, asked)
        self.note(f"AlterPartition of {sender} {asked}: {error.name}")
        if error is ErrorCode.none:
            self.controller.change(isr=asked.members, leader=self.view.leader)
        answer = AlterPartitionAnswer(
            asked=asked,
            error=error,
            leader=self.view.leader,
            leader_epoch=self.view.leader_epoch,
            isr=self.view.isr,
            partition_epoch=self.view.partition_epoch,
        )
        machine, partition = self.machines[sender], self.machines[sender].partition

        def deliver() -> None:
            if partition is not None and machine.partition is partition:
                self.carry_out(machine, partition.alter_partition_answered(answer, self.now))

        self.send(f"answer {error.name} to {sender}", deliver)

    # --- brokers

    def start(self, machine: Machine) -> None:
        """A process starts and registers: a new broker epoch, fenced, and out of the ISR."""
        machine.epoch = self.controller.register(machine.id)
        settings = LogSettings(log_flush_interval_messages=1 if self.flush else None)
        log = Log.open(machine.disk, "t-0", settings, self.protections, high_watermark=machine.checkpoint)
        local = Local(
            broker=machine.id,
            broker_epoch=machine.epoch,
            log=log,
            settings=self.settings,
            protections=self.protections,
            brokers={},
        )
        machine.partition = Partition(local)
        machine.applied, machine.registered_at, machine.fetching = 0, len(self.controller.metadata), False

    def restart(self) -> None:
        for machine in self.machines.values():
            if machine.partition is None:
                self.note(f"start {machine.id}")
                self.start(machine)
                return

    def kill(self) -> None:
        machine = self.machines[BROKERS[self.choose(3)]]
        self.note(f"kill {machine.id}")
        machine.partition = None

    def fail_over(self) -> None:
        """The leader is killed, and the controller notices at once."""
        machine = self.leader()
        if machine is not None:
            self.note(f"kill {machine.id}, the leader")
            machine.partition = None
            self.controller.fence_broker(machine.id)

    def cut_power(self) -> None:
        """Without a flush policy only of a broker that others can stand in for, and it is fenced before it is back."""
        machine = self.machines[BROKERS[self.choose(3)]]
        if not self.flush and self.view.isr == {machine.id}:
            return
        self.note(f"cut power of {machine.id}")
        machine.partition = None
        machine.disk.lose_power()
        if not self.flush:
            self.controller.fence_broker(machine.id)

    def replace_disk(self) -> None:
        """Of a broker that is down and fenced and out of the ISR: nobody counts on its records."""
        for machine in self.machines.values():
            down = machine.partition is None and self.controller.registered[machine.id].fenced
            if down and machine.id not in self.view.isr:
                self.note(f"replace the disk of {machine.id}")
                machine.disk, machine.checkpoint = LoneDisk(self.choose(256)), 0
                return

    def follow_metadata(self) -> None:
        machine = self.machines[BROKERS[self.choose(3)]]
        self.apply_metadata(machine, machine.applied + 1 + self.choose(4))

    def follow_all_metadata(self) -> None:
        for machine in self.machines.values():
            self.apply_metadata(machine, len(self.controller.metadata))

    def apply_metadata(self, machine: Machine, end: int) -> None:
        """Up to an entry; a broker may jump over several."""
        end = min(max(end, machine.registered_at), len(self.controller.metadata))
        if machine.partition is None or end <= machine.applied:
            return
        view, brokers = self.controller.metadata[end - 1]
        machine.applied = end
        led = machine.partition.leader
        self.note(f"{machine.id} reads metadata up to {end}")
        effects = machine.partition.metadata_changed(view, brokers, self.now)
        machine.fetching = machine.fetching and led is machine.partition.leader
        if machine.partition.leader is not None and machine.partition.leader is not led:
            self.observer.elected(machine.id)
        self.carry_out(machine, effects)

    def tick(self) -> None:
        """And now and then the high watermark is written down."""
        machine = self.machines[BROKERS[self.choose(3)]]
        if machine.partition is not None:
            self.carry_out(machine, machine.partition.tick(self.now))
            machine.checkpoint = machine.partition.local.log.high_watermark

    def pass_time(self) -> None:
        self.now += [MILLISECOND, 20 * MILLISECOND, LAG + MILLISECOND][self.choose(3)]

    def fetch(self) -> None:
        """A follower asks its leader; one request at a time on its connection."""
        machine = self.machines[BROKERS[self.choose(3)]]
        if machine.partition is not None and not machine.fetching:
            self.send_fetch(machine)

    def exchange(self) -> None:
        """A fetch and its answer, with nothing between. What the leader asks of the controller is slower."""
        before = list(self.messages)
        self.fetch()
        while fresh := [message for message in self.messages if message not in before and message.of_fetch]:
            self.messages.remove(fresh[0])
            fresh[0].deliver()

    def send_fetch(self, machine: Machine) -> None:
        follower = machine.partition
        wanted = follower.next_fetch() if follower is not None else None
        if wanted is None or follower is None:
            return
        machine.fetching = True
        leader = self.machines[wanted.leader]

        def deliver() -> None:
            if leader.partition is None:
                machine.fetching = False
                return
            answer, effects = leader.partition.replica_fetch(wanted.request, self.now)
            self.carry_out(leader, effects)

            def come_back() -> None:
                if machine.partition is follower:
                    machine.fetching = False
                    self.carry_out(machine, follower.fetched(wanted.request, answer, self.now))

            self.send(f"{leader.id} -> {machine.id} {answer.error.name} {len(answer.records)} bytes", come_back)

        self.send(f"{machine.id} -> {leader.id} fetch {wanted.request.offset}", deliver)

    def carry_out(self, machine: Machine, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case ProduceAnswered(ticket=(producer, number)):
                    self.producers[producer - 1].answered(number, effect)
                case AlterPartition():
                    self.observer.proposed(machine.id, effect)
                    self.send(
                        f"AlterPartition of {machine.id}",
                        lambda effect=effect: self.alter_partition(machine.id, effect),  # type: ignore[misc]
                    )
                case AskLeaderOffsets():
                    self._tell_leader_offsets(machine, effect)
                case _:
                    self.observer.saw(machine.id, effect)

    def _tell_leader_offsets(self, machine: Machine, asked: AskLeaderOffsets) -> None:
        leader = self.machines[asked.leader].partition
        if leader is None or machine.partition is None:
            return
        earliest = leader.list_offset(Timestamp.EARLIEST, None, asked.leader_epoch)
        latest = leader.list_offset(Timestamp.LATEST, None, asked.leader_epoch)
        if earliest.error is latest.error is ErrorCode.none:
            effects = machine.partition.leader_offsets(asked.leader_epoch, earliest.offset, latest.offset)
            self.carry_out(machine, effects)

    # --- clients

    def produce(self) -> None:
        self.producers[self.choose(len(self.producers))].step(self.choose(4))

    def leader(self) -> Machine | None:
        """Who a client with the newest metadata talks to."""
        machine = self.machines.get(self.view.leader)
        return machine if machine is not None and machine.partition is not None else None

    def any_leader(self) -> Machine | None:
        """Who a client with some metadata talks to: any broker that believes it leads."""
        leading = [machine for machine in self.machines.values() if machine.partition and machine.partition.leader]
        return leading[self.choose(len(leading))] if leading else None

    def ask(self, machine: Machine, request: Produce | WriteMarker) -> None:
        partition = machine.partition
        assert partition is not None
        if isinstance(request, Produce):
            self.carry_out(machine, partition.produce(request, self.now))
        else:
            self.carry_out(machine, partition.write_marker(request, self.now))

    def read(self) -> None:
        machine = self.any_leader()
        if machine is not None and machine.partition is not None:
            self.observer.read_committed(machine.partition)

    # --- the end

    def heal(self) -> None:
        """All brokers up, unfenced and in sync; whatever was on its way arrives."""
        self.note("heal")
        for _ in BROKERS:
            self.restart()
        self.controller.activate_all()
        first = next(id for id in BROKERS if id in self.view.isr)
        self.controller.change(isr=self.view.isr, leader=first if self.view.leader == -1 else self.view.leader)
        for _ in range(40):
            self.follow_all_metadata()
            self.tick_all()
            for machine in self.machines.values():
                machine.fetching = False
                self.send_fetch(machine)
            while self.messages:
                self.messages.pop(0).deliver()
            self.now += 10 * MILLISECOND

    def tick_all(self) -> None:
        for machine in self.machines.values():
            if machine.partition is not None:
                self.carry_out(machine, machine.partition.tick(self.now))

    def note(self, what: str) -> None:
        self.trace.append(what)
