"""Every supported release: served, broken, repaired, and used by a real client."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nodes.event import EventKind
from nodes.kafka import disk
from nodes.node import Gone
from nodes.topology import separate
from tests.kafka.conftest import Lab, combined, topic

PRODUCE_AND_CONSUME = """
import json, sys
from confluent_kafka import Consumer, Producer, TopicPartition
servers, count = sys.argv[1], int(sys.argv[2])
producer = Producer({"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True})
acknowledged = []
for number in range(count):
    producer.produce("log", f"value-{number}", partition=0, on_delivery=lambda error, _: acknowledged.append(error is None))
left = producer.flush(60)
consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "enable.auto.commit": False})
consumer.assign([TopicPartition("log", 0, 0)])
values = []
while len(values) < count:
    message = consumer.poll(30)
    if message is None:
        break
    values.append(message.value().decode())
consumer.close()
print(json.dumps({"left": left, "acknowledged": sum(acknowledged), "values": values}))
"""


@pytest.mark.parametrize("version", ["3.2.3", "3.3.2", "3.4.1", "3.9.2", "4.3.1"])
async def test_a_release_serves_clients_and_survives_kill_and_wipe(lab: Lab, version: str) -> None:
    cluster = await lab.deploy(separate(system="kafka", version=version, controllers=1, brokers=2, topics=(topic(),)))

    client = cluster.clients["w1"]
    done = await client.run((*client.python, "-c", PRODUCE_AND_CONSUME, cluster.bootstrap, "50"), timeout=90)
    assert done.code == 0, done.stderr.decode()
    read = json.loads(done.stdout)
    assert read == {"left": 0, "acknowledged": 50, "values": [f"value-{number}" for number in range(50)]}

    await cluster.kill("b1")
    assert await cluster.nodes["b1"].state() == Gone(-9)
    assert not await cluster.answers("b1")
    await cluster.wait(lambda view: view.brokers == {2}, deadline=60, what="broker 1 fenced")
    view = await cluster.wait(
        lambda view: all(one.leader == 2 for one in view.partitions.values()), deadline=60, what="broker 2 leads"
    )
    assert view.answered == {"b2"}
    old = disk.parse((await cluster.nodes["b1"].read("data/meta.properties")).decode())["directory.id"]
    await cluster.wipe("b1", keep_directory_id=False)
    assert await cluster.nodes["b1"].list("data") == ["meta.properties"]
    await cluster.start("b1", deadline=90)
    await cluster.recovered(90)
    new = disk.parse((await cluster.nodes["b1"].read("data/meta.properties")).decode())["directory.id"]
    assert old != new
    assert {event.node for event in lab.saw(EventKind.FENCED)} == {"b1"}
    assert [event.detail for event in lab.saw(EventKind.EXITED)] == ["killed"]
    assert len(lab.saw(EventKind.READY, node="b1")) == 2


async def test_collected_files_are_logs_configuration_and_metadata_log(lab: Lab, tmp_path: Path) -> None:
    cluster = await lab.deploy(combined("4.3.1", 1, topics=(topic(replication=1),)))
    await cluster.stop("n1")
    assert isinstance(await cluster.nodes["n1"].state(), Gone)
    await cluster.system.collect(cluster.nodes["n1"], tmp_path / "kept")
    kept = {str(path.relative_to(tmp_path / "kept")) for path in (tmp_path / "kept").rglob("*")}
    assert {"log/server.log", "etc/server.properties", "metadata/00000000000000000000.log"} <= kept


async def test_a_node_that_dies_at_start_is_reported_at_once_with_the_cause(lab: Lab) -> None:
    from dataclasses import replace

    from nodes.system import SystemUnavailable

    plan = combined("4.3.1", 1)
    broken = replace(plan, nodes=(replace(plan.nodes[0], config={"log.segment.bytes": "none"}),))
    with pytest.raises(
        SystemUnavailable, match=r"n1 died by itself, exit code 1: its configuration was refused"
    ) as raised:
        await lab.deploy(broken)
    assert "log.segment.bytes" in str(raised.value)
