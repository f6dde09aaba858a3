"""A run to be killed: `python -m tests.nodes.doomed RUN HOME` supervises an enclosed stage that makes nodes,
processes and cuts, again and again.

The stage appends to HOME/facts as it goes: "namespace 4026532567", then "made" once each kind of thing has been
there. Standard library only, so that any interpreter of any user can run it.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from nodes.backends.local import LocalBackend
from nodes.network import Cut
from nodes.node import Command, NodeRequest

BUSY = "setsid -f sleep 1000; sleep 1000 & while :; do :; sleep 0.05; done"


async def stage(run: str, home: Path) -> None:
    with (home / "facts").open("a", buffering=1) as facts:

        def tell(fact: str) -> None:
            print(fact, file=facts)

        backend = LocalBackend()
        await backend.open(run=run, home=home)
        tell(f"namespace {os.stat('/proc/self/ns/net').st_ino}")
        await asyncio.gather(*(make(backend, name, tell) for name in ("b1", "b2", "b3")))
        while True:
            cuts = [Cut(id="cut", at="b1", sources=("b2", "b3")), Cut(id="cut", at="b2", sources=("b1",))]
            await backend.network.cut(cuts)
            tell("made")
            await backend.network.heal()


async def make(backend: LocalBackend, name: str, tell: Callable[[str], None]) -> None:
    node = await backend.add(NodeRequest(name=name))
    await node.start(Command(argv=("sh", "-c", BUSY)))
    done = await node.run(("stat", "-L", "-c", "%i", "/proc/self/ns/net"), timeout=60)
    tell(f"namespace {done.stdout.decode().strip()}")


def supervise(run: str, home: str) -> int:
    argv = [sys.executable, "-m", "tests.nodes.doomed", "stage", run, home]
    return subprocess.run(LocalBackend.enclose(argv), check=False).returncode


if __name__ == "__main__":
    if sys.argv[1] == "stage":
        asyncio.run(stage(sys.argv[2], Path(sys.argv[3])))
    else:
        sys.exit(supervise(*sys.argv[1:]))
