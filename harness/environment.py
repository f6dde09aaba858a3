"""What a run ran on: the facts that a reader of its report needs to judge its figures."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from typing import Any

PACKAGES = ("krash", "confluent-kafka", "pyspark", "pyarrow", "kio")


def environment() -> dict[str, Any]:
    """Kernel, processors, memory, Python, Java and the libraries whose version matters, as plain JSON."""
    return {
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": os.cpu_count(),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1 << 20),
        "python": platform.python_version(),
        "java": _java_version(),
        "packages": {name: _installed(name) for name in PACKAGES},
    }


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _java_version() -> str | None:
    try:
        shown = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = shown.stderr.splitlines()
    return lines[0] if lines else None
