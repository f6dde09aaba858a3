"""One module of this process with other text than on the disk, by an import hook; whatever had been imported goes first."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

FORGOTTEN = ("harness.checker", "harness.check_command", "tests.harness")
KEPT = ("harness.checker.session", "harness.checker.cluster")  # hold the running session


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, path: Path, name: str, text: str) -> None:
        self._path, self._name, self._text = path, name, text

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        return importlib.util.spec_from_file_location(fullname, self._path, loader=self)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._text, self._path, "exec"), module.__dict__)


def install(root: Path, module: str, text: str) -> None:
    """`module`: path from the root, harness/checker/loss.py."""
    forget()
    name = module.removesuffix(".py").replace("/", ".")
    sys.meta_path.insert(0, Mutated(root / module, name, text))


def forget() -> None:
    for name in [name for name in sys.modules if name.startswith(FORGOTTEN) and name not in KEPT]:
        parent, _, last = name.rpartition(".")
        del sys.modules[name]
        if parent in sys.modules and hasattr(sys.modules[parent], last):
            delattr(sys.modules[parent], last)
