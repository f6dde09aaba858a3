"""A whole node under connections full of nearly valid requests; Hypothesis draws them, and makes what brings it down smaller."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase

from nodes.reference.environment import Address
from tests.nodes.reference.process.generated import damaged, entity, framed, request_classes
from tests.nodes.reference.process.standing import Standing, standing
from tests.nodes.reference.process.test_robustness import OF_MEMBERS

EXAMPLES = 200  # of a round; a new node for each
CLASSES = [known for known in request_classes(every=True) if known.__api_key__ not in OF_MEMBERS]
SENT = "sent"  # the last connection that Hypothesis tried: when it has failed, the smallest one that fails


class BroughtDown(Exception):
    """The node has ended, serves nobody, or a handler raised what it should not."""


def run(seconds: float, directory: Path) -> bool:
    """False: `directory/failures` has what brought it down."""
    deadline, tried, round = time.monotonic() + seconds, 0, 0
    while time.monotonic() < deadline:
        round += 1
        with standing(directory / "node" / str(round)) as node:
            node.until_ready()
            try:
                _round(node, directory, deadline)
            except BroughtDown as error:
                (directory / "failures" / f"round-{round}.log").write_text(node.said)
                print(f"server: {error}")
                return False
            if node.end() != 0:
                (directory / "failures" / f"round-{round}.log").write_text(node.said)
                return False
        tried += EXAMPLES
        print(f"server: {tried} connections, {max(0.0, deadline - time.monotonic()):.0f} s left", flush=True)
    return True


def _round(node: Standing, directory: Path, deadline: float) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=DirectoryBasedExampleDatabase(directory / "corpus"),
        suppress_health_check=list(HealthCheck),
    )
    @given(random=st.randoms(use_true_random=False), size=st.integers(1, 5), to_controller=st.booleans())
    def connection(random: Random, size: int, to_controller: bool) -> None:
        sent = b"".join(_frame(random) for _ in range(size))
        if time.monotonic() > deadline:
            return
        (directory / "failures" / SENT).write_bytes(sent)
        asyncio.run(_send(node.controllers if to_controller else node.clients, sent))
        _check(node)

    connection()
    (directory / "failures" / SENT).unlink(missing_ok=True)


def _frame(random: Random) -> bytes:
    frame = framed(random, entity(random, random.choice(CLASSES)))
    frame = damaged(random, frame) if random.random() < 0.6 else frame
    return struct.pack(">i", len(frame)) + frame


async def _send(address: Address, sent: bytes) -> None:
    with contextlib.suppress(OSError, TimeoutError):
        reader, writer = await asyncio.open_connection(*address)
        try:
            writer.write(sent)
            async with asyncio.timeout(0.05):
                await reader.read()
        finally:
            writer.transport.abort()


def _check(node: Standing) -> None:
    if node.process.poll() is not None:
        raise BroughtDown(f"the node ended with {node.process.returncode}")
    if "could not be served" in node.said:
        raise BroughtDown("a handler raised what it should not")
    node.until_ready()
