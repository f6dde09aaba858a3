"""What a real node's disk tells of files that are not safe, and that taking it back leaves what a loss of power would have left."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from nodes.reference.process.disk import FileDisk
from nodes.reference.process.unsynced import DIRECTORY
from nodes.reference.protections import ALL_ON, Protection, Protections
from nodes.reference.raft.events import Append, ElectionState, Persist
from nodes.reference.raft.log import Batch, Voters
from nodes.reference.raft.storage import DIRECTORY as METADATA_LOG
from nodes.reference.raft.storage import Storage

LOG = "meta/0.log"
STATE = "meta/state"


@pytest.fixture
def disk(tmp_path: Path) -> FileDisk:
    disk = FileDisk(tmp_path, told="meta")
    disk.make_directory("meta")
    return disk


def told(root: Path, path: str) -> Any:
    at = root / DIRECTORY / path
    return json.loads(at.read_bytes()) if at.exists() else None


def test_a_file_that_grows_is_told_by_the_size_it_had_when_it_was_synced(tmp_path: Path, disk: FileDisk) -> None:
    file = disk.open(LOG)
    assert told(tmp_path, LOG) is None
    file.append(b"12345")
    assert told(tmp_path, LOG) == {"size": 0}
    file.append(b"678")
    assert told(tmp_path, LOG) == {"size": 0}, "only the first change since a sync"
    file.sync()
    assert told(tmp_path, LOG) is None
    file.append(b"9")
    assert told(tmp_path, LOG) == {"size": 8}
    file.truncate(3)
    assert told(tmp_path, LOG) == {"size": 3}, "what is there now was never synced, from byte 3 on"
    file.append(b"anew")
    disk.remove(LOG)
    assert told(tmp_path, LOG) is None


def test_a_replaced_file_is_told_with_what_it_held(tmp_path: Path, disk: FileDisk) -> None:
    disk.replace(STATE, b"first", sync=False)
    assert told(tmp_path, STATE) == {"content": None}
    disk.replace(STATE, b"second")
    assert told(tmp_path, STATE) is None
    disk.replace(STATE, b"third", sync=False)
    disk.replace(STATE, b"fourth", sync=False)
    assert base64.b64decode(told(tmp_path, STATE)["content"]) == b"second"


def test_other_directories_are_not_told_of(tmp_path: Path, disk: FileDisk) -> None:
    disk.open("orders-0.log").append(b"x")
    disk.replace("checkpoint", b"x", sync=False)
    assert [path.name for path in (tmp_path / DIRECTORY).rglob("*") if path.is_file()] == ["README"]


def test_what_is_appended_while_a_sync_is_under_way_is_told(
    tmp_path: Path, disk: FileDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on, fsync = threading.Event(), threading.Event(), os.fsync

    def slow(descriptor: int) -> None:
        began.set()
        assert go_on.wait(10)
        fsync(descriptor)

    async def scenario() -> None:
        file = disk.open(LOG)
        file.append(b"12345")
        monkeypatch.setattr("os.fsync", slow)
        syncing = asyncio.create_task(file.sync_aside())
        await asyncio.to_thread(began.wait, 10)
        file.append(b"678")
        go_on.set()
        await syncing

    asyncio.run(scenario())
    assert told(tmp_path, LOG) == {"size": 5}


def test_a_new_process_goes_on_where_the_killed_one_was(tmp_path: Path, disk: FileDisk) -> None:
    file = disk.open(LOG)
    file.append(b"123")
    file.sync()
    file.append(b"4")
    again = FileDisk(tmp_path, told="meta").open(LOG)
    again.append(b"5")
    assert told(tmp_path, LOG) == {"size": 3}
    again.sync()
    assert told(tmp_path, LOG) is None


@pytest.mark.parametrize(
    ("off", "lost"),
    [
        ([], set()),
        ([Protection.FSYNC_ON_VOTE], {"quorum-state"}),
        ([Protection.FSYNC_ON_APPEND], {"00000000000000000000.log"}),
    ],
)
def test_a_metadata_log_is_not_safe_only_where_a_protection_is_off(
    tmp_path: Path, off: list[Protection], lost: set[str]
) -> None:
    protections = Protections(off=off) if off else ALL_ON
    _, _, storage = Storage.recover(FileDisk(tmp_path, told=METADATA_LOG), "k", Voters((1,)), protections)
    storage.carry_out(Persist(ElectionState(3, voted_id=1)))
    storage.carry_out(Append(Batch(0, 3, 7, (b"first",))))
    asyncio.run(storage.sync())
    storage.close()
    found = {path.name for path in (tmp_path / DIRECTORY / METADATA_LOG).rglob("*") if path.is_file()}
    assert found == lost
