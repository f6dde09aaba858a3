"""What a batch costs one replica on real files, and a record its three replicas in one thread: CPU time, no network, no sync.

python -m pytest -s tests/benchmarks/benchmark_partition_log.py
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nodes.reference.log.log import Log, LogSettings
from nodes.reference.partition.effects import ProduceAnswered
from nodes.reference.partition.local import Local
from nodes.reference.partition.partition import Partition
from nodes.reference.partition.requests import Acks, Produce
from nodes.reference.partition.view import BrokerView, PartitionSettings, PartitionView
from nodes.reference.protections import ALL_ON
from tests.nodes.reference.producing import produced

pytestmark = pytest.mark.benchmark
VALUE = b"x" * 100
BATCHES = {1: 5_000, 10: 3_000, 150: 800}  # records in one -> how many


class RealFile:
    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        self._size = os.fstat(self._descriptor).st_size

    def size(self) -> int:
        return self._size

    def append(self, content: bytes | bytearray) -> None:
        self._size += os.pwrite(self._descriptor, content, self._size)

    def read(self, position: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, position)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self._size = size

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    async def sync_aside(self) -> None:
        self.sync()

    def close(self) -> None:
        os.close(self._descriptor)


class RealDisk:
    def __init__(self, root: Path) -> None:
        self._root = root

    def open(self, path: str) -> RealFile:
        return RealFile(self._root / path)

    def read(self, path: str) -> bytes | None:
        return (self._root / path).read_bytes() if (self._root / path).exists() else None

    def replace(self, path: str, content: bytes, *, sync: bool = True) -> None:
        (self._root / path).write_bytes(content)

    def rename(self, source: str, target: str) -> None:
        (self._root / source).rename(self._root / target)

    def list(self, directory: str) -> list[str]:
        return sorted(path.name for path in (self._root / directory).iterdir())

    def make_directory(self, path: str) -> None:
        (self._root / path).mkdir(parents=True, exist_ok=True)

    def remove(self, path: str) -> None:
        (self._root / path).unlink(missing_ok=True)


def sent(records: int, count: int) -> list[bytes]:
    return [produced(*[VALUE] * records, producer=1, epoch=0, sequence=records * number) for number in range(count)]


def seconds(work: Callable[[], object]) -> float:
    """Of this process: what else runs on the machine does not count."""
    began = time.process_time()
    work()
    return time.process_time() - began


@pytest.mark.parametrize("records", BATCHES)
def test_one_log(records: int, tmp_path: Path) -> None:
    contents = sent(records, BATCHES[records])
    total = records * len(contents)
    leader = Log.open(RealDisk(tmp_path), "leader", LogSettings(), ALL_ON)
    follower = Log.open(RealDisk(tmp_path), "follower", LogSettings(), ALL_ON)

    def append() -> None:
        for content in contents:
            leader.append_as_leader(content, leader_epoch=0, now=0)

    def follow() -> None:
        while follower.log_end_offset < total:
            read = leader.read(follower.log_end_offset, upper_bound=total, max_bytes=1 << 20)
            follower.append_as_follower(read, now=0)

    def reread() -> None:
        for number in range(len(contents)):
            leader.read(number * records, upper_bound=(number + 1) * records, max_bytes=1 << 20)

    took = {"append": seconds(append), "follow": seconds(follow), "read": seconds(reread)}
    took["reopen"] = seconds(lambda: Log.open(RealDisk(tmp_path), "leader", LogSettings(), ALL_ON))
    line = ", ".join(
        f"{what} {took[what] / len(contents) * 1e6:.1f} us/batch ({total / took[what]:,.0f} records/s)" for what in took
    )
    print(f"\n{records} records in a batch: {line}")
    assert records < 10 or total / took["append"] > 200_000


@pytest.mark.parametrize("records", BATCHES)
def test_three_replicas_in_one_thread(records: int, tmp_path: Path) -> None:
    """acks=all: one append, two fetches that bring it and two that confirm it."""
    view = PartitionView(replicas=(1, 2, 3), isr=frozenset({1, 2, 3}), leader=1, leader_epoch=0, partition_epoch=0)
    brokers = {id: BrokerView(epoch=id) for id in view.replicas}
    replicas = []
    for id in view.replicas:
        local = Local(
            broker=id,
            broker_epoch=id,
            log=Log.open(RealDisk(tmp_path), f"t-{id}", LogSettings(), ALL_ON),
            settings=PartitionSettings(min_insync_replicas=2),
            protections=ALL_ON,
            brokers=brokers,
        )
        replicas.append(Partition(local))
        replicas[-1].metadata_changed(view, brokers, 0)
    leader, *followers = replicas
    contents = sent(records, BATCHES[records])
    answered = []

    def produce() -> None:
        for number, content in enumerate(contents):
            leader.produce(Produce(ticket=number, content=content, acks=Acks.ALL, deadline=1), 0)
            for follower in followers * 2:
                wanted = follower.next_fetch()
                assert wanted is not None
                answer, effects = leader.replica_fetch(wanted.request, 0)
                follower.fetched(wanted.request, answer, 0)
                answered.extend(effect for effect in effects if isinstance(effect, ProduceAnswered))

    took = seconds(produce)
    assert len(answered) == len(contents)
    rate = records * len(contents) / took
    print(
        f"\n{records} records in a batch: {took / len(contents) * 1e6:.0f} us/batch, {rate:,.0f} records/s acknowledged"
    )
