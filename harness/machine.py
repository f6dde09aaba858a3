"""What this machine itself must have, whatever the backend and the system: lines of `krash doctor`, found without starting anything."""

from __future__ import annotations

import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from nodes.backend import Requirement
from nodes.kafka.java import requirement as java

DISK_MIB = 2048  # run directories hold histories and the nodes' logs; the cache holds jars
MEMORY_MIB = 2048  # four small servers, the clients and Spark, all at once
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def needed() -> list[Requirement]:
    """Without these no run can end with a verdict."""
    return [python(), java(), spark(), disk(Path.cwd())]


def advised() -> list[Requirement]:
    """Runs start without these, and may suffer."""
    return [memory(Path("/proc/meminfo"), Path("/sys/fs/cgroup"))]


def for_tests() -> list[Requirement]:
    return [browser()]


def python() -> Requirement:
    return Requirement(name="Python 3.11 or newer", present=True, found=platform.python_version(), remedy="")


def spark() -> Requirement:
    try:
        return Requirement(name="Spark 4", present=True, found=f"pyspark {version('pyspark')}", remedy="")
    except PackageNotFoundError:
        remedy = "python3 -m pip install 'pyspark>=4,<5'"
        return Requirement(name="Spark 4", present=False, found="pyspark is not installed", remedy=remedy)


def disk(where: Path) -> Requirement:
    """Space for run directories, which go below the current directory unless --out says otherwise."""
    free = shutil.disk_usage(where).free >> 20
    name = f"disk space ({DISK_MIB >> 10} GiB)"
    remedy = "" if free >= DISK_MIB else "rm -r runs/<old ones>, or krash run --out /a/larger/disk"
    return Requirement(
        name=name, present=free >= DISK_MIB, found=f"{free / 1024:.1f} GiB free in {where}", remedy=remedy
    )


def memory(meminfo: Path, cgroup: Path) -> Requirement:
    """What is available, which in a container is what its control group leaves."""
    available = min(_available_mib(meminfo), _left_mib(cgroup))
    name = f"memory ({MEMORY_MIB >> 10} GiB)"
    remedy = (
        "" if available >= MEMORY_MIB else "end other programs, or try a smaller cluster: krash run --set brokers=1"
    )
    return Requirement(
        name=name, present=available >= MEMORY_MIB, found=f"{available / 1024:.1f} GiB available", remedy=remedy
    )


def browser() -> Requirement:
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    remedy = "" if path else "sudo apt-get install chromium"
    return Requirement(name="Chromium", present=path is not None, found=path or "not found", remedy=remedy)


def _available_mib(meminfo: Path) -> int:
    lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) >> 10


def _left_mib(cgroup: Path) -> int:
    """What a limit leaves (control groups v2), or more than any machine has when there is none."""
    try:
        limit, used = ((cgroup / name).read_text().strip() for name in ("memory.max", "memory.current"))
    except OSError:
        return 1 << 40
    return 1 << 40 if limit == "max" else (int(limit) - int(used)) >> 20
