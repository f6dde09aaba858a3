"""Commands on runs that are there already: report again, recover, list. To judge again see `check_command`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.exits import ERROR
from harness.history import store
from harness.history.rundir import list_runs, update_run_info
from harness.publish import publish
from harness.verdicts import read_verdict
from reports.terminal import STYLES
from reports.verdict import Validity


def report_run(directory: Path) -> int:
    """Write report.html and junit.xml again from verdict.json and the history."""
    verdict = read_verdict(directory)
    complaints = publish(directory, verdict)
    for complaint in complaints:
        print(f"krash: {complaint}", file=sys.stderr)
    if not complaints:
        print(directory / "report.html")
    return ERROR if complaints else 0


def recover_run(directory: Path, *, as_json: bool) -> int:
    """Turn the journal of a run whose writers died into its history."""
    finished = store.recover(directory)
    if not finished.already:
        update_run_info(directory, status="interrupted", reason="krash was killed before the run ended")
    if as_json:
        print(json.dumps({"run_dir": str(directory), **asdict(finished)}))
        return 0
    if finished.already:
        print(f"{directory}: was finished already; nothing was changed")
        return 0
    rows = ", ".join(f"{count:,} {table}" for table, count in finished.rows.items())
    print(f"{directory}: recovered {rows}; {finished.never_completed:,} ops never completed")
    for file, size in finished.torn.items():
        print(
            f"  {file}: the last {size} bytes were torn off when its writer died; nobody was told that they were written"
        )
    print(f"judge it with: krash check {directory}")
    return 0


def show_runs(out: Path, *, as_json: bool) -> int:
    """List the runs below a directory, latest first."""
    found = list_runs(out)
    if as_json:
        print(json.dumps([{**asdict(run), "path": str(run.path)} for run in found]))
        return 0
    if not found:
        print(f"no runs in {out}; `krash run` makes one")
        return 0
    table = Table(box=None, header_style="bold")
    for heading in ("run", "system", "state", "verdict", "status"):
        table.add_column(heading)
    for run in found:
        style = STYLES[Validity(run.verdict)] if run.verdict else "dim"
        table.add_row(
            run.path.name,
            run.system,
            run.state,
            Text(run.verdict or "not judged", style=style),
            run.note or run.status or "",
        )
    Console(highlight=False, soft_wrap=True).print(table)
    return 0
