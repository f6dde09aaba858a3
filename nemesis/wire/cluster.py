"""A cluster as faults and races act on it (`nemesis.stage.Stage`): its connections may pass a wire gate, and its clients are processes that
can be broken like servers.

`nodes` knows nothing of either; this is all that joins them. `gate` is None in runs without one, `client_processes` before clients run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from nemesis.wire.gate import Gate
from nodes.cluster import Cluster
from nodes.node import NodeError


class ClientProcesses(Protocol):
    """Whoever runs the clients, and has to know that a death is wanted."""

    async def kill(self, name: str) -> None: ...
    async def start_again(self, name: str) -> None:
        """A new process in the place of one that was killed; returns when it works."""
        ...


@dataclass(kw_only=True)
class WiredCluster(Cluster):
    gate: Gate | None = None
    client_processes: ClientProcesses | None = None

    async def start(self, name: str, *, version: str | None = None, deadline: float | None = None) -> None:
        if name in self.clients:
            await self._processes(name).start_again(name)
            return
        await super().start(name, version=version, deadline=deadline)

    async def kill(self, name: str) -> None:
        await (self._processes(name).kill(name) if name in self.clients else super().kill(name))

    async def pause(self, name: str) -> None:
        await (self.clients[name].pause() if name in self.clients else super().pause(name))

    async def resume(self, name: str) -> None:
        await (self.clients[name].resume() if name in self.clients else super().resume(name))

    def _processes(self, name: str) -> ClientProcesses:
        if self.client_processes is None:
            raise NodeError(f"{name} is a client, and clients do not run now")
        return self.client_processes
