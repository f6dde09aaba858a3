"""The text of a file, piece by piece. What is not UTF-8 is a HistoryError with line and column."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.history.errors import HistoryError

HEAD_BYTES = 1 << 16
_PIECE_BYTES = 1 << 18
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def head(path: Path) -> bytes:
    """The first 64 KiB."""
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError as error:
        raise HistoryError(path, "", f"cannot be read: {error.strerror or error}") from error


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number from 1, line with its line feed)."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                yield number, _decoded(path, line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line, number)
    except OSError as error:
        raise HistoryError(path, "", f"cannot be read: {error.strerror or error}") from error


def pieces(path: Path) -> Iterator[str]:
    """About 256 KiB each, cut where EDN may be cut: after line feeds, or after a space where no comment can be."""
    try:
        with path.open("rb") as file:
            yield from _pieces(path, iter(lambda: file.read(_PIECE_BYTES), b""))
    except OSError as error:
        raise HistoryError(path, "", f"cannot be read: {error.strerror or error}") from error


def _pieces(path: Path, blocks: Iterator[bytes]) -> Iterator[str]:
    kept: list[bytes] = []
    line = 1
    for number, block in enumerate(blocks):
        fresh = block.removeprefix(_BYTE_ORDER_MARK) if number == 0 else block
        cut = fresh.rfind(b"\n") + 1
        if not cut and b";" not in fresh and not any(b";" in part for part in kept):
            cut = fresh.rfind(b" ") + 1
        if not cut:
            kept.append(fresh)
            continue
        whole = b"".join([*kept, fresh[:cut]])
        kept = [fresh[cut:]]
        yield _decoded(path, whole, line)
        line += whole.count(b"\n")
    if any(kept):
        yield _decoded(path, b"".join(kept), line)


def _decoded(path: Path, text: bytes, line: int) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        before = text[: error.start]
        column = len(before[before.rfind(b"\n") + 1 :].decode()) + 1
        where = f"line {line + before.count(10)}, column {column}"
        raise HistoryError(path, where, f"not UTF-8 (byte 0x{text[error.start]:02x})") from None
