"""Kernels compiled by Numba, kept on disk so that a verdict never waits for a compiler.

    $XDG_CACHE_HOME/krash/kernels/<digest>/     0700; Numba's own files, named by source file and processor

Numba sees when a kernel's own file changes, not when a constant or a function that it takes from another file does. So
the directory is named by the digest of all files here: a stale kernel would be a wrong verdict.

Numba reads its files back with pickle. So they are used only from a directory that belongs to this user and that nobody
else can write; anywhere else kernels are compiled anew in each process, and so are those that come in an archive, as
executors of a cluster get them. `NUMBA_DISABLE_JIT=1` runs them as plain
Python, which is how mutation tests see into them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
from numba.core import config

from harness.checker.own_directory import own_directory

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """`numba.njit`, cached under XDG. What a kernel calls must be in this package, see above."""
    return _cached(function)


def bare(function: Callable[P, R]) -> Callable[P, R]:
    """The same for what allocates nothing and hands on no array but its arguments: Numba counts no references to
    arrays then, each of which costs more than a step of a search.
    """
    return _cached(function, _nrt=False)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """A part of `bare` kernels that is compiled into whatever calls it: handing over a dozen arrays costs, too."""
    return _njit(function, forceinline=True, _nrt=False)


def _cached(function: Callable[P, R], **options: bool) -> Callable[P, R]:
    directory = cache_directory()
    if directory is None:
        return _njit(function, **options)
    settings: Any = config
    before = settings.CACHE_DIR
    settings.CACHE_DIR = str(directory)
    try:
        return _njit(function, cache=True, **options)
    finally:
        settings.CACHE_DIR = before


def _njit(function: Callable[P, R], **options: bool) -> Callable[P, R]:
    njit: Any = numba.njit
    kernel: Callable[P, R] = njit(nogil=True, **options)(function)
    return kernel


@cache
def cache_directory() -> Path | None:
    """None: there is none that only this user can write, or no files whose digest would name it."""
    if not Path(__file__).is_file():
        return None
    return own_directory("kernels", _digest())


def _digest() -> str:
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        content = source.read_bytes()
        digest.update(f"{source.name} {len(content)} ".encode() + content)
    return digest.hexdigest()[:16]
