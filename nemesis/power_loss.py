"""Power loss: kill -9, and throw away what the node had written but not synced.

Why: kill -9 alone keeps the page cache, so it loses nothing that was written, and Kafka acknowledges without fsync. After a real power cut
the tail of each log that was not flushed may be gone. A broker says itself how far each log was flushed: `recovery-point-offset-checkpoint`
(Kafka's advances when a segment is rolled and on clean shutdown, and is written once a minute). What is above it is thrown away: all of it
(`lost: all`, the worst case), or from a random batch on in each partition (`lost: some`; the kernel writes back at its own pace, and
recovery keeps a valid prefix).

A flush policy (`flush.messages`, `log.flush.interval.messages`) promises more than the checkpoint tells: of what it has surely flushed
nothing is thrown away, or a broker that keeps its word would be accused. `flush.ms` promises nothing before a record is acknowledged.

Of its metadata log Kafka loses nothing: voters sync it before they answer. A node that tells what it has not synced of it (the reference
cluster's, nemesis/unsynced.py) loses that, so controllers of such a cluster are targets too.

Left alone: checkpoints (Kafka syncs and renames them), producer snapshots below the cut. Indexes above the cut are deleted; Kafka rebuilds
them after an unclean shutdown.

Proof: the process is gone by SIGKILL, every cut segment has the expected size, and the deleted files are gone; the sentence says which
offsets were thrown away.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar, Literal

from pydantic import BaseModel, Field

from nemesis import unsynced
from nemesis.disks import DATA, DiskFault, log_sizes
from nemesis.fault import Proof, Unproved
from nemesis.processes import NoSettings
from nemesis.segments import Truncation, batches, flushed_to, recovery_points, truncation, unsynced_segments
from nemesis.stage import Stage
from nodes.node import Node

CHECKPOINT = "recovery-point-offset-checkpoint"
METADATA_LOG = "__cluster_metadata-0"


class PowerLossSettings(NoSettings):
    lost: Literal["all", "some"] = Field("all", description="all that was not synced, or from a random batch on")


@dataclass(frozen=True, kw_only=True)
class _Lost:
    partition: str  # "log-0"
    directory: str  # below the node's home
    cut: Truncation


@dataclass(frozen=True, kw_only=True)
class _Synced:
    to: int  # offset, by the checkpoint
    every: int | None  # and by the flush policy, if it goes beyond that


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What one node lost."""

    partitions: tuple[_Lost, ...]
    metadata: tuple[str, ...]  # in words, a file each

    @property
    def bytes(self) -> int:
        """Of partitions."""
        return sum(each.cut.lost_bytes for each in self.partitions)

    def __str__(self) -> str:
        said = [
            *(
                f"{each.partition} offsets {each.cut.first_lost}..{each.cut.next_offset - 1} ({each.cut.lost_bytes} bytes)"
                for each in self.partitions
            ),
            *self.metadata,
        ]
        return ", ".join(said) or "nothing, all was synced"


class PowerLoss(DiskFault):
    kind: ClassVar[str] = "power-loss"
    Settings: ClassVar[type[BaseModel]] = PowerLossSettings
    name = "power-loss"

    async def lose(self, on: Stage) -> Proof:
        some = self.order.settings.lost == "some"
        losses = (lose_unsynced(on, name, random.Random(self.order.draw) if some else None) for name in self.hit)
        lost = dict(zip(self.hit, await asyncio.gather(*losses), strict=True))
        said = "; ".join(f"{name} lost {loss}" for name, loss in lost.items())
        return Proof(
            sentence=f"killed, and what was not synced is gone: {said}",
            counts={name: loss.bytes for name, loss in lost.items()},
        )


async def lose_unsynced(on: Stage, name: str, rng: random.Random | None) -> Loss:
    """Throw away what a node that does not run had not synced: all of it, or in each partition what an `rng` says.

    Unproved when nobody knows what it had synced, and when a file is not as it should be afterwards.
    """
    node = on.nodes[name]
    files = await node.list(DATA)
    checkpoints = [path for path in files if PurePosixPath(path).name == CHECKPOINT]
    if not checkpoints and not await unsynced.tells(node):
        raise Unproved(f"{node.name} has no {CHECKPOINT} below {DATA}/, so nobody knows what it had synced")
    metadata = await unsynced.take_back(node)
    return Loss(
        partitions=tuple(await _Partitions(on, node, files, rng).shorten(checkpoints)), metadata=tuple(metadata)
    )


@dataclass(frozen=True)
class _Partitions:
    on: Stage
    node: Node
    files: list[str]  # below the data directory
    rng: random.Random | None

    async def shorten(self, checkpoints: list[str]) -> list[_Lost]:
        node, found = self.node, []
        for checkpoint in checkpoints:
            top = str(PurePosixPath(DATA, checkpoint).parent)
            points = recovery_points((await node.read(f"{DATA}/{checkpoint}")).decode())
            for partition in _partitions(self.files, str(PurePosixPath(checkpoint).parent)):
                topic, _, number = partition.rpartition("-")
                names = [
                    path.rpartition("/")[2]
                    for path in self.files
                    if PurePosixPath(DATA, path).parent == PurePosixPath(top, partition)
                ]
                every = self.on.flushed_every(node.name, topic)
                synced = _Synced(to=points.get((topic, int(number)), 0), every=every)
                found.append(await self._shorten(f"{top}/{partition}", partition, names, synced))
        await _check(node, found)
        return [each for each in found if each.cut.segment is not None]

    async def _shorten(self, directory: str, partition: str, names: list[str], synced: _Synced) -> _Lost:
        node = self.node
        contents: dict[str, bytes | None] = dict.fromkeys(names)
        for name in unsynced_segments(names, synced.to):
            contents[name] = await node.read(f"{directory}/{name}")
        synced_to = max(synced.to, flushed_to(contents, synced.every))
        keep_to = synced_to
        if self.rng is not None:
            starts = [
                batch.base_offset
                for content in contents.values()
                if content is not None
                for batch in batches(content)
                if batch.base_offset >= synced_to
            ]
            keep_to = sorted(starts)[self.rng.randrange(len(starts))] if starts else synced_to
        cut = truncation(contents, keep_to)
        if cut.segment is not None:
            await node.truncate(f"{directory}/{cut.segment}", cut.size)
            await node.wipe(directory, keep=tuple(name for name in names if name not in cut.delete))
        return _Lost(partition=partition, directory=directory, cut=cut)


def _partitions(files: list[str], top: str) -> list[str]:
    """Names of the partition directories in one log directory."""
    found = {PurePosixPath(path).parent.name for path in files if str(PurePosixPath(path).parent.parent) == top}
    return sorted(name for name in found if name != METADATA_LOG and name.rpartition("-")[2].isdigit())


async def _check(node: Node, lost: list[_Lost]) -> None:
    sizes, files = await log_sizes(node, DATA), set(await node.list(DATA))
    for each in lost:
        below = PurePosixPath(each.directory).relative_to(DATA)
        if each.cut.segment is not None and sizes.get(str(below / each.cut.segment)) != each.cut.size:
            raise Unproved(
                f"{node.name}: {below / each.cut.segment} should have {each.cut.size} bytes, and has "
                f"{sizes.get(str(below / each.cut.segment))}"
            )
        if left := [name for name in each.cut.delete if str(below / name) in files]:
            raise Unproved(f"{node.name}: {', '.join(left)} in {below} should be gone")
