"""Directories under XDG that only this user can write: for what is believed when it is read back, kernels and class archives."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def own_directory(*names: str) -> Path | None:
    """`$XDG_CACHE_HOME/krash/NAME/...`, made when it is not there. None: others can write it, or this user cannot."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    directory = root / "krash"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name in names:
            directory = directory / name
            directory.mkdir(exist_ok=True, mode=0o700)
            if not _is_ours_alone(directory):
                return None
    except OSError:
        return None
    return directory


def _is_ours_alone(directory: Path) -> bool:
    found = directory.stat()
    others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return found.st_uid == os.geteuid() and not others_write and os.access(directory, os.W_OK)
