"""What the conditions of a race look at: views of the cluster, states of processes, lines of server logs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from nodes.node import ProcessState
from nodes.view import ClusterView

SERVER_LOG = "log/server.log"
FIRST_LINES_S = 0.3  # what a newly followed log gets to be read as far as it goes


class ClusterEyes:
    """The `Eyes` of conditions.py on a cluster. Logs are followed from the first time that somebody asks for them."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self._names: dict[int, str] = {plan.id: plan.name for plan in cluster.topology.nodes}
        self._ids = {name: id for id, name in self._names.items()}
        self._lines: dict[str, list[str]] = {}
        self._following: list[asyncio.Task[None]] = []

    async def view(self) -> ClusterView:
        seen: ClusterView = await self.cluster.view()
        return seen

    def name_of(self, id: int) -> str:
        return self._names.get(id, f"broker {id}")

    def id_of(self, name: str) -> int:
        if name not in self._ids:
            raise KeyError(f"no server {name!r}; there are {', '.join(self._ids)}")
        return self._ids[name]

    async def state(self, name: str) -> ProcessState:
        state: ProcessState = await self.cluster.nodes[name].state()
        return state

    async def log(self, name: str) -> Sequence[str]:
        if name not in self._lines:
            self._lines[name] = []
            self._following.append(asyncio.create_task(self._follow(name), name=f"log of {name}"))
            await asyncio.sleep(FIRST_LINES_S)
        return self._lines[name]

    async def _follow(self, name: str) -> None:
        async with aclosing(self.cluster.nodes[name].lines(SERVER_LOG)) as lines:
            async for line in lines:
                self._lines[name].append(line)

    async def close(self) -> None:
        for task in self._following:
            task.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)
