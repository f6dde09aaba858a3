"""The local backend: nodes are processes in network namespaces of this machine, inside the run's enclosure
(`enclosure.py`). Root is not needed.

Each node, server or client, has a network namespace with one interface on a bridge; the driver has the bridge's own
address, so its observers reach every node whatever is cut between them:

    driver 10.77.0.1 (krash0) -+- veth11 | eth0 10.77.0.11 (b1)
                               +- veth12 | eth0 10.77.0.12 (b2) ...

All share this machine's file system and clock; a node's home is `<home>/<name>`. Memory and CPU limits are not
enforced here (no Capability.LIMITS): an ordinary user has no cgroups to do it with. Nothing can be left over, so
there is nothing to sweep: see `enclosure.py`.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from nodes.backend import Capability, Leftover, Requirement, unheard
from nodes.backends import enclosure, iptables, local_requirements
from nodes.backends.local_node import LocalNode
from nodes.backends.namespaces import Place, datagram_arrives, new_namespace, own_namespace, within
from nodes.backends.packet_filter import PacketFilter
from nodes.backends.processes import Surroundings, system_command
from nodes.backends.requirements import SEARCH_PATH
from nodes.network import Network
from nodes.node import Completed, Node, NodeError, NodeRequest, Role

_BRIDGE = "krash0"
_SUBNET = "10.77.0"
_FIRST, _LAST = 11, 254  # last byte of the nodes' addresses
_NAME = re.compile(r"[a-z][a-z0-9-]{0,14}")
_PACKAGES = Path(__file__).resolve().parents[2]  # where `harness` can be imported from


class LocalBackend:
    """Implements `nodes.backend.Backend`."""

    name: ClassVar[str] = "local"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.CUT, Capability.PAUSE, Capability.FILES, Capability.CLIENTS, Capability.WIRE}
    )
    clock = "host"
    network: Network

    @classmethod
    def probe(cls) -> list[Requirement]:
        return local_requirements.probe(cls.enclose)

    @classmethod
    def enclose(cls, argv: Sequence[str]) -> list[str]:
        """Argv inside fresh namespaces that end with this process (see `enclosure.py`, exit codes included).

        The caller itself must start it, from a thread that lives as long as the run: best from the main thread.
        """
        return [sys.executable, "-I", "-S", enclosure.__file__, str(os.getpid()), *argv]

    @classmethod
    def leftovers(cls) -> list[Leftover]:
        return []

    @classmethod
    def sweep(cls, run: str) -> list[str]:
        return []

    async def open(
        self, *, run: str, home: Path, image: str | None = None, progress: Callable[[str], None] = unheard
    ) -> None:
        """Make the bridge. NodeError outside an enclosure: this machine's own network is never touched."""
        if image is not None:
            raise NodeError(
                f"the local backend has no images ({image} in the spec): use --backend docker, or leave it out"
            )
        if not enclosure.inside():
            raise NodeError("the local backend works only inside LocalBackend.enclose(...); nothing was changed")
        iptables.chain_of(run)
        self._env = {"PATH": SEARCH_PATH, "LANG": "C.UTF-8", "KRASH_RUN": run}
        self._home = home
        self._nodes: dict[str, LocalNode] = {}
        self._unused = iter(range(_FIRST, _LAST + 1))
        self._here = own_namespace()
        self._filter = PacketFilter(
            run, execute=self._execute, reaches=self._reaches, namespace=lambda node: self._nodes[node].place.namespace
        )
        self.network = self._filter
        await within(self._here, _no_ipv6)
        await self._ip(
            self._here,
            "link set lo up",
            f"link add {_BRIDGE} type bridge",
            f"addr add {_SUBNET}.1/24 dev {_BRIDGE}",
            f"link set {_BRIDGE} up",
        )

    async def add(self, request: NodeRequest) -> Node:
        name = request.name
        if not _NAME.fullmatch(name):
            raise NodeError(f"node name {name!r}: expected a-z, then up to 14 of a-z, 0-9 and '-'")
        if name in self._filter.addresses:
            raise NodeError(f"there is a node {name} already")
        number = next(self._unused, None)
        if number is None:
            raise NodeError(f"{name}: no address left; the local backend has room for {_LAST - _FIRST + 1} nodes")
        self._filter.addresses[name] = address = f"{_SUBNET}.{number}"
        namespace = await self._connected(number, address)
        with_python = request.python or request.role is Role.CLIENT
        env = {**self._env, "KRASH_NODE": name}
        directory = self._home / name
        directory.mkdir(parents=True, exist_ok=True)
        self._nodes[name] = LocalNode(
            name,
            directory,
            Place(namespace, address),
            clock=self.clock,
            python=(sys.executable,) if with_python else (),
            mounts={mount: path.resolve() for mount, path in request.mounts.items()},
            env={**env, "PYTHONPATH": str(_PACKAGES)} if with_python else env,
        )
        return self._nodes[name]

    async def close(self) -> None:
        """Kill all nodes' processes and remove their links. Fine when `open` failed or was never called."""
        if not hasattr(self, "_here"):
            return
        nodes = self._nodes.values()
        await asyncio.gather(*(node.end() for node in nodes))
        links = [f"link del veth{node.address.rpartition('.')[2]}" for node in nodes]
        await self._ip(self._here, *links, f"link del {_BRIDGE}")
        for namespace in (*(node.place.namespace for node in nodes), self._here):
            os.close(namespace)
        del self._here

    async def _connected(self, number: int, address: str) -> int:
        """A new network namespace with `address`, connected to the bridge."""
        namespace = await new_namespace()
        link = f"veth{number}"
        await self._ip(
            self._here,
            f"link add {link} type veth peer name eth0 netns /proc/{os.getpid()}/fd/{namespace}",
            f"link set {link} master {_BRIDGE} up",
        )
        await within(namespace, _no_ipv6)
        await self._ip(namespace, "link set lo up", f"addr add {address}/24 dev eth0", "link set eth0 up")
        return namespace

    async def _ip(self, namespace: int, *commands: str) -> None:
        done = await self._command(namespace, ("ip", "-batch", "-"), "\n".join(commands).encode())
        if done.code != 0:
            raise NodeError(f"ip -batch failed: {done.stderr.decode().strip()}\n{'; '.join(commands)}")

    async def _execute(self, node: str, argv: tuple[str, ...], stdin: bytes) -> Completed:
        return await self._command(self._nodes[node].place.namespace, argv, stdin)

    async def _command(self, namespace: int, argv: tuple[str, ...], stdin: bytes) -> Completed:
        return await system_command(argv, Surroundings(namespace=namespace, cwd=Path("/"), env=self._env), stdin)

    async def _reaches(self, source: str, destination: str) -> bool:
        return await datagram_arrives(self._nodes[source].place, self._nodes[destination].place)


def _no_ipv6() -> None:
    """Rules are for IPv4; leave no other way between nodes."""
    for which in ("all", "default"):
        with suppress(FileNotFoundError):  # a kernel without IPv6
            Path(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6").write_text("1")
