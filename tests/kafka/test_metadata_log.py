"""The metadata log as krash decodes it, against Kafka's own decoder."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from nodes.cluster import NotReached
from nodes.kafka.distribution import locate
from nodes.kafka.java import find_java
from nodes.kafka.metadata_log import RECORDS, rows
from nodes.topology import separate
from tests.kafka.conftest import Lab, topic

TYPES = {name.upper().replace("-", "_") + "_RECORD": name for name, _ in RECORDS.values()}
VERSION = "4.3.1"


def dumped(log: Path) -> list[tuple[int, str, dict[str, object]]]:
    """(offset, kind, fields) as Kafka's own tool tells them, for the kinds that krash decodes."""
    home, java = locate(VERSION), find_java()
    assert java is not None
    command = [java.path, "-XX:TieredStopAtLevel=1", "-cp", home.class_path(), "org.apache.kafka.tools.DumpLogSegments"]
    done = subprocess.run(
        [*command, "--cluster-metadata-decoder", "--files", str(log)],
        cwd=home.home,
        capture_output=True,
        text=True,
        check=True,
    )
    told = []
    for offset, payload in re.findall(r"\| offset: (\d+) .*? payload: (\{.*\})", done.stdout):
        record = json.loads(payload)
        if record["type"] in TYPES:
            told.append(
                (int(offset), TYPES[record["type"]], {snake(name): value for name, value in record["data"].items()})
            )
    return told


def snake(name: str) -> str:
    return re.sub("([A-Z])", r"_\1", name).lower()


def plain(value: object) -> object:
    """What JSON makes of it, with Kafka's names of an endpoint's and a feature's fields shortened as krash has them."""
    short = {"security_protocol": "security", "min_supported_version": "min", "max_supported_version": "max"}
    if isinstance(value, dict):
        return {short.get(snake(key), snake(key)): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


async def test_it_reads_as_kafka_s_own_tool_reads_it(lab: Lab, tmp_path: Path) -> None:
    """Old versions of the records first, then, from a higher metadata.version on, the newest."""
    topology = separate(
        system="kafka", version=VERSION, controllers=1, brokers=2, topics=(topic(),), metadata_version="3.4"
    )
    cluster = await lab.deploy(topology)
    await cluster.raise_metadata_version("4.3")
    await cluster.kill("b1")
    told = await cluster.wait_metadata(
        lambda view: view.brokers[1].fenced and view.partitions["log", 0].isr == (2,), deadline=60, what="b1 fenced"
    )
    assert told.controller == 101
    assert told.partitions["log", 0].leader == 2
    await cluster.start("b1", deadline=90)
    view = await cluster.recovered(90)
    again = await cluster.wait_metadata(
        lambda log: set(log.partitions["log", 0].isr) == {1, 2}, deadline=30, what="b1 back"
    )
    assert again.brokers[1].epoch > told.brokers[1].epoch
    assert again.brokers[1].incarnation != told.brokers[1].incarnation
    for key, seen in view.partitions.items():
        state = cluster.metadata.partitions[key]
        assert (state.leader, state.leader_epoch, state.replicas) == (seen.leader, seen.leader_epoch, seen.replicas)
        assert sorted(state.isr) == list(seen.isr)
    with pytest.raises(
        NotReached, match=r"the moon: not within 0\.1 s; metadata log at \d+ \(epoch 1\); unfenced: 1 2;"
    ):
        await cluster.wait_metadata(lambda _: False, deadline=0.1, what="the moon")
    await cluster.delete_topic("log")
    await cluster.wait_metadata(lambda log: not log.partitions, deadline=30, what="no topic")
    await cluster.kill("c1")
    await cluster.nodes["c1"].fetch("data/__cluster_metadata-0", tmp_path / "metadata")
    log = tmp_path / "metadata" / "00000000000000000000.log"

    decoded = list(rows(log.read_bytes()))
    assert decoded[0].kind == "leader-change"
    assert decoded[0].fields == {"leader": 101}
    ours = [(row.offset, row.kind, plain(dict(row.fields))) for row in decoded if row.kind != "leader-change"]
    theirs = [(offset, kind, plain(fields)) for offset, kind, fields in dumped(log)]
    assert [row[:2] for row in ours] == [row[:2] for row in theirs]
    for our, their in zip(ours, theirs, strict=True):
        assert isinstance(our[2], dict)
        assert isinstance(their[2], dict)
        for name, value in their[2].items():
            assert our[2].get(name) == value, (our, their)
    assert {
        "topic",
        "partition",
        "partition-change",
        "register-broker",
        "broker-registration-change",
        "remove-topic",
    } <= {row[1] for row in ours}
    isrs = [row.fields["isr"] for row in decoded if row.kind == "partition-change" and "isr" in row.fields]
    assert (2,) in isrs
    assert {tuple(sorted(isr)) for isr in isrs} == {(2,), (1, 2)}  # type: ignore[arg-type]

    whole = list(cluster.system.collected_metadata(tmp_path, run="test", clock="host", node="c1"))
    assert [replace(row, at_ns=None) for row in lab.metadata] == whole
    assert [row.offset for row in whole] == [row.offset for row in decoded]
    assert all(row.at_ns is not None for row in lab.metadata)
    assert {row.topic for row in whole if row.kind == "partition-change"} == {"log"}
