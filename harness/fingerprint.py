"""What the outcome of a race depends on, as a hash: so that a track record knows which of its tries still count.

It covers the race's own file and every source that could change what happens or how it is judged: nodes, workloads,
nemesis (without the files of other races), the checker and the stage. Reports, the command line and other races do not
count. Python sources are hashed without comments and docstrings: a better sentence does not cost an hour of runs.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness.plugins import Group, registered
from nemesis.races.race import Race

_WHOLE = ("nodes", "workloads", "nemesis", "harness/checker", "harness/history")
_SINGLE = ("race_client", "race_order", "race_stage", "stage", "deployment", "gate", "wiring")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_ROOT = Path(__file__).parents[1]


def key_of(race: Race, *, system: str, metadata_version: str | None, parameters: Mapping[str, Any]) -> str:
    """16 hexadecimal digits."""
    about = [race.name, system, metadata_version, dict(parameters)]
    parts = [_common(), _file(_source_of(race)), json.dumps(about, sort_keys=True, default=str)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _source_of(race: Race) -> Path:
    source = inspect.getsourcefile(race.script)
    if source is None:
        raise ValueError(f"race {race.name} has no source file")
    return Path(source).resolve()


@cache
def _common() -> str:
    others = set(_race_files())
    return hash_of(path for path in _engine() if path not in others)


def _engine() -> Iterable[Path]:
    apart = _ROOT / "nodes" / "reference"  # a system of its own, in which no race is played
    yield from (path for path in sources(_WHOLE) if apart not in path.parents)
    yield from (_ROOT / "harness" / f"{name}.py" for name in _SINGLE)


def sources(folders: Iterable[str]) -> Iterable[Path]:
    """All files of folders of this checkout, in a fixed order."""
    for folder in folders:
        yield from sorted(
            path for path in (_ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts
        )


def hash_of(paths: Iterable[Path]) -> str:
    """64 hexadecimal digits, over code and not over comments."""
    return hashlib.sha256("".join(map(_file, paths)).encode()).hexdigest()


def _race_files() -> Iterable[Path]:
    """Of registered races, whether or not they can be imported."""
    for point in registered(Group.RACES).values():
        spec = find_spec(point.module)
        if spec is not None and spec.origin is not None:
            yield Path(spec.origin).resolve()


def _file(path: Path) -> str:
    stat = path.stat()
    return _content(path, stat.st_mtime_ns, stat.st_size)


@cache
def _content(path: Path, changed_ns: int, size: int) -> str:
    content = path.read_bytes()
    return hashlib.sha256(code_only(content.decode()).encode() if path.suffix == ".py" else content).hexdigest()


def code_only(source: str) -> str:
    """Python source without comments, docstrings and layout."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body[0] = ast.Expr(ast.Constant(...))
    return ast.unparse(tree)
