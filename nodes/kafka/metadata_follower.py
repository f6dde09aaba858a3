"""A node's copy of the metadata log, followed while it grows, truncates, is wiped, and moves on to other segments.

The file is looked at fifty times a second (a stat of a local file takes microseconds) and read from the end of the last whole batch, so a
torn one is simply read again. When anything does not fit what was read before (another file, a shorter one, an offset that comes twice,
bytes that do not decode because the file was cut and has grown again) the log is told anew from its beginning.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Final

from nodes.kafka.metadata_log import BadLog, batches
from nodes.kafka.metadata_rows import Story, beginning, snapshot_rows
from nodes.metadata_row import MetadataRow
from nodes.node import Mark, Node, NodeError

LOG: Final = "data/__cluster_metadata-0"
LOOK_S: Final = 0.02
SEGMENTS_S: Final = 0.5  # how often to look for a new segment
LARGEST: Final = 16 << 20  # bytes of one look: more than the largest batch (8 MiB)
PATIENCE: Final = 10  # attempts at bytes that do not decode, LOOK_S apart and more, before they are called broken


async def follow(node: Node, *, run: str, clock: str) -> AsyncIterator[Sequence[MetadataRow]]:
    """Rows as they appear, some at a time; none at all when what follows is told from the log's beginning.

    A missing log is waited for. BadLog when bytes stay undecodable.
    """
    failures, furthest = 0, -1
    while True:
        try:
            async for told in _from_the_beginning(node, Story(run, clock, node.name)):
                if told and told[-1].offset > furthest:
                    failures, furthest = 0, told[-1].offset
                yield told
        except BadLog:
            failures += 1
            if failures >= PATIENCE:
                raise
        except NodeError:  # a file went away between two looks at it
            pass
        await asyncio.sleep(LOOK_S * (1 + failures))


async def _from_the_beginning(node: Node, story: Story) -> AsyncIterator[Sequence[MetadataRow]]:
    """Ends when the log is not the one any more that it began with."""
    segments, snapshot, expected = beginning(await node.list(LOG))
    if not segments:
        await asyncio.sleep(0.1)
        return
    yield []
    if snapshot is not None:
        content = await node.read(f"{LOG}/{snapshot}")
        yield snapshot_rows(story, snapshot, content, at_ns=time.monotonic_ns())
    first, segment = expected, segments[0]
    mark, looked = Mark(), time.monotonic()
    while True:
        tail = await node.tail(f"{LOG}/{segment}", mark, limit=LARGEST)
        at_ns = time.monotonic_ns()
        if tail.start != mark.position:
            return
        consumed = 0
        told: list[MetadataRow] = []
        for batch in batches(tail.content):
            if batch.base_offset < expected and batch.base_offset >= first:
                return
            consumed, expected = batch.end, max(expected, batch.next_offset)
            told += [story.tell(row, at_ns=at_ns) for row in batch.rows if row.offset >= first]
        mark = Mark(identity=tail.mark.identity, position=tail.start + consumed)
        if told:
            yield told
        if consumed:
            continue
        if time.monotonic() - looked > SEGMENTS_S:
            looked = time.monotonic()
            there, _, _ = beginning(await node.list(LOG))
            if segment not in there:
                return
            if later := [name for name in there if name > segment]:
                tail = await node.tail(f"{LOG}/{segment}", mark, limit=LARGEST)
                if not tail.content:
                    segment, mark = later[0], Mark()
                continue
        await asyncio.sleep(LOOK_S)
