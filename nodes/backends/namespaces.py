"""Network namespaces as open descriptors: make one, act inside one, send a datagram from one to another.

A thread, not the process, is in a network namespace. So everything that must happen inside one happens in a thread
that is made for it, enters, acts and ends; no other code can ever find itself in the wrong namespace. What was made
there stays there: a socket belongs to the namespace it was created in, a child process to its maker's. A namespace
lives as long as a descriptor, a process or a socket holds it.

    inside = await new_namespace()
    await within(inside, lambda: subprocess.Popen(...))

`os.open("/proc/PID/ns/net", os.O_RDONLY)` gives such a descriptor for any process, e.g. of a container.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import secrets
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)

REACH_SECONDS = 0.9  # how long a datagram may take
_RESEND_SECONDS = 0.15


@dataclass(frozen=True)
class Place:
    """Where a node is on the network: a descriptor of its namespace, and its IPv4 address there."""

    namespace: int
    address: str


async def new_namespace() -> int:
    """A descriptor of a new, empty network namespace that belongs to this process's user namespace."""

    def make() -> int:
        _checked(_libc.unshare(_CLONE_NEWNET), "make a network namespace")
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    return await _in_own_thread(make)


def own_namespace() -> int:
    """A descriptor of the network namespace of this process."""
    return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


async def within(namespace: int, call: Callable[[], T]) -> T:
    """Run a short blocking call inside a network namespace."""

    def enter_and_call() -> T:
        _checked(_libc.setns(namespace, _CLONE_NEWNET), "enter a network namespace")
        return call()

    return await _in_own_thread(enter_and_call)


async def datagram_arrives(source: Place, destination: Place) -> bool:
    """Does a UDP datagram get from one place to another? One way; the answer takes up to REACH_SECONDS when it is no.

    It is sent a few times, so a firewall rule that stops it counts several packets.
    """
    receiver = await within(destination.namespace, lambda: _bound(destination.address))
    sender = await within(source.namespace, lambda: _bound(source.address))
    with receiver, sender:
        token = secrets.token_bytes(16)
        resending = asyncio.create_task(_resend(sender, token, receiver.getsockname()))
        try:
            async with asyncio.timeout(REACH_SECONDS):
                while await asyncio.get_running_loop().sock_recv(receiver, 64) != token:
                    pass
        except TimeoutError:
            return False
        finally:
            resending.cancel()
        return True


async def _resend(sender: socket.socket, token: bytes, to: tuple[str, int]) -> None:
    while True:
        sender.sendto(token, to)
        await asyncio.sleep(_RESEND_SECONDS)


def _bound(address: str) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        made.bind((address, 0))
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made


async def _in_own_thread(call: Callable[[], T]) -> T:
    with ThreadPoolExecutor(max_workers=1) as thread:
        return await asyncio.get_running_loop().run_in_executor(thread, call)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot {what}: {os.strerror(number)}")
