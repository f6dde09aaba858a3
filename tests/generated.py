"""Parts of a document that a program writes: what stands between two lines that mark them."""

from __future__ import annotations

from pathlib import Path


def replace_part(document: Path, begin: str, end: str, text: str) -> None:
    """ValueError where the document does not have both lines, in this order."""
    whole = document.read_text()
    before, found, rest = whole.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{document} has no part from {begin!r} to {end!r}")
    document.write_text(f"{before}{begin}\n{text}\n{end}{after}")
