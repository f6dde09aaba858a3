"""verdict.json: read it back, and write one where judging itself failed, so that every run that ended has one."""

from __future__ import annotations

import json
from pathlib import Path

from harness.history.errors import HistoryError
from harness.history.rundir import VERDICT_JSON, read_run_info, write_whole
from reports.verdict import Status, Validity, Verdict


def read_verdict(directory: Path) -> Verdict:
    """HistoryError when the run was never judged, or its verdict.json is not one."""
    path = directory / VERDICT_JSON
    try:
        return Verdict.from_json(json.loads(path.read_bytes()))
    except FileNotFoundError:
        raise HistoryError(path, "", f"missing: this run was not judged; try: krash check {directory}") from None
    except ValueError as error:
        raise HistoryError(path, "", f"not a verdict: {error}") from error


def write_failed(directory: Path, reason: str) -> Verdict:
    """The verdict of a run that could not be judged."""
    run = read_run_info(directory).run
    verdict = Verdict(run=run, verdict=Validity.UNKNOWN, status=Status.HARNESS_ERROR, reason=reason)
    write_whole(directory / VERDICT_JSON, json.dumps(verdict.as_json(), indent=2).encode() + b"\n")
    return verdict
