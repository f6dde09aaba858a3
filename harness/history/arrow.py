"""Arrow without pandas, for processes whose time is being measured."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder

import pyarrow as pa


class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is hidden from pyarrow in this process", name=name)


@contextmanager
def hidden_pandas() -> Iterator[None]:
    """Whoever tries to import pandas meanwhile is told that there is none. Does nothing where it is imported already."""
    hidden = _NoPandas()
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, hidden)
    try:
        yield
    finally:
        if hidden in sys.meta_path:
            sys.meta_path.remove(hidden)


def spare_pandas() -> None:
    """Keep pyarrow from importing pandas in this process, for good; call it first thing in a client or a driver.

    The first `pa.array(list)` of a process looks whether the list is a pandas object, and imports pandas to find out:
    0.4 s (more on a busy machine) with the GIL held most of the time, and 50 MB, in the middle of a workload. pyarrow
    looks once per process, so pandas is hidden for that one look.
    """
    with hidden_pandas():
        pa.array([0])
