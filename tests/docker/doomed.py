"""A run to be killed: `python -m tests.docker.doomed RUN HOME` makes a server and a client that run something, a cut, and says "made"."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from nodes.backends.docker import DockerBackend
from nodes.network import Cut
from nodes.node import Command, NodeRequest, Role

BUSY = ("sh", "-c", "setsid -f sleep 1000; sleep 1000 & sleep 1000")


async def main(run: str, home: Path) -> None:
    backend = DockerBackend()
    await backend.open(run=run, home=home)
    for name, role in (("b1", Role.SERVER), ("w1", Role.CLIENT)):
        node = await backend.add(NodeRequest(name=name, role=role))
        await node.start(Command(argv=BUSY))
    await backend.network.cut([Cut(id="cut", at="b1", sources=("w1",))])
    print("made", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
