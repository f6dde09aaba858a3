"""One contract, two disks: the real one and the simulated one do the same as long as nothing fails."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from random import Random

import pytest

from nodes.reference.environment import SECOND, Clock, Disk, File
from nodes.reference.process.clock import LoopClock
from nodes.reference.process.disk import FileDisk
from nodes.reference.protections import ALL_ON
from nodes.reference.raft.events import Append, ElectionState, Persist, StoreSnapshot, Truncate
from nodes.reference.raft.log import Batch, OffsetAndEpoch, Snapshot, Voters
from nodes.reference.raft.storage import Storage
from nodes.reference.simulation.disk import SimulatedDisk
from nodes.reference.simulation.lockstep import prompt


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return FileDisk(tmp_path / "data") if request.param == "real" else prompt(SimulatedDisk(Random(1)))


async def aside(file: File) -> None:
    await file.sync_aside()


def test_a_file_grows_at_its_end(disk: Disk) -> None:
    disk.make_directory("logs/orders-0")
    file = disk.open("logs/orders-0/0.log")
    assert file.size() == 0
    file.append(b"first")
    file.append(bytearray(b"second"))
    asyncio.run(aside(file))
    assert (file.size(), file.read(3, 4), file.read(9, 100), file.read(50, 1)) == (11, b"stse", b"nd", b"")
    file.truncate(7)
    file.append(b"!")
    file.sync()
    file.close()
    assert disk.read("logs/orders-0/0.log") == b"firstse!"
    assert disk.open("logs/orders-0/0.log").size() == 8


def test_names(disk: Disk) -> None:
    assert disk.list("logs") == []
    assert disk.read("logs/none") is None
    disk.make_directory("logs")
    for name in ("b", "a", "c"):
        disk.replace(f"logs/{name}", name.encode())
    disk.replace("logs/a", b"newer")
    disk.rename("logs/b", "logs/d")
    disk.rename("logs/c", "logs/d")
    disk.remove("logs/none")
    assert disk.list("logs") == ["a", "d"]
    assert (disk.read("logs/a"), disk.read("logs/d")) == (b"newer", b"c")
    disk.remove("logs/a")
    assert disk.list("logs") == ["d"]
    with pytest.raises(FileNotFoundError):
        disk.rename("logs/none", "logs/e")


def test_a_metadata_log_is_found_again(disk: Disk) -> None:
    log, _, storage = Storage.recover(disk, "k", Voters((1,)), ALL_ON)
    for effect in (
        Persist(ElectionState(3, voted_id=1)),
        *(Append(Batch(offset, 3, 7, (b"%d" % offset,))) for offset in range(9)),
        Truncate(7),
        StoreSnapshot(Snapshot(OffsetAndEpoch(5, 3), Voters((1, 2)), (b"state",)), whole=False),
        Append(Batch(7, 4, 7, (b"after",))),
    ):
        storage.carry_out(effect)
    asyncio.run(storage.sync())
    storage.close()
    log, election, storage = Storage.recover(disk, "k", Voters((1,)), ALL_ON)
    assert election == ElectionState(3, voted_id=1)
    assert (log.start_offset, log.end, log.voters) == (5, OffsetAndEpoch(8, 4), Voters((1, 2)))
    assert [batch.values for batch in log.read(6)] == [(b"6",), (b"after",)]
    storage.close()


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "logs/../../outside"])
def test_no_path_leads_out(tmp_path: Path, path: str) -> None:
    with pytest.raises(ValueError, match="leads out of the data directory"):
        FileDisk(tmp_path / "data").open(path)


def test_what_the_disk_refuses_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = FileDisk(tmp_path).open("log")

    def full(descriptor: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.write", full)
    with pytest.raises(OSError, match="No space"):
        file.append(b"x")
    monkeypatch.undo()
    file.close()


def test_the_clock_does_not_wake_anyone_early() -> None:
    clock: Clock = LoopClock()

    async def scenario() -> None:
        until = clock.now() + SECOND // 50
        rang, never = asyncio.Event(), asyncio.Event()
        clock.call_at(until, rang.set)
        clock.call_at(until, never.set).cancel()
        await clock.sleep_until(until)
        assert clock.now() >= until
        await rang.wait()
        assert not never.is_set()

    asyncio.run(scenario())
