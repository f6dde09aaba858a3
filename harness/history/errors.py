"""The one error that everything about stored histories raises, with the place, so that a person can look there."""

from __future__ import annotations

from harness.history.place import Place


class HistoryError(Exception):
    """A run directory, a journal or a table is not what it should be. Nothing was changed.

    `where` is a byte offset, a row group, a line or a column, in words ("byte 4096", "row group 3"); empty when it is
    the whole file.
    """

    def __init__(self, path: Place, where: str, reason: str) -> None:
        self.path = path
        self.where = where
        self.reason = reason
        super().__init__(f"{path}{f', {where}' if where else ''}: {reason}")
