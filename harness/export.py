"""`krash export`: a run in the words of other checkers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from harness.errors import CommandError, UsageError
from harness.history.formats.of_run import Exported, edn_line, entries_of_run, json_line
from harness.history.reading import open_run

FORMATS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {"jepsen-edn": edn_line, "jsonl": json_line}


def export_run(run_dir: Path, *, format_name: str, output: Path | None) -> int:
    """Write the history of a finished run, one entry per line, to `output` or to standard output.

    HistoryError as `open_run`; UsageError for a format that is not in FORMATS; CommandError when `output` cannot be written.
    """
    if format_name not in FORMATS:
        raise UsageError(f"--format {format_name}: known are {', '.join(FORMATS)}")
    exported = _entries(run_dir)
    if output is None:
        _write(exported, FORMATS[format_name], sys.stdout)
    else:
        try:
            with output.open("w", encoding="utf-8") as file:
                _write(exported, FORMATS[format_name], file)
        except OSError as error:
            raise CommandError(f"{output} cannot be written: {error.strerror}") from error
    left_out = ", ".join(f"{count} {kind}" for kind, count in sorted(exported.left_out.items()))
    note = f"; left out, having no counterpart: {left_out}" if left_out else ""
    print(f"krash: {len(exported.entries)} entries{note}", file=sys.stderr)
    return 0


def _entries(run_dir: Path) -> Exported:
    history = open_run(run_dir)
    ops, records, faults = (history.table(name).to_pylist() for name in ("ops", "records", "faults"))
    return entries_of_run(ops, records, faults)


def _write(exported: Exported, line: Callable[[Mapping[str, Any]], str], file: TextIO) -> None:
    for entry in exported.entries:
        file.write(line(entry) + "\n")
