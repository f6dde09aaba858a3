"""Where partitions are on the disk, by Kafka's names: `<topic>-<partition>/` with the id of the topic in `partition.metadata`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nodes.reference.environment import Disk
from nodes.reference.log import checkpoint
from nodes.reference.metadata.entities import PartitionId
from nodes.reference.raft import storage

_METADATA: Final = "partition.metadata"


def directory(topic: str, index: int) -> str:
    """Topic names have letters, digits, `.`, `_` and `-` only; the controller sees to that, and this does, too."""
    if (
        not topic
        or topic in (".", "..")
        or not all((letter.isascii() and letter.isalnum()) or letter in "._-" for letter in topic)
    ):
        raise ValueError(f"{topic!r} is no name of a topic")
    path = f"{topic}-{index}"
    if path == storage.DIRECTORY:
        raise ValueError(f"{topic!r} is the metadata log's")
    return path


def prepare(disk: Disk, topic: str, id: PartitionId) -> str:
    """The directory of a partition. What a deleted topic of the same name has left there is removed (KIP-516).

    Which topic it is is not synced: where a crash of the machine took it, or left no name in it, what is there is taken for this topic's.
    """
    path = directory(topic, id.number)
    content = f"version: 0\ntopic_id: {id.topic_id}\n".encode()
    there = disk.read(f"{path}/{_METADATA}")
    if there != content:
        if there is not None and len(there) == len(content) and there.startswith(b"version: 0\ntopic_id: "):
            delete(disk, topic, id)
        disk.make_directory(path)
        disk.replace(f"{path}/{_METADATA}", content, sync=False)
    return path


def delete(disk: Disk, topic: str, id: PartitionId) -> None:
    """The name of the topic goes last, so that what a crash leaves is known for what it is."""
    path = directory(topic, id.number)
    names = disk.list(path)
    for name in sorted(names, key=lambda name: name == _METADATA):
        disk.remove(f"{path}/{name}")


def offsets(disk: Disk, path: str) -> Mapping[tuple[str, int], int]:
    """Of a checkpoint; none where it is not readable: a high watermark is learnt anew, and a log is flushed again."""
    try:
        return checkpoint.read_offsets(disk, path)
    except checkpoint.BadCheckpoint:
        return {}
