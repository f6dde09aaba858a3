"""Run the contracts on one backend, where it works: `backend.enclose(python -m tests.nodes.contracts.run FACTORY
FOLDER [NAME...])`.

FACTORY is "module:callable" and makes the backend. FOLDER gets `results.jsonl`, one line per contract as it ends:
{"name": "kill_takes_the_children_too", "problem": "", "seconds": 0.4}; a problem is a traceback.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Collection
from importlib import import_module
from pathlib import Path
from typing import TextIO, cast

import pytest

from nodes.backend import Backend
from nodes.node import Node, NodeRequest, Role
from tests.nodes.contracts import files, network, processes, wire
from tests.nodes.contracts.stage import Stage

Contract = Callable[[Stage], Awaitable[None]]
CONTRACT_SECONDS = 90.0
LAST = "close_leaves_nothing"

CONTRACTS: dict[str, Contract] = {
    name: contract
    for module in (processes, files, network, wire)
    for name, contract in inspect.getmembers(module, inspect.iscoroutinefunction)
    if not name.startswith("_")
    and contract.__module__ == module.__name__
    and list(inspect.signature(contract).parameters) == ["on"]
}


async def main(backend: Backend, folder: Path, names: Collection[str]) -> None:
    words = folder / "words"
    words.mkdir()
    (words / "word.txt").write_text("hello from outside\n")
    with (folder / "results.jsonl").open("w") as results:
        await backend.open(run=f"contracts-{folder.name}", home=folder / "homes")
        try:
            stage = await prepare(backend, folder)
            for name in names:
                await judge(name, lambda name=name: play(CONTRACTS[name], stage), results)  # type: ignore[misc]
        finally:
            await judge(LAST, lambda: leave_nothing(backend), results)


async def prepare(backend: Backend, folder: Path) -> Stage:
    async def add(name: str, role: Role) -> Node:
        return await backend.add(NodeRequest(name=name, role=role, mounts={"words": folder / "words"}))

    b1, b2 = await add("b1", Role.SERVER), await add("b2", Role.SERVER)
    w1, w2 = await add("w1", Role.CLIENT), await add("w2", Role.CLIENT)
    return Stage(backend=backend, b1=b1, b2=b2, w1=w1, w2=w2, scratch=folder / "scratch")


async def play(contract: Contract, on: Stage) -> None:
    """Run a contract and make the nodes idle again, whatever it did."""
    try:
        await contract(on)
    finally:
        await on.backend.network.heal()
        for node in on.nodes:
            await node.kill()
            await node.wipe(".")


async def leave_nothing(backend: Backend) -> None:
    await backend.close()
    assert backend.leftovers() == []


async def judge(name: str, attempt: Callable[[], Awaitable[None]], results: TextIO) -> None:
    began, problem = time.monotonic(), ""
    try:
        async with asyncio.timeout(CONTRACT_SECONDS):
            await attempt()
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - it is this contract's result; the others still run
        problem = traceback.format_exc()
    row = {"name": name, "problem": problem, "seconds": round(time.monotonic() - began, 3)}
    print(json.dumps(row), file=results, flush=True)


if __name__ == "__main__":
    module, _, factory = sys.argv[1].partition(":")
    made = cast(Backend, getattr(import_module(module), factory)())
    asyncio.run(main(made, Path(sys.argv[2]), sys.argv[3:] or CONTRACTS))
