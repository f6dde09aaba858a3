"""The docker backend: each node is a container of this machine's Docker engine, made and removed through its API;
everything else happens as root in the containers' namespaces.

    network krash-5f0c1e1b7a90 (a bridge of its own without a way out; the engine picks a subnet that is free)
      krash-5f0c1e1b7a90-b1   container; sleeps; NET_ADMIN on top of the engine's usual rights, never privileged
        `- java ...           main process: in all its namespaces and cgroups (`container_entry.py`)
      krash-5f0c1e1b7a90-w1   container of a client: only its network is used, by processes with the harness's Python

A node's home is `<home>/<name>` on this machine, mounted at the same path; so are the mounts of its request (read-only),
unless an image is named this machine's Java, and for servers that ask its Python (`container_python.py`). Hence paths
mean the same inside and outside, and file verbs, faults on processes and cuts (iptables inside the container's network
namespace) are those of the local backend.
Memory and CPU limits are the engine's.

The driver reaches the nodes over the bridge. Containers outlive a SIGKILL of krash: everything carries the run's labels
(`docker_engine.py`), `leftovers` finds what has lost its owner, `sweep` removes it. Root is needed, because only root
may enter the namespaces of containers; nothing here works with an engine on another machine.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, TypeVar

from nodes.backend import Capability, Leftover, Requirement, unheard
from nodes.backends import docker_engine, docker_image, docker_requirements, iptables
from nodes.backends.container_python import NO_PYTHON, MountedPython, python_of_this_machine
from nodes.backends.containers import ContainerNode, ServerNode
from nodes.backends.namespaces import Place, datagram_arrives
from nodes.backends.packet_filter import PacketFilter
from nodes.backends.processes import Surroundings, system_command
from nodes.backends.requirements import SEARCH_PATH
from nodes.network import Network
from nodes.node import Completed, Node, NodeError, NodeRequest, Role

if TYPE_CHECKING:
    from docker import DockerClient

P = ParamSpec("P")
T = TypeVar("T")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,14}")
_SLEEP = "sleep infinity & wait"  # a shell that waits reaps orphans
_PACKAGES = Path(__file__).resolve().parents[2]  # where `harness` can be imported from


class DockerBackend:
    """Implements `nodes.backend.Backend`."""

    name: ClassVar[str] = "docker"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability)
    clock = "host"
    network: Network

    @classmethod
    def probe(cls) -> list[Requirement]:
        return docker_requirements.probe()

    @classmethod
    def enclose(cls, argv: Sequence[str]) -> list[str]:
        return list(argv)

    @classmethod
    def leftovers(cls) -> list[Leftover]:
        return docker_engine.leftovers()

    @classmethod
    def sweep(cls, run: str) -> list[str]:
        return docker_engine.remove(run)

    async def open(
        self, *, run: str, home: Path, image: str | None = None, progress: Callable[[str], None] = unheard
    ) -> None:
        """Connect, provide the image, make the network. NodeError says what is missing."""
        if os.geteuid() != 0:
            raise NodeError("the docker backend needs root, to enter containers: use sudo, or --backend local")
        self._prefix = iptables.chain_of(run)
        self._run = run
        self._home = await asyncio.to_thread(home.resolve)
        self._labels = docker_engine.labels(run)
        self._env = {"PATH": SEARCH_PATH, "LANG": "C.UTF-8", "KRASH_RUN": run}
        self._nodes: dict[str, ContainerNode] = {}
        self._names: set[str] = set()
        self._pending: set[asyncio.Future[Any]] = set()
        self._filter = PacketFilter(
            run,
            execute=self._execute,
            reaches=self._reaches,
            namespace=lambda node: self._nodes[node].place.namespace,
        )
        self.network = self._filter
        self._held = ExitStack()
        self._engine: DockerClient = await asyncio.to_thread(self._held.enter_context, docker_engine.connected())
        loop = asyncio.get_running_loop()

        def tell(text: str) -> None:
            loop.call_soon_threadsafe(progress, text)

        self._image = await self._blocking(docker_image.provide, self._engine, image, tell)
        self._java = [] if image else docker_image.java_of_this_machine()
        networks = self._engine.networks
        await self._blocking(networks.create, self._prefix, driver="bridge", internal=True, labels=self._labels)

    async def add(self, request: NodeRequest) -> Node:
        name = request.name
        if not _NAME.fullmatch(name):
            raise NodeError(f"node name {name!r}: expected a-z, then up to 14 of a-z, 0-9 and '-'")
        if name in self._names:
            raise NodeError(f"there is a node {name} already")
        self._names.add(name)
        directory = self._home / name
        directory.mkdir(parents=True, exist_ok=True)
        mounts = {mount: path.resolve() for mount, path in request.mounts.items()}
        inside = python_of_this_machine() if request.python and request.role is Role.SERVER else NO_PYTHON
        container = await self._blocking(self._contain, request, directory, mounts, inside)
        init, address = _facts(container, self._prefix)
        is_client = request.role is Role.CLIENT
        env = {**self._env, **({"PYTHONPATH": str(_PACKAGES)} if is_client else _environment(container)), **inside.env}
        node = (ContainerNode if is_client else ServerNode)(
            name,
            directory,
            Place(_namespace_of(name, init), address),
            clock=self.clock,
            python=(sys.executable,) if is_client else inside.argv,
            mounts=mounts,
            env={**env, "KRASH_NODE": name},
        )
        node.init = init
        self._nodes[name] = node
        self._filter.addresses[name] = address
        return node

    async def close(self) -> None:
        """Kill all nodes' processes, remove containers and network. Fine when `open` failed or was never called."""
        if not hasattr(self, "_held"):
            return
        with self._held:
            await asyncio.gather(*self._pending, return_exceptions=True)
            ended = await asyncio.gather(*(node.end() for node in self._nodes.values()), return_exceptions=True)
            for node in self._nodes.values():
                os.close(node.place.namespace)
            if hasattr(self, "_engine"):
                await asyncio.to_thread(docker_engine.remove_from, self._engine, self._run)
        del self._held
        for failure in ended:
            if failure is not None:
                raise failure

    async def _blocking(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Talk to the engine in a thread. A cancelled caller does not stop the engine, so `close` waits for the rest."""
        task = asyncio.ensure_future(asyncio.to_thread(call, *args, **kwargs))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        return await asyncio.shield(task)

    def _contain(self, request: NodeRequest, directory: Path, mounts: Mapping[str, Path], python: MountedPython) -> Any:
        """Make and start the container of a node."""
        from docker.errors import DockerException
        from docker.types import LogConfig, Mount

        readable = {str(path): path for path in (*mounts.values(), *self._java)} | dict(python.mounts)
        try:
            container = self._engine.containers.create(
                self._image,
                entrypoint=["sh", "-c", _SLEEP],
                command=[],
                name=f"{self._prefix}-{request.name}",
                hostname=request.name,
                user="0:0",
                labels={
                    **self._labels,
                    docker_engine.NODE: request.name,
                    docker_engine.HOME: str(directory),
                },
                network=self._prefix,
                cap_add=["NET_ADMIN"],
                security_opt=["no-new-privileges", "label=disable"],
                userns_mode="host",
                mounts=[
                    Mount(str(directory), str(directory), type="bind"),
                    *(Mount(at, str(path), type="bind", read_only=True) for at, path in readable.items()),
                ],
                log_config=LogConfig(type="none"),
                **_limits(request),
            )
            container.start()
            container.reload()
        except DockerException as error:
            raise NodeError(f"{request.name}: the Docker engine could not start its container: {error}") from error
        return container

    async def _execute(self, node: str, argv: tuple[str, ...], stdin: bytes) -> Completed:
        around = Surroundings(namespace=self._nodes[node].place.namespace, cwd=Path("/"), env=self._env)
        return await system_command(argv, around, stdin)

    async def _reaches(self, source: str, destination: str) -> bool:
        return await datagram_arrives(self._nodes[source].place, self._nodes[destination].place)


def _limits(request: NodeRequest) -> dict[str, Any]:
    """No swap beyond the memory limit: a node that needs more than it may have is killed, not slow."""
    limits: dict[str, Any] = {}
    if request.memory_mib is not None:
        limits |= {"mem_limit": f"{request.memory_mib}m", "memswap_limit": f"{request.memory_mib}m"}
    if request.cpus is not None:
        limits |= {"nano_cpus": round(request.cpus * 1e9)}
    return limits


def _facts(container: Any, network: str) -> tuple[int, str]:
    """Pid of its first process, and its address."""
    state, networks = container.attrs["State"], container.attrs["NetworkSettings"]["Networks"]
    if not state["Running"]:
        raise NodeError(
            f"container {container.name} ended at once with code {state['ExitCode']}: has its image a shell?"
        )
    return int(state["Pid"]), str(networks[network]["IPAddress"])


def _environment(container: Any) -> dict[str, str]:
    """What the image sets, e.g. PATH and JAVA_HOME."""
    return dict(pair.split("=", 1) for pair in container.attrs["Config"]["Env"] or () if "=" in pair)


def _namespace_of(name: str, init: int) -> int:
    """The container's network namespace. NodeError when its engine is on another machine (a virtual one, too)."""
    with suppress(OSError):
        groups = Path(f"/proc/{init}/cgroup").read_text()
        if os.stat("/proc/self/ns/net").st_ino != os.stat(f"/proc/{init}/ns/net").st_ino and groups:
            return os.open(f"/proc/{init}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    raise NodeError(
        f"{name}: process {init} of its container is not on this machine; krash must run where the Docker engine runs"
    )
