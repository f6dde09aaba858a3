"""The SSH backend: nodes are directories and processes on machines that somebody else runs, reached over SSH.

A stub for now: it keeps the contracts of `nodes.backend` (against sshd's of its own, in the tests), but specs cannot
name hosts yet, so `krash run --backend ssh` says so and ends. What it needs on a host, beside sshd and a known host
key: a shell, GNU coreutils, findutils, grep and tar, setsid, procps, Python 3 (to send datagrams), iptables and ss as root (or
through `sudo -n` where the host says so), and for clients an interpreter with krash.

    SshBackend(hosts=[Host(host="10.0.0.5", address="10.0.0.5", user="root", key=..., known_hosts=...), ...])

Each node takes the next host of the list (a client, or a server that asks for it, the next that has a Python). On a
host a run leaves, until `close`: <directory>/<run>/, processes with KRASH_RUN in their environment, and its own iptables
chain. Clocks differ between hosts: each node has a clock domain of its own.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from nodes.backend import Capability, Leftover, Requirement, unheard
from nodes.backends import iptables, ssh_leftovers
from nodes.backends.packet_filter import PacketFilter
from nodes.backends.ssh_host import Host, Remote
from nodes.backends.ssh_node import SshNode
from nodes.network import Network
from nodes.node import Completed, Node, NodeError, NodeRequest, Role

NO_HOSTS = (
    "the ssh backend has no hosts: specs cannot name any yet, so only programs can use it (SshBackend(hosts=...))"
)
REACH_SECONDS = 0.9
_NAME = re.compile(r"[a-z][a-z0-9-]{0,14}")
_COMMAND_SECONDS = 30.0
# Prints its port; after a line of input, or at once when the word has come, whether the word arrives in time.
_RECEIVE = """
import select, socket, sys
address, word, patience = sys.argv[1], sys.argv[2].encode(), float(sys.argv[3])
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind((address, 0))
print(receiver.getsockname()[1], flush=True)
waiting, limit = [receiver, sys.stdin], None
while True:
    ready = select.select(waiting, [], [], limit)[0]
    if receiver in ready and receiver.recv(100) == word:
        print("yes"); break
    if not ready:
        print("no"); break
    if sys.stdin in ready:
        waiting, limit = [receiver], patience
"""
_SEND = """
import socket, sys, time
source, word, address, port = sys.argv[1:]
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.bind((source, 0))
for _ in range(5):
    sender.sendto(word.encode(), (address, int(port)))
    print("sent", flush=True)
    time.sleep(0.15)
"""


class SshBackend:
    """Implements `nodes.backend.Backend`."""

    name: ClassVar[str] = "ssh"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.CUT, Capability.PAUSE, Capability.FILES, Capability.CLIENTS}
    )
    clock = "host"
    network: Network

    def __init__(self, hosts: Sequence[Host] = ()) -> None:
        self._hosts = tuple(hosts)

    @classmethod
    def probe(cls) -> list[Requirement]:
        return [
            Requirement(
                name="hosts",
                present=False,
                found="a stub: specs cannot name hosts yet",
                remedy="use --backend local or docker",
            )
        ]

    @classmethod
    def enclose(cls, argv: Sequence[str]) -> list[str]:
        return list(argv)

    @classmethod
    def leftovers(cls) -> list[Leftover]:
        return ssh_leftovers.leftovers()

    @classmethod
    def sweep(cls, run: str) -> list[str]:
        return ssh_leftovers.remove(run)

    async def open(
        self, *, run: str, home: Path, image: str | None = None, progress: Callable[[str], None] = unheard
    ) -> None:
        """Connect to all hosts. NodeError when there are none, or names the one that did not let us in."""
        if image is not None:
            raise NodeError(
                f"the ssh backend has no images ({image} in the spec): use --backend docker, or leave it out"
            )
        if not self._hosts:
            raise NodeError(NO_HOSTS)
        iptables.chain_of(run)
        self._run = run
        self._nodes: dict[str, SshNode] = {}
        self._remotes: list[Remote] = []
        self._filter = PacketFilter(run, execute=self._execute, reaches=self._reaches)
        self.network = self._filter
        for host in self._hosts:
            progress(f"connecting to {host.host}")
            self._remotes.append(await asyncio.to_thread(Remote, host))
        self._free = list(self._remotes)
        await asyncio.to_thread(ssh_leftovers.note, run, self._hosts)

    async def add(self, request: NodeRequest) -> Node:
        name, with_python = request.name, request.python or request.role is Role.CLIENT
        if not _NAME.fullmatch(name):
            raise NodeError(f"node name {name!r}: expected a-z, then up to 14 of a-z, 0-9 and '-'")
        if name in self._nodes:
            raise NodeError(f"there is a node {name} already")
        fitting = [remote for remote in self._free if remote.host.python or not with_python]
        if not fitting:
            wanted = "with a Python that has krash " if with_python else ""
            raise NodeError(f"{name}: no host {wanted}is left of {len(self._hosts)}")
        # Hosts with a Python go to nodes that need none only when there are no others.
        remote = min(fitting, key=lambda remote: bool(remote.host.python) and not with_python)
        self._free.remove(remote)
        place = f"{remote.host.directory}/{self._run}/{name}"
        node = SshNode(name, remote, place, run=self._run, mounts=tuple(request.mounts), with_python=with_python)
        self._nodes[name] = node
        self._filter.addresses[name] = node.address
        await node.prepare(request.mounts)
        return node

    async def close(self) -> None:
        """Remove the run from all hosts. Fine when `open` failed or was never called. NodeError when a host kept something."""
        remotes = getattr(self, "_remotes", [])
        cleaned = await asyncio.gather(
            *(asyncio.to_thread(ssh_leftovers.clean, remote, self._run) for remote in remotes), return_exceptions=True
        )
        for remote in remotes:
            remote.close()
        self._remotes = []
        for result in cleaned:
            if result is not None:
                raise result
        if remotes:
            await asyncio.to_thread(ssh_leftovers.forget, self._run)

    async def _execute(self, node: str, argv: tuple[str, ...], stdin: bytes) -> Completed:
        remote = self._nodes[node].remote
        command = shlex.join([*(("sudo", "-n") if remote.host.sudo else ()), *argv])
        try:
            return await asyncio.to_thread(remote.execute, command, stdin=stdin, timeout=_COMMAND_SECONDS)
        except TimeoutError:
            raise NodeError(f"{node}: {command} took longer than {_COMMAND_SECONDS:.0f} s") from None

    async def _reaches(self, source: str, destination: str) -> bool:
        return await asyncio.to_thread(_datagram_arrives, self._nodes[source].remote, self._nodes[destination].remote)


def _datagram_arrives(source: Remote, destination: Remote) -> bool:
    """Like `namespaces.datagram_arrives`; the wait begins when the first datagram was sent."""
    word, address = secrets.token_hex(8), destination.host.address
    receive = shlex.join(["python3", "-c", _RECEIVE, address, word, str(REACH_SECONDS)])
    with destination.session(receive) as receiver:
        heard = receiver.makefile("r")
        port = heard.readline().strip()
        send = shlex.join(["python3", "-c", _SEND, source.host.address, word, address, port])
        with source.session(send) as sender:
            if sender.makefile("r").readline() != "sent\n":
                raise NodeError(f"{source.host.host}: cannot send a datagram to {address}: has it a python3?")
            with suppress(OSError):  # it has got the word and ended already
                receiver.sendall(b"now\n")
            return bool(heard.readline() == "yes\n")
