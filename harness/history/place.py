"""Where a run directory is: on this machine (a `Path`), or anywhere that Spark reads (a URI: `hdfs://`, `s3a://`, `viewfs://`).

What reads run directories asks for no more than this, so that it need not know which.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, Protocol, Self

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class Place(Protocol):
    """A file or a directory. OSError for whatever cannot be reached, FileNotFoundError for what is not there."""

    @property
    def name(self) -> str: ...
    def __truediv__(self, name: str, /) -> Self: ...
    def is_dir(self) -> bool: ...
    def glob(self, pattern: str, /) -> Iterable[Self]: ...
    def read_bytes(self) -> bytes: ...
    def open(self, mode: str, /) -> IO[Any]: ...


def is_uri(text: str) -> bool:
    """Of another file system than this machine's."""
    return _URI.match(text) is not None and not text.lower().startswith("file://")


def local(text: str) -> Path:
    """Of a path, or of a `file://` URI."""
    return Path(text[len("file://") :] if text.lower().startswith("file://") else text)
