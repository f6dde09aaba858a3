"""How fast the reference cluster is, beside Apache Kafka 3.9.2 in the same run: three controllers and three brokers on the local backend.

    ready        from the first start of a process until every node answers and every broker is unfenced, seconds
    resident     memory of one node after the load, MiB: the largest of the six
    records      acknowledged per second, 100 bytes each, replication 3, acks=all, one librdkafka producer that batches
    p99          from produce to acknowledgement at 1,000 records a second, ms, from a producer as it is configured by default
    p99_single   the same without linger.ms: a request for each record, a thousand a second
    failover     from kill -9 of a leader to the first acknowledgement of its successor, seconds (the session is 4 s)
    run          `krash run --time-limit 20s`, to verdict and report, seconds

The first five are taken inside one enclosure per system, from a process that is nobody's node. Of Kafka, whose JVMs are as krash starts
them (few threads, client compiler only), they are there to compare with: only the reference cluster has limits to keep.

    python -m pytest -s tests/benchmarks/benchmark_reference.py
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from harness import plugins
from harness.plugins import Group
from nodes.backends.local import LocalBackend
from nodes.cluster import Cluster
from nodes.deploy import deploy
from nodes.kafka.system import KafkaSystem
from nodes.topology import Topic, separate

pytestmark = [pytest.mark.benchmark, pytest.mark.kafka, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
KAFKA = "3.9.2"
SYSTEMS = {"reference": "1", "kafka": KAFKA}
SESSION_S = 4.0  # nodes/kafka/config.py
LIMITS = {"ready_s": 2.0, "resident_mib": 60.0, "p99_ms": 50.0, "failover_s": SESSION_S + 1, "run_s": 40.0}
AT_LEAST = {"records_per_s": 20_000.0}
LOAD_S, WARM_S = 10.0, 3.0
PACED, PACED_S = 1000, 10.0
FAILOVERS = 3
VALUE = b"x" * 100
PATIENCE_S = 60.0
A_TICK_S = 0.001  # the producer waits in whole milliseconds: for less it would ask again and again, and take a core from the nodes


class Load:
    """A producer in a thread of its own; `acknowledged` are (sent, acknowledged) times of what was answered, in that order."""

    def __init__(self, bootstrap: str, topic: str, *, every_s: float | None, **config: Any) -> None:
        given = {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, **config}
        self._producer = Producer({**given, "log_level": 0})
        self._topic = topic
        self._every = every_s
        self._stop = threading.Event()
        self._told = threading.Condition()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged: list[tuple[float, float]] = []

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        self._thread.join()

    def wait(self, holds: Callable[[], bool]) -> None:
        """Until acknowledgements make it so."""
        with self._told:
            assert self._told.wait_for(holds, PATIENCE_S)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            if self._every is None:
                self._send()
                continue
            while due <= time.monotonic():
                self._send()
                due += self._every
            self._producer.poll(max(A_TICK_S, due - time.monotonic()))
        self._producer.flush(PATIENCE_S)

    def _send(self) -> None:
        sent = time.monotonic()

        def told(error: Any, _message: Any) -> None:
            if error is None:
                with self._told:
                    self.acknowledged.append((sent, time.monotonic()))
                    self._told.notify_all()

        while True:
            try:
                self._producer.produce(self._topic, VALUE, on_delivery=told)
            except BufferError:
                self._producer.poll(0.01)
            else:
                self._producer.poll(0)
                return


async def measure(system: str, home: Path) -> dict[str, float]:
    backend = LocalBackend()
    await backend.open(run="benchmark", home=home)
    moments: dict[str, float] = {}

    def progress(text: str) -> None:
        moments.setdefault(text.partition(" ")[0], time.monotonic())

    config = {"min.insync.replicas": "2"}
    topics = (
        Topic(name="wide", partitions=4, replication=3, config=config),
        Topic(name="single", partitions=1, replication=3, config=config),
    )
    cluster = await deploy(
        run="benchmark",
        topology=separate(system=system, version=SYSTEMS[system], controllers=3, brokers=3, topics=topics),
        system=plugins.load(Group.SYSTEMS, system)(),
        backend=backend,
        on_event=lambda event: None,
        progress=progress,
    )
    try:
        found = {"ready_s": moments["creating"] - moments["starting"]}
        found["records_per_s"] = await full_speed(cluster)
        found["resident_mib"] = max([await node.resident_bytes() for node in cluster.nodes.values()]) / (1 << 20)
        found["p99_ms"] = await latency(cluster)
        found["p99_single_ms"] = await latency(cluster, **{"linger.ms": 0})
        found["failover_s"] = statistics.median([await failover(cluster) for _ in range(FAILOVERS)])
    finally:
        await cluster.close()
        await backend.close()
    return found


async def full_speed(cluster: Cluster) -> float:
    load = Load(cluster.bootstrap, "wide", every_s=None, **{"linger.ms": 20, "batch.num.messages": 10_000})
    load.start()
    await asyncio.sleep(WARM_S)
    began, before = time.monotonic(), len(load.acknowledged)
    await asyncio.sleep(LOAD_S)
    rate = (len(load.acknowledged) - before) / (time.monotonic() - began)
    await asyncio.to_thread(load.end)
    return rate


async def latency(cluster: Cluster, **config: Any) -> float:
    load = Load(cluster.bootstrap, "wide", every_s=1 / PACED, **config)
    load.start()
    await asyncio.sleep(WARM_S + PACED_S)
    await asyncio.to_thread(load.end)
    taken = [acknowledged - sent for sent, acknowledged in load.acknowledged[int(PACED * WARM_S) :]]
    return 1000 * statistics.quantiles(taken, n=100)[98]


async def failover(cluster: Cluster) -> float:
    """As an idempotent producer notices it by itself; librdkafka looks for the new leader once a second unless it is told otherwise."""
    often = {"topic.metadata.refresh.interval.ms": 250, "retry.backoff.max.ms": 200}
    load = Load(cluster.bootstrap, "single", every_s=0.01, **{"linger.ms": 0, **often})
    load.start()
    await asyncio.to_thread(load.wait, lambda: len(load.acknowledged) > 100)
    leader = await cluster.leader("single", 0)
    assert leader is not None
    killed = time.monotonic()
    await cluster.kill(leader)
    await asyncio.to_thread(load.wait, lambda: load.acknowledged[-1][0] > killed)
    first = next(acknowledged for sent, acknowledged in load.acknowledged if sent > killed)
    await asyncio.to_thread(load.end)
    await cluster.start(leader, deadline=PATIENCE_S)
    await cluster.recovered(PATIENCE_S)
    return first - killed


def full_run(system: str, out: Path) -> float:
    argv = ["run", "--system", f"{system}:{SYSTEMS[system]}", "--time-limit", "20s", "--seed", "1", "--json"]
    began = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-m", "harness", *argv, "--out", str(out)], cwd=ROOT, stdout=subprocess.PIPE, timeout=600
    )
    taken = time.monotonic() - began
    assert ran.returncode == 0, ran.stdout.decode()
    return taken


def inside(system: str, home: Path) -> dict[str, float]:
    argv = [sys.executable, "-m", "tests.benchmarks.benchmark_reference", system, str(home)]
    subprocess.run(LocalBackend.enclose(argv), cwd=ROOT, check=True, timeout=600)
    return dict(json.loads((home / "found.json").read_text()))


def test_beside_kafka(tmp_path: Path) -> None:
    KafkaSystem().fetch(KAFKA, progress=lambda text: None)
    found: dict[str, dict[str, float]] = {}
    for system in SYSTEMS:
        (home := tmp_path / system).mkdir()
        found[system] = {**inside(system, home), "run_s": full_run(system, tmp_path / "runs")}
    print(f"\n{'':14} {'reference':>12} {'Kafka ' + KAFKA:>12} {'ratio':>8}   wanted")
    for name, value in found["reference"].items():
        wanted = f"<= {LIMITS[name]:g}" if name in LIMITS else f">= {AT_LEAST[name]:,g}" if name in AT_LEAST else ""
        print(f"{name:14} {value:12,.2f} {found['kafka'][name]:12,.2f} {value / found['kafka'][name]:8.2f}   {wanted}")
    kept = {name: found["reference"][name] <= limit for name, limit in LIMITS.items()}
    kept |= {name: found["reference"][name] >= least for name, least in AT_LEAST.items()}
    assert all(kept.values()), kept


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    (folder / "found.json").write_text(json.dumps(asyncio.run(measure(sys.argv[1], folder))))
