"""Kafka's checkpoint files: small tables of numbers as text, replaced as a whole, so that a crash leaves the old one or the new one.

leader-epoch-checkpoint (one for each log)          replication-offset-checkpoint (one for the broker: high watermarks)
    0            version                                0
    2            lines                                  1
    0 0          epoch, start offset                    orders 0 1200        topic, partition, offset
    4 120
                                                    recovery-point-offset-checkpoint, alike: below it a log was flushed. Unlike Kafka's,
                                                    which lags up to a minute, it is written with every flush.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from nodes.reference.environment import Disk
from nodes.reference.log.epochs import EpochStart

LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
_VERSION: Final = "0"


class BadCheckpoint(Exception):
    """A checkpoint that does not parse. What it holds can be learnt anew: remove the file."""


def write_epochs(disk: Disk, path: str, entries: Iterable[EpochStart]) -> None:
    """For Kafka's tools and for people: a log derives its epochs from its batches."""
    _write(disk, path, [f"{entry.epoch} {entry.offset}" for entry in entries])


def write_offsets(disk: Disk, path: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """(topic, partition) -> offset."""
    _write(disk, path, [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())])


def read_offsets(disk: Disk, path: str) -> dict[tuple[str, int], int]:
    """Empty if there is no file."""
    return {(topic, int(partition)): int(offset) for topic, partition, offset in _read(disk, path, 3)}


def _write(disk: Disk, path: str, lines: list[str]) -> None:
    """Not synced: a broker that opens a hundred partitions would wait for the medium hundreds of times, for what it can learn anew."""
    text = "\n".join([_VERSION, str(len(lines)), *lines]) + "\n"
    disk.replace(path, text.encode(), sync=False)


def _read(disk: Disk, path: str, columns: int) -> list[list[str]]:
    content = disk.read(path)
    if content is None:
        return []
    try:
        version, count, *lines = content.decode().splitlines()
        rows = [line.split(" ") for line in lines]
        sound = version == _VERSION and int(count) == len(rows) and all(len(row) == columns for row in rows)
        if sound and all(number.isdecimal() for row in rows for number in row[columns - 2 :]):
            return rows
    except ValueError:  # not UTF-8, too few lines, or no count
        pass
    raise BadCheckpoint(f"{path} is no checkpoint of {columns} columns; remove it, its content can be learnt anew")
