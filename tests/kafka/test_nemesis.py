"""Each fault on real Kafka, judged by its effect and not by its own proof; and the scripts that must lose records."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from nemesis.fault import FaultRow, FaultStatus, Proof, Refused
from nemesis.journal import HealJournal, pending
from nemesis.kinds import FaultKind, Order, find
from nemesis.partitions import Shape
from nemesis.runner import Nemesis, Outcome, Reports
from nemesis.schedule import make_plan
from nemesis.segments import batches
from nemesis.settings import NemesisSettings
from nemesis.targets import parse
from nodes.cluster import Cluster
from nodes.node import Gone, Paused, Running
from nodes.topology import Topic, Topology, separate
from tests.kafka.conftest import Lab

VERSION = "4.3.1"


def log(*, partitions: int = 1, **config: str) -> Topology:
    topic = Topic(name="log", partitions=partitions, replication=3, config={"min.insync.replicas": "2", **config})
    return separate(system="kafka", version=VERSION, controllers=1, brokers=3, topics=(topic,))


def fault(kind: str, target: str, on: Cluster, *, safe: bool = True, number: int = 1, **settings: Any) -> FaultKind:
    found = find(kind)
    settled = found.settle(found.Settings.model_validate(settings), on.topology, random.Random(number))
    return found(Order(fault=number, rule=parse(target), settings=settled, draw=number, safe=safe))


async def inject(made: FaultKind, on: Cluster) -> Proof:
    await made.prepare(on)
    return await made.inject(on)


@dataclass
class Sender:
    """A producer that goes on until it is told to stop, and remembers what was acknowledged (value -> offset)."""

    on: Cluster
    acks: str = "all"
    acknowledged: dict[str, int] = field(default_factory=dict)
    _stop: bool = False

    def count(self) -> int:
        return len(self.acknowledged)

    def send(self, values: int | None = None) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.on.bootstrap,
                "acks": self.acks,
                "linger.ms": 5,
                "message.timeout.ms": 30000,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        sent = 0
        while not self._stop and (values is None or sent < values):
            producer.produce("log", f"v{sent}".encode(), partition=0, on_delivery=self._told)
            producer.poll(0 if values else 0.005)
            sent += 1
        producer.flush(30)

    def _told(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged[message.value().decode()] = message.offset()

    @asynccontextmanager
    async def going(self) -> AsyncIterator[Sender]:
        sending = asyncio.create_task(asyncio.to_thread(self.send))
        try:
            yield self
        finally:
            self._stop = True
            await sending


def read_all(on: Cluster) -> dict[int, str]:
    consumer = Consumer(
        {"bootstrap.servers": on.bootstrap, "group.id": "final", "enable.partition.eof": True, "log_level": 0}
    )
    partition = TopicPartition("log", 0, 0)
    low, high = consumer.get_watermark_offsets(partition, timeout=30)
    partition.offset = low
    consumer.assign([partition])
    found: dict[int, str] = {}
    while (message := consumer.poll(30)) is not None and message.error() is None:
        found[message.offset()] = message.value().decode()
    consumer.close()
    assert len(found) == high - low
    return found


def lost(sender: Sender, found: dict[int, str]) -> list[int]:
    return sorted(offset for value, offset in sender.acknowledged.items() if found.get(offset) != value)


async def end_on_disk(on: Cluster, name: str) -> int:
    """Next offset of log-0 as its file on that broker says."""
    return max(
        (one.next_offset for one in batches(await on.nodes[name].read("data/log-0/00000000000000000000.log"))),
        default=0,
    )


async def test_every_shape_stops_what_it_says_between_real_nodes(lab: Lab) -> None:
    cluster = await lab.deploy(separate(system="kafka", version=VERSION, controllers=3, brokers=3))
    targets = {
        Shape.HALVES: "all",
        Shape.MAJORITY_MINORITY: "minority of controllers",
        Shape.CONTROLLERS_FROM_BROKERS: "all brokers",
    }
    for number, shape in enumerate(Shape):
        action = ("drop", "reset")[number % 2]
        made = fault(
            "partition", targets.get(shape, "b1"), cluster, number=number, shape=shape, action=action, peer="b2"
        )
        proof = await inject(made, cluster)
        assert min(proof.counts.values()) > 0
        if shape in (Shape.ISOLATE, Shape.LINK):
            assert not await cluster.network.reaches("b1", "b2")
            assert await cluster.network.reaches("b2", "b3")
            assert await cluster.network.reaches("w1", "b1")
        await made.heal(cluster)
        assert await cluster.network.counters() == []
    await cluster.recovered(60)


async def test_an_isolated_leader_loses_its_leadership_and_gets_its_place_back(lab: Lab) -> None:
    cluster = await lab.deploy(log())
    leader = await cluster.leader("log", 0)
    made = fault("partition", "leader of log-0", cluster, shape="isolate", action="drop")
    await inject(made, cluster)
    assert made.targets() == [leader]
    await cluster.wait(lambda view: view.partitions["log", 0].leader_epoch > 0, deadline=60, what="another leader")
    assert await cluster.leader("log", 0) != leader
    await made.heal(cluster)
    await cluster.recovered(60)


async def test_processes_are_killed_restarted_and_paused_and_come_back(lab: Lab) -> None:
    cluster = await lab.deploy(log())
    for number, (kind, state) in enumerate({"kill": Gone(-9), "restart": Gone(143), "pause": Paused()}.items()):
        made = fault(kind, "leader of log-0", cluster, number=number)
        await inject(made, cluster)
        (hit,) = made.targets()
        assert await cluster.nodes[hit].state() == state
        assert not await cluster.answers(hit)
        await made.heal(cluster)
        assert await cluster.nodes[hit].state() == Running()
        assert cluster.topology.node(hit).id in (await cluster.view()).brokers
        await cluster.recovered(60)
    assert cluster.deaths == {}


@pytest.mark.parametrize(("keep_meta", "keep_directory_id"), [(True, True), (False, False)])
async def test_a_wiped_broker_gets_every_record_back(lab: Lab, keep_meta: bool, keep_directory_id: bool) -> None:
    cluster = await lab.deploy(log())
    sender = Sender(cluster)
    await asyncio.to_thread(sender.send, 500)
    assert sender.count() == 500
    before = await cluster.nodes["b1"].read("data/meta.properties")
    made = fault("wipe", "b1", cluster, keep_meta=keep_meta, keep_directory_id=keep_directory_id)
    await inject(made, cluster)
    assert await cluster.nodes["b1"].list("data") == ["meta.properties"]
    assert (await cluster.nodes["b1"].read("data/meta.properties") == before) == keep_meta
    await made.heal(cluster)
    assert await end_on_disk(cluster, "b1") == 500
    assert len(await asyncio.to_thread(read_all, cluster)) == 500


async def test_power_loss_and_roll_back_lose_on_disk_and_nothing_in_the_cluster(lab: Lab) -> None:
    cluster = await lab.deploy(log())
    await asyncio.to_thread(Sender(cluster).send, 500)
    leader = await cluster.leader("log", 0)
    assert leader is not None
    loss = fault("power-loss", "leader of log-0", cluster)
    proof = await inject(loss, cluster)
    assert "log-0 offsets 0..499" in proof.sentence
    assert await end_on_disk(cluster, leader) == 0
    await loss.heal(cluster)
    assert await end_on_disk(cluster, leader) == 500

    sender = Sender(cluster)
    async with sender.going():
        back = fault("roll-back", "leader of log-0", cluster, number=2, age_s=3)
        proof = await inject(back, cluster)
        (hit,) = back.targets()
        assert proof.counts[hit] > 0
        await back.heal(cluster)
    await cluster.recovered(60)
    assert len({await end_on_disk(cluster, name) for name in ("b1", "b2", "b3")}) == 1
    found = await asyncio.to_thread(read_all, cluster)
    assert lost(sender, found) == []


async def test_the_last_copies_are_left_alone_in_safe_mode(lab: Lab) -> None:
    cluster = await lab.deploy(log())
    down = fault("kill", "followers of log-0", cluster)
    await inject(down, cluster)
    await cluster.wait(lambda view: len(view.partitions["log", 0].isr) == 1, deadline=60, what="the leader alone")
    with pytest.raises(Refused, match=r"min\.insync\.replicas is 2"):
        await fault("wipe", "leader of log-0", cluster).prepare(cluster)
    await down.heal(cluster)


@dataclass
class Told:
    rows: dict[int, FaultRow] = field(default_factory=dict)
    outcome: Outcome | None = None


async def unleash(on: Cluster, section: dict[str, Any], tmp_path: Path, sender: Sender, limit: float) -> Told:
    """Ends when every planned fault was healed."""
    told = Told()

    def record(row: FaultRow) -> None:
        told.rows[row.fault] = row
        if all(one.status == FaultStatus.HEALED for one in told.rows.values()):
            nemesis.stop()

    settings = NemesisSettings.model_validate(section)
    plan = make_plan(settings, on.topology, lambda actor, index: random.Random(f"1/{actor}/{index}"), limit)
    nemesis = Nemesis(
        on=on,
        plan=plan,
        settings=settings,
        journal=HealJournal(tmp_path / "heal.jsonl"),
        reports=Reports(record=record),
        counted=lambda name: sender.count(),
    )
    async with sender.going():
        told.outcome = await nemesis.run(limit)
        await on.recovered(60)
    assert pending(tmp_path / "heal.jsonl") == []
    return told


LAST_LEADER = [
    {"at": "2s", "fault": "kill", "target": "followers of log-0", "as": "followers", "until": {"after": "last"}},
    {
        "when": {"after": "followers", "isr_of": "log-0", "is": 1, "acknowledged": 200},
        "fault": "kill",
        "target": "leader of log-0",
        "as": "last",
        "until": {"leader_changed": "log-0"},
    },
]


@pytest.mark.parametrize("kind", ["kill", "wipe"])
async def test_the_last_leader_takes_acknowledged_records_with_it(lab: Lab, tmp_path: Path, kind: str) -> None:
    config = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    cluster = await lab.deploy(log(**config))
    sender = Sender(cluster)
    steps = [LAST_LEADER[0], {**LAST_LEADER[1], "fault": kind}]
    told = await unleash(cluster, {"safe": False, "script": steps}, tmp_path, sender, 45)
    assert told.outcome == Outcome()
    assert [row.status for row in told.rows.values()] == [FaultStatus.HEALED, FaultStatus.HEALED], told.rows
    found = await asyncio.to_thread(read_all, cluster)
    assert len(lost(sender, found)) >= 150


async def test_a_stale_leader_loses_what_it_acknowledged_alone(lab: Lab, tmp_path: Path) -> None:
    cluster = await lab.deploy(log(**{"min.insync.replicas": "1"}))
    sender = Sender(cluster, acks="1")
    script = [
        {
            "at": "3s",
            "fault": "partition",
            "shape": "isolate",
            "action": "drop",
            "target": "leader of log-0",
            "as": "cut",
            "for": "8s",
        }
    ]
    told = await unleash(cluster, {"script": script}, tmp_path, sender, 20)
    assert told.outcome == Outcome()
    assert told.rows[0].status == FaultStatus.HEALED
    found = await asyncio.to_thread(read_all, cluster)
    assert len(lost(sender, found)) >= 20
