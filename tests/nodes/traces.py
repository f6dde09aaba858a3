"""What a run can leave on a machine: processes that carry its name, its network namespaces, links, rules and mounts."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Sized
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found", bound=Sized)
LOOK_SECONDS = 0.02
SEARCH_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def processes(run: str) -> dict[int, str]:
    """Living processes with the run's name in their environment or command line: pid -> command line."""
    found = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                words = (entry / "cmdline").read_bytes()
                if run.encode() in words + (entry / "environ").read_bytes():
                    found[int(entry.name)] = words.replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def left(find: Callable[[], Found], *, within: float = 0.0) -> Found:
    """What `find` still finds after so many seconds; returns as soon as that is nothing."""
    end = time.monotonic() + within
    while (found := find()) and time.monotonic() < end:
        select.select([], [], [], LOOK_SECONDS)
    return found


def namespaces_held(inodes: set[int]) -> list[str]:
    """Who still holds one of these network namespaces: processes, their open descriptors, mounts."""
    names = {f"net:[{inode}]" for inode in inodes}
    held = [f"mount {line}" for line in mounts() if any(name in line for name in names)]
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            links = [process / "ns/net", *(process / "fd").iterdir()]
            for link in links:
                with suppress(OSError):
                    if os.readlink(link) in names:
                        held.append(str(link))
    return held


def mounts() -> list[str]:
    return Path("/proc/self/mountinfo").read_text().splitlines()


def links() -> list[str]:
    return _lines("ip", "-o", "link")


def rules() -> list[str]:
    """Without counters and dates; empty for an ordinary user, who may not look (nor change anything)."""
    if os.geteuid() != 0:
        return []
    return [line for line in _lines("iptables-save") if not line.startswith(("#", ":"))]


def _lines(*argv: str) -> list[str]:
    program = shutil.which(argv[0], path=SEARCH_PATH) or argv[0]
    return subprocess.run([program, *argv[1:]], capture_output=True, text=True, check=True).stdout.splitlines()
