"""Compile all kernels ahead, so that no verdict waits for a compiler: some twenty seconds once per version, then never.

    python -m harness.checker.ready

Set-up does it, and the judge's process in a thread while its JVM starts, beside the workload of a run, unless it has been done:
even to find that there is nothing to compile takes seconds of processor time, of which the workload would see less.
"""

from __future__ import annotations

import hashlib
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harness.checker.own_directory import own_directory

_COMPILED = ("linearizability", "serializability", "models")


def compile_kernels() -> None:
    from numba.core import config

    from harness.checker.linearizability import ready
    from harness.checker.models import transactions

    ready.compile_kernels()
    transactions.prepare()
    settings: Any = config
    if not settings.DISABLE_JIT and (stamp := _stamp()) is not None:
        stamp.touch()


def are_compiled() -> bool:
    """Whether all have been, of these sources, by this version of Numba on a machine like this one, and are kept."""
    stamp = _stamp()
    return stamp is not None and stamp.exists()


def _stamp() -> Path | None:
    directory = own_directory("kernels")
    return directory and directory / f"ready-{_digest()}"


def _digest() -> str:
    digest = hashlib.sha256(f"{version('numba')} {platform.machine()}".encode())
    for package in _COMPILED:
        for source in sorted((Path(__file__).parent / package).glob("*.py")):
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    compile_kernels()
