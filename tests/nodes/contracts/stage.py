"""What a contract gets: idle nodes without cuts on one backend, and ways to watch them without sleeping."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from nodes.backend import Backend
from nodes.node import Command, Node

SOON = 120.0  # deadline for what happens at once on an idle machine
QUIET = 0.3  # seconds in which nothing may happen: ten steps of TICK
TICK = "while :; do echo tick; sleep 0.03; done"
LOG = "log/stdout.log"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Servers may have a POSIX shell, coreutils and setsid only; what needs more runs in the clients, with the
    harness's Python."""

    backend: Backend
    b1: Node  # has the mount "words" with a file word.txt
    b2: Node
    w1: Node  # client
    w2: Node  # client
    scratch: Path  # a directory of the harness

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.b1, self.b2, self.w1, self.w2


def shell(script: str, **env: str) -> Command:
    return Command(argv=("sh", "-c", script), env=env)


def closing(lines: AsyncIterator[str]) -> aclosing[AsyncGenerator[str, None]]:
    return aclosing(cast(AsyncGenerator[str, None], lines))


async def until(node: Node, start: str, path: str = LOG, *, nth: int = 1) -> str:
    """The nth line of a file that starts so; TimeoutError when it does not come."""
    async with asyncio.timeout(SOON), closing(node.lines(path)) as lines:
        async for line in lines:
            nth -= line.startswith(start)
            if nth == 0:
                return line
    raise AssertionError(f"{node.name}: the lines of {path} ended")


async def grows(node: Node, path: str = LOG) -> bool:
    """Does a file get a new line within QUIET seconds?"""
    known = (await node.read(path)).count(b"\n")
    async with closing(node.lines(path)) as lines:
        for _ in range(known):
            await anext(lines)
        try:
            async with asyncio.timeout(QUIET):
                await anext(lines)
        except TimeoutError:
            return False
        return True
