"""Nothing in the reference cluster reaches for the outside: clock, network, disk and randomness are passed in (its environment.py).

Walks the source of every module. Three circles: the pure cores import no asyncio either; shells use asyncio, but not those parts of it that
wait by a clock or open sockets; and `process/` is the real world, which nobody but whoever starts a node knows.
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3] / "nodes" / "reference"
REAL_WORLD = "process/"
SHELLS = frozenset(
    {
        "raft/replica.py",
        "controller/shell.py",
        "coordinator/shard.py",
        "coordinator/transactions/handlers.py",
        "broker/alterations.py",
        "broker/markers.py",
        "broker/broker.py",
        "broker/fetchers.py",
        "broker/heartbeats.py",
        "broker/hosted.py",
        "broker/metadata.py",
        "broker/produce.py",
        "broker/producer_ids.py",
        "broker/replicas.py",
    }
)
SIMULATION = "simulation/"

OUTSIDE = {
    *(
        "time",
        "datetime",
        "secrets",
        "socket",
        "ssl",
        "select",
        "selectors",
        "os",
        "pathlib",
        "shutil",
        "tempfile",
    ),
    *("mmap", "fcntl", "signal", "subprocess", "threading", "multiprocessing", "concurrent", "queue", "sched", "http"),
    *("urllib", "uvloop"),
}
TYPE_ONLY = {"random": {"Random"}, "uuid": {"UUID"}}
ASYNCIO_BY_ITSELF = {
    *("sleep", "timeout", "timeout_at", "wait_for", "open_connection", "start_server", "open_unix_connection"),
    *("start_unix_server", "to_thread", "run", "create_subprocess_exec", "create_subprocess_shell", "new_event_loop"),
}


@pytest.fixture(scope="module", autouse=True)
def collected() -> None:
    """What earlier tests left (transports of asyncio have a `__del__`) must not be collected inside of ast.parse: CPython 3.11 raises
    SystemError then (gh-106905).
    """
    gc.collect()


def modules() -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))


def reaches(source: str, *, shell: bool) -> Iterator[str]:
    """What a module takes from the outside, as sentences."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _imported(alias.name, shell=shell, line=node.lineno)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = {alias.name for alias in node.names}
            if module.split(".")[0] in TYPE_ONLY:
                yield from (f"line {node.lineno}: {module}.{name}" for name in names - TYPE_ONLY[module])
            else:
                yield from _imported(module, shell=shell, line=node.lineno)
            if module.split(".")[0] == "asyncio":
                yield from (f"line {node.lineno}: asyncio.{name}" for name in names & ASYNCIO_BY_ITSELF)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "asyncio" and node.attr in ASYNCIO_BY_ITSELF:
                yield f"line {node.lineno}: asyncio.{node.attr}"
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("open", "__import__", "input")
        ):
            yield f"line {node.lineno}: {node.func.id}()"


def _imported(module: str, *, shell: bool, line: int) -> Iterator[str]:
    top = module.split(".")[0]
    if top in OUTSIDE or top in TYPE_ONLY or (top == "asyncio" and not shell):
        yield f"line {line}: import {module}"


@pytest.mark.parametrize("name", [name for name in modules() if not name.startswith(REAL_WORLD)])
def test_nothing_comes_from_the_outside(name: str) -> None:
    shell = name in SHELLS or name.startswith(SIMULATION)
    assert list(reaches((ROOT / name).read_text(), shell=shell)) == []


@pytest.mark.parametrize("name", [name for name in modules() if not name.startswith(SIMULATION)])
def test_nothing_knows_the_world_that_it_is_in(name: str) -> None:
    source = (ROOT / name).read_text()
    assert "nodes.reference.simulation" not in source
    assert "nodes.reference.process" not in source or name.startswith(REAL_WORLD)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import time", "line 1: import time"),
        ("from time import monotonic_ns", "line 1: import time"),
        ("import os.path", "line 1: import os.path"),
        ("import random", "line 1: import random"),
        ("from random import Random, shuffle", "line 1: random.shuffle"),
        ("x = open('f')", "line 1: open()"),
        ("import asyncio", "line 1: import asyncio"),
    ],
)
def test_the_walk_finds(source: str, found: str) -> None:
    assert list(reaches(source, shell=False)) == [found]


def test_the_walk_finds_what_a_shell_must_not_use() -> None:
    assert list(reaches("import asyncio\nasyncio.Event()\n", shell=True)) == []
    assert list(reaches("import asyncio\nawait asyncio.sleep(1)\n", shell=True)) == ["line 2: asyncio.sleep"]
    assert list(reaches("from asyncio import timeout\n", shell=True)) == ["line 1: asyncio.timeout"]
