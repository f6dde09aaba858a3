"""SSH hosts to test against: local nodes whose main process is an sshd, in an enclosure of the local backend."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from nodes.backend import unheard
from nodes.backends.local import LocalBackend
from nodes.backends.ssh import SshBackend
from nodes.backends.ssh_host import Host
from nodes.node import Command, Node, NodeRequest

REPOSITORY = Path(__file__).resolve().parents[2]
PORT = 2222
SSHD = """
Port {port}
ListenAddress {address}
HostKey {home}/host_key
AuthorizedKeysFile {home}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
SetEnv HOME={home}
"""
READY_SECONDS = 30.0


async def host(machines: LocalBackend, name: str, folder: Path) -> tuple[Host, Node]:
    """A running sshd with a throwaway key of its own, and how to get in."""
    node = await machines.add(NodeRequest(name=name))
    for key in ("host_key", "user_key"):
        await node.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", node.absolute(key)), timeout=READY_SECONDS)
    await node.write("authorized_keys", await node.read("user_key.pub"))
    await node.write("sshd_config", SSHD.format(port=PORT, address=node.address, home=node.absolute(".")).encode())
    public = (await node.read("host_key.pub")).decode()
    await node.write("known_hosts", f"[{node.address}]:{PORT} {public}".encode())
    await node.start(Command(argv=("/usr/sbin/sshd", "-D", "-e", "-f", node.absolute("sshd_config"))))
    async with asyncio.timeout(READY_SECONDS):
        async for line in node.lines("log/stdout.log"):
            if "listening" in line:
                break
    found = Host(
        host=node.address,
        address=node.address,
        user="root",
        port=PORT,
        key=Path(node.absolute("user_key")),
        known_hosts=Path(node.absolute("known_hosts")),
        python=("env", f"PYTHONPATH={REPOSITORY}", sys.executable),
        directory=str(folder / name),
    )
    return found, node


class OnLoopback(SshBackend):
    """An SSH backend with hosts of its own."""

    count = 6

    def __init__(self) -> None:
        super().__init__()
        self.machines = LocalBackend()

    @classmethod
    def enclose(cls, argv: Sequence[str]) -> list[str]:
        return LocalBackend.enclose(argv)

    async def open(
        self, *, run: str, home: Path, image: str | None = None, progress: Callable[[str], None] = unheard
    ) -> None:
        os.environ.setdefault("XDG_STATE_HOME", str(home / "state"))
        os.makedirs("/run/sshd", exist_ok=True)  # the enclosure's own /run
        await self.machines.open(run="machines", home=home / "machines")
        hosts = [await host(self.machines, f"h{number}", home) for number in range(1, self.count + 1)]
        self._hosts = tuple(found for found, _ in hosts)
        await super().open(run=run, home=home, image=image, progress=progress)

    async def close(self) -> None:
        try:
            await super().close()
        finally:
            await self.machines.close()
