"""What a loss of power would take back of a node's files: told beside them, for whoever plays the loss of power.

Why: kill -9 loses nothing that was written, because the page cache stays, so a harness that stands in for a power cut has to know what the
node has synced. Kafka tells of its partitions by their recovery points; nobody tells of the metadata log, where a lost vote or a lost
entry breaks the quorum's promises. So a node writes down here what the medium has, before it changes a file without syncing it, and
removes that when it has synced.

    unsynced/README                                          for whoever finds this directory
    unsynced/__cluster_metadata-0/quorum-state               {"content": "eyJjbHVzdGVy..."}   what a replaced file held (base64)
    unsynced/__cluster_metadata-0/00000000000000000000.log   {"size": 1234}                   how long a file was that has grown
                                                             {"content": null}                it was not there

Only the first change since a sync is told, which is all that it takes to undo the rest. What is told is never newer than the medium: where
the process dies between a sync and the removal, nobody has been answered yet. A truncation counts as safe at once. Read by
`nemesis/unsynced.py`.
"""

from __future__ import annotations

import base64
import json
import os
import threading
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

DIRECTORY: Final = "unsynced"
_README: Final = b"""What a loss of power would take back of this node's files, as krash's fault `power-loss` does it.
For each file below: {"size": N}, how long it was when it was last synced, or {"content": BASE64 or null}, what it held then.
"""


class Ledger:
    """Of the files below `below`, a directory of the data directory; others are not told of."""

    def __init__(self, root: Path, below: str) -> None:
        self._root = root
        self._below = root / below
        self._told = root / DIRECTORY
        self._told.mkdir(exist_ok=True)
        (self._told / "README").write_bytes(_README)

    def of(self, at: Path) -> Page | Untold:
        if not at.is_relative_to(self._below):
            return Untold()
        return Page(self._told / at.relative_to(self._root))


class Untold:
    """The page of a file that nobody is told of."""

    lock: AbstractContextManager[Any] = nullcontext()

    def grows(self, size: int) -> None: ...
    def replaces(self, at: Path) -> None: ...
    def shrinks(self, size: int) -> None: ...
    def synced(self, size: int, now: int) -> None: ...
    def safe(self) -> None: ...


class Page:
    """What is told of one file. Appends and syncs may come from two threads: `lock` is held while the file grows."""

    def __init__(self, at: Path) -> None:
        self._at = at
        self.lock = threading.Lock()

    def grows(self, size: int) -> None:
        """From so many bytes on it is not synced."""
        if not self._at.exists():
            self._tell({"size": size})

    def replaces(self, at: Path) -> None:
        """What is at `at` is about to be replaced without a sync."""
        if not self._at.exists():
            former = base64.b64encode(at.read_bytes()).decode() if at.exists() else None
            self._tell({"content": former})

    def shrinks(self, size: int) -> None:
        if self._at.exists() and json.loads(self._at.read_bytes())["size"] > size:
            self._tell({"size": size})

    def synced(self, size: int, now: int) -> None:
        """The first `size` bytes are safe, of `now`."""
        if size == now:
            self.safe()
        else:
            self._tell({"size": size})

    def safe(self) -> None:
        self._at.unlink(missing_ok=True)

    def _tell(self, what: dict[str, Any]) -> None:
        self._at.parent.mkdir(parents=True, exist_ok=True)
        part = self._at.with_name(self._at.name + ".part")
        part.write_text(json.dumps(what))
        os.replace(part, self._at)
