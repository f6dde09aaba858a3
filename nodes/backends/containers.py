"""Processes inside containers, and nodes whose network namespace is a container's: what `container_entry.py` is to krash.

A container here is a place, not a process: its first process sleeps and reaps orphans. The main process of a server
and the commands beside it are started into all of its namespaces and cgroups; those of a client are processes of this
machine (the harness's own Python) that have only its network. Both are children of krash, so everything that holds
for nodes of the local backend holds for them: who belongs to a node is who is in its network namespace, except for
the container's own sleeping session.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from nodes.backends import container_entry, processes
from nodes.backends.local_node import LocalNode
from nodes.backends.processes import Child, Surroundings


class Adopted:
    """A process that somebody else started as a child of this one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode = 0

    def wait(self) -> int:
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def send_signal(self, sig: int, /) -> None:
        os.kill(self.pid, sig)


@dataclass(frozen=True, kw_only=True)
class InContainer(Surroundings):
    """All namespaces and cgroups of a container. `init`: pid of its first process, as this machine sees it."""

    init: int

    async def start(
        self,
        argv: Sequence[str],
        *,
        stdin: IO[bytes] | int = subprocess.DEVNULL,
        stdout: IO[bytes],
        stderr: IO[bytes] | int = subprocess.STDOUT,
    ) -> Child:
        order = {"init": self.init, "argv": list(argv), "env": dict(self.env), "cwd": str(self.cwd)}
        entering = asyncio.to_thread(_enter, order, stdin=stdin, stdout=stdout, stderr=stderr)
        return Child(Adopted(await entering))


def _enter(order: Mapping[str, Any], **streams: Any) -> int:
    """The pid of the new process. OSError when it cannot be executed or the container is gone."""
    report_from, report_to = os.pipe()
    with tempfile.TemporaryFile("w+") as file, os.fdopen(report_from) as reports:
        json.dump(order, file)
        file.seek(0)
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", container_entry.__file__, str(file.fileno()), str(report_to)],
                pass_fds=(file.fileno(), report_to),
                start_new_session=True,
                env={"LANG": "C.UTF-8"},
                check=False,
                **streams,
            )
        finally:
            os.close(report_to)
        said = dict(line.split(" ", 1) for line in reports.read().splitlines())
    if "failed" in said:
        if "started" in said:
            os.waitpid(int(said["started"]), 0)
        number, _, what = said["failed"].partition(" ")
        raise OSError(int(number), os.strerror(int(number)), what)
    if "started" not in said:
        raise OSError(f"the process that enters the container ended with code {done.returncode}")
    return int(said["started"])


class ContainerNode(LocalNode):
    """A client: processes of this machine in a container's network."""

    init: int

    def _everything(self) -> list[int]:
        return [pid for pid in super()._everything() if processes.session(pid) != self.init]


class ServerNode(ContainerNode):
    """A server: processes wholly inside its container."""

    def _around(self, env: Mapping[str, str]) -> Surroundings:
        merged = {**self._env, **env}
        return InContainer(namespace=self.place.namespace, cwd=Path(self.directory), env=merged, init=self.init)
