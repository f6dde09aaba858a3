"""One host over SSH: a verified connection, and shell commands through it. Everything here blocks.

The host's key must be known beforehand (`known_hosts`); an unknown or changed one ends the attempt. The socket is our
own, for TCP_NODELAY: a command on loopback takes 5 ms with it and 48 without. What the user's login shell runs first
(bash reads ~/.bashrc for every command over SSH) comes on top.
"""

from __future__ import annotations

import shlex
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodes.node import Completed, NodeError

if TYPE_CHECKING:
    from fabric import Connection
    from paramiko import Channel

_CONNECT_SECONDS = 10.0
_SESSIONS = 8  # at once; sshd allows 10 per connection unless told otherwise
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Host:
    """A machine that may become a node."""

    host: str  # name or address to connect to
    address: str  # IPv4 by which the other nodes reach it
    user: str
    key: Path  # private key
    known_hosts: Path  # holds the host's public key
    port: int = 22
    python: tuple[str, ...] = ()  # interpreter with krash installed; only such a host can be a client
    directory: str = "/var/tmp/krash"  # noqa: S108 - homes go below a directory there that is named after the run
    sudo: bool = False  # put `sudo -n` before iptables and ss

    def as_json(self) -> dict[str, Any]:
        return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Host:
        typed = {"key": Path(found["key"]), "known_hosts": Path(found["known_hosts"]), "python": tuple(found["python"])}
        return cls(**{**found, **typed})

    def command(self, argv: Sequence[str]) -> list[str]:
        """A command of this machine that runs argv there, in the terminal of whoever starts it."""
        known = f"UserKnownHostsFile={self.known_hosts}"
        options = ["-t", "-p", str(self.port), "-i", str(self.key), "-o", known, "-o", "StrictHostKeyChecking=yes"]
        return ["ssh", *options, f"{self.user}@{self.host}", "--", shlex.join(argv)]


class Remote:
    """A connection to a host; threads may share it."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._connection = _connected(host)
        self._free = threading.BoundedSemaphore(_SESSIONS)

    def close(self) -> None:
        self._connection.close()

    def session(self, command: str) -> Channel:
        """Start a command; the caller talks to it and closes the channel."""
        from paramiko import SSHException

        try:
            channel = self._connection.client.get_transport().open_session()
            channel.exec_command(command)
        except (SSHException, OSError, AttributeError) as error:
            raise NodeError(f"{self.host.host}: the SSH connection is lost: {error}") from error
        found: Channel = channel
        return found

    def execute(self, command: str, *, stdin: bytes = b"", timeout: float) -> Completed:
        """Run a command of the remote shell to its end; code -1 when a signal ended it. TimeoutError leaves it running."""
        with self._free, self.session(command) as channel, ThreadPoolExecutor(3) as threads:
            end = time.monotonic() + timeout
            sending = threads.submit(_send, channel, stdin)
            reading = [threads.submit(_read, receive) for receive in (channel.recv, channel.recv_stderr)]
            try:
                stdout, stderr = (future.result(end - time.monotonic()) for future in reading)
                code = channel.recv_exit_status()
            finally:
                channel.close()
            sending.result()
            return Completed(code=code, stdout=stdout, stderr=stderr)


def _connected(host: Host) -> Connection:
    """NodeError says which host did not let us in and what to do about it."""
    from fabric import Connection
    from paramiko import AuthenticationException, BadHostKeyException, RejectPolicy, SSHException

    where = f"{host.user}@{host.host} port {host.port}"
    try:
        plain = socket.create_connection((host.host, host.port), timeout=_CONNECT_SECONDS)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        how = {
            "sock": plain,
            "key_filename": str(host.key),
            "look_for_keys": False,
            "allow_agent": False,
        }
        connection = Connection(host.host, user=host.user, port=host.port, connect_kwargs=how)
        connection.client.load_host_keys(str(host.known_hosts))
        connection.client.set_missing_host_key_policy(RejectPolicy())
        connection.open()
    except BadHostKeyException as error:
        raise NodeError(
            f"{where}: its host key has changed, which may be an attack. If it is expected: "
            f"ssh-keygen -R '{_known_as(host)}' -f {host.known_hosts}, and add the new key"
        ) from error
    except AuthenticationException as error:
        raise NodeError(f"{where}: the key {host.key} was not accepted: {error}") from error
    except (SSHException, OSError) as error:
        hint = f"; add its key: ssh-keyscan -p {host.port} {host.host} >> {host.known_hosts}, after checking it"
        unknown = "not found in known_hosts" in str(error)
        raise NodeError(f"{where}: cannot connect: {error}{hint if unknown else ''}") from error
    return connection


def _known_as(host: Host) -> str:
    return host.host if host.port == 22 else f"[{host.host}]:{host.port}"


def _send(channel: Channel, content: bytes) -> None:
    with suppress(OSError):  # it may end without reading all
        channel.sendall(content)
        channel.shutdown_write()


def _read(receive: Any) -> bytes:
    chunks = []
    while chunk := receive(_CHUNK_BYTES):
        chunks.append(chunk)
    return b"".join(chunks)
