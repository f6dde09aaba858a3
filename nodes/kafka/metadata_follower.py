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

from nodes.kafka.metadata_log import BadLog, Batch, batches
from nodes.kafka.metadata_rows import Story, base_offset, beginning, snapshot_rows
from nodes.metadata_row import MetadataRow
from nodes.node import Mark, Node, NodeError

LOG: Final = "data/__cluster_metadata-0"
LOOK_S: Final = 0.02
SEGMENTS_S: Final = 0.5  # how often to look for a new segment
WAIT_S: Final = 0.1  # until a log that is not there yet is looked for again
LARGEST: Final = 16 << 20  # bytes of one look: more than the largest batch (8 MiB)
PATIENCE: Final = 10  # attempts at bytes that do not decode, LOOK_S apart and more, before they are called broken


async def follow(node: Node, *, run: str, clock: str) -> AsyncIterator[Sequence[MetadataRow]]:
    """Rows as they appear, some at a time; none at all when what follows is told from the log's beginning.

    A missing log is waited for. BadLog when bytes stay undecodable.
    """
    failures, last = 0, ""
    while True:
        try:
            async for told in _from_the_beginning(node, Story(run, clock, node.name)):
                yield told
        except BadLog as bad:
            failures, last = (failures + 1 if str(bad) == last else 1), str(bad)
            if failures >= PATIENCE:
                raise
        except NodeError:  # a file went away between two looks at it
            pass
        await asyncio.sleep(LOOK_S * (1 + failures))


async def _from_the_beginning(node: Node, story: Story) -> AsyncIterator[Sequence[MetadataRow]]:
    """Ends, or raises BadLog, when the log is not the one any more that it began with."""
    segments, snapshot, first = beginning(await node.list(LOG))
    if not segments:
        await asyncio.sleep(WAIT_S)
        return
    yield []
    if snapshot is not None:
        content = await node.read(f"{LOG}/{snapshot}")
        yield snapshot_rows(story, snapshot, content, at_ns=time.monotonic_ns())
    segment, expected = segments[0], base_offset(segments[0]) or 0
    mark, looked = Mark(), time.monotonic()
    while True:
        tail = await node.tail(f"{LOG}/{segment}", mark, limit=LARGEST)
        at_ns = time.monotonic_ns()
        if tail.start != mark.position:
            return
        whole = _following(tail.content, expected, at=mark.position)
        if whole:
            expected, consumed = whole[-1].next_offset, whole[-1].end
            mark = Mark(identity=tail.mark.identity, position=tail.start + consumed)
            rows = [row for batch in whole for row in batch.rows if row.offset >= first]
            if rows:
                yield [story.tell(row, at_ns=at_ns) for row in rows]
        elif time.monotonic() - looked > SEGMENTS_S:
            looked = time.monotonic()
            there, _, _ = beginning(await node.list(LOG))
            if segment not in there:
                return
            if f"{expected:020}.log" in there and expected != base_offset(segment):
                segment, mark = f"{expected:020}.log", Mark()
        else:
            await asyncio.sleep(LOOK_S)


def _following(content: bytes, expected: int, *, at: int) -> list[Batch]:
    """The whole batches of what was added to a segment, as far as they are good. BadLog when not even the first one follows."""
    found: list[Batch] = []
    try:
        for batch in batches(content):
            if batch.base_offset != expected:
                break
            found.append(batch)
            expected = batch.next_offset
    except BadLog:
        if not found:
            raise
    written = len(content) >= 8 and any(content)  # space that is preallocated is zero
    if not found and written and int.from_bytes(content[:8], "big") != expected:
        raise BadLog(f"metadata log, byte {at}: not the batch of offset {expected} that should follow")
    return found
