"""The Docker engine as krash uses it: how to reach it, and what carries a run's labels in it. Everything here blocks.

krash.run    the run's id
krash.owner  "PID STARTED" of the process that made it (start time in clock ticks since boot), to tell what was
             left from what is in use
krash.node   name of the node         } containers
krash.home   its home directory       }
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodes.backend import Leftover
from nodes.backends import processes
from nodes.backends.processes import EFFECT_SECONDS, started
from nodes.node import NodeError

if TYPE_CHECKING:
    from docker import DockerClient

RUN, OWNER, NODE, HOME = "krash.run", "krash.owner", "krash.node", "krash.home"
SOCKET = "unix:///var/run/docker.sock"
_ANSWER_SECONDS = 120
_LOOK_SECONDS = 0.01
_AT_ONCE = 4


def address() -> str:
    return os.environ.get("DOCKER_HOST") or SOCKET


@contextmanager
def connected() -> Iterator[DockerClient]:
    """A connection to the engine. NodeError when there is none."""
    import docker
    from docker.errors import DockerException

    try:
        _try_socket(address())
        client = docker.DockerClient(base_url=address(), version="auto", timeout=_ANSWER_SECONDS)
    except (DockerException, OSError) as error:
        raise NodeError(f"no Docker engine answers at {address()}: {error}; see `krash doctor`") from error
    try:
        yield client
    finally:
        client.close()


def _try_socket(where: str) -> None:
    """OSError when nobody listens there. (docker-py would say so too, and leave a socket open.)"""
    if where.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as attempt:
            attempt.connect(where.removeprefix("unix://"))


def labels(run: str) -> dict[str, str]:
    """What everything of a run made by this process carries."""
    return {RUN: run, OWNER: f"{os.getpid()} {started(os.getpid())}"}


def leftovers() -> list[Leftover]:
    """What has a run's label while the process that made it is dead; nothing when no engine answers."""
    try:
        with connected() as engine:
            return [Leftover(run=thing.labels[RUN], what=thing.what) for thing in _things(engine) if not thing.in_use]
    except NodeError:
        return []


def remove(run: str) -> list[str]:
    """Remove all containers and networks of a run, every process in their network, and their homes. NodeError when no
    engine answers."""
    with connected() as engine:
        things = _things(engine, run)
        remove_from(engine, run)
        for thing in things:
            thing.remove_home()
        return [thing.what for thing in things]


def remove_from(engine: DockerClient, run: str) -> None:
    """Remove all containers and networks of a run; homes stay."""
    things = _things(engine, run)
    for kind in ("container", "network"):
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(_Thing.remove, (thing for thing in things if thing.kind == kind)))


class _Thing:
    """A container or a network of some run."""

    def __init__(self, kind: str, found: Any, labels: dict[str, str]) -> None:
        self.what = f"{kind} {found.name}"
        self.labels = labels
        self.kind = kind
        self._found = found

    @property
    def in_use(self) -> bool:
        pid, _, since = self.labels.get(OWNER, "").partition(" ")
        return pid.isdigit() and started(int(pid)) == since != ""

    def remove(self) -> None:
        from docker.errors import NotFound

        try:
            if self.kind == "container":
                kill_all_in(self._found)
                self._found.remove(force=True, v=True)
            else:
                self._found.remove()
        except NotFound:
            return

    def remove_home(self) -> None:
        """The home of a node, and the directory of homes when this was the last one."""
        home = Path(self.labels.get(HOME, ""))
        if home.is_absolute() and home.name == self.labels.get(NODE) and home.is_dir() and not home.is_symlink():
            shutil.rmtree(home)
            if not any(home.parent.iterdir()):
                home.parent.rmdir()


def _things(engine: DockerClient, run: str | None = None) -> list[_Thing]:
    """Of one run, or of all. Containers first: a network can only go when nobody uses it."""
    label = RUN if run is None else f"{RUN}={run}"
    containers = engine.containers.list(all=True, filters={"label": label}, ignore_removed=True)
    networks = engine.networks.list(filters={"label": label})
    return [
        *(_Thing("container", found, found.labels) for found in containers),
        *(_Thing("network", found, found.attrs["Labels"]) for found in networks),
    ]


def kill_all_in(container: Any) -> None:
    """Kill every process in a container's network namespace, those of clients on this machine too.

    Needed before its removal: the kernel ends a pid namespace only when nobody holds a process of it any more.
    """
    container.reload()
    init = container.attrs["State"]["Pid"]
    try:
        namespace = os.open(f"/proc/{init}/ns/net", os.O_RDONLY) if init else None
    except OSError:
        return  # it is gone, or not on this machine
    if namespace is None:
        return
    try:
        end = time.monotonic() + EFFECT_SECONDS
        while pids := [pid for pid in processes.in_namespace(namespace) if processes.session(pid) != init]:
            if time.monotonic() > end:
                raise NodeError(f"could not kill {', '.join(map(processes.describe, pids))} in {EFFECT_SECONDS:.0f} s")
            for pid in pids:
                _signal(pid)
            time.sleep(_LOOK_SECONDS)
    finally:
        os.close(namespace)


def _signal(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
