"""The run directory: what a run leaves, in a public, versioned format (`RUN_FORMAT`, in run.json).

    run.json       RunInfo: what was run, on what, with which seed: enough to judge it elsewhere and to run it again
    choices.jsonl  every random choice (harness/choices.py)
    history/<table>/*.parquet   what happened (tables.py); there only when it is complete
    journal/       the same while it is being recorded; there until it has become `history/`
    nodes/<name>/  logs, configuration and metadata log of each node
    verdict.json  anomalies/*.parquet  report.html  junit.xml   what was concluded; can be made again

So `journal/` says that a run is live or died (`krash recover` finishes it); without it, it can be judged.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness.history.errors import HistoryError
from harness.history.place import Place

RUN_FORMAT = 1
RUN_JSON = "run.json"
JOURNAL = "journal"
HISTORY = "history"
VERDICT_JSON = "verdict.json"


@dataclass(frozen=True, kw_only=True)
class RunInfo:
    """run.json. Fields that a newer krash added are kept in `more`; a newer `format` is refused."""

    run: str
    spec: dict[str, Any] = field(default_factory=dict)  # all defaults filled in
    seed: int = 0
    system: str = ""
    versions: dict[str, str] = field(default_factory=dict)  # node -> version
    topics: list[dict[str, Any]] = field(default_factory=list)  # {"name", "partitions", "replication", "config"}
    clock: str = ""
    started_at: str = ""  # UTC, ISO 8601
    phases: list[dict[str, Any]] = field(default_factory=list)  # {"name", "start_ns", "end_ns"}
    environment: dict[str, Any] = field(default_factory=dict)
    command: list[str] = field(default_factory=list)
    format: int = RUN_FORMAT
    more: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name != "more"} | self.more


_TYPES: dict[str, type | tuple[type, ...]] = {
    "run": str,
    "spec": dict,
    "seed": int,
    "system": str,
    "versions": dict,
    "topics": list,
    "clock": str,
    "started_at": str,
    "phases": list,
    "environment": dict,
    "command": list,
}


def create_run(run_dir: Path, info: RunInfo) -> None:
    """Make the directory of a new run, with run.json and an empty journal. FileExistsError: nothing is overwritten."""
    run_dir.parent.mkdir(parents=True, exist_ok=True)
    run_dir.mkdir()
    write_run_info(run_dir, info)
    (run_dir / "nodes").mkdir()
    (run_dir / JOURNAL).mkdir()


def write_run_info(run_dir: Path, info: RunInfo) -> None:
    """Write or replace run.json, whole or not at all."""
    write_whole(run_dir / RUN_JSON, json.dumps(info.as_json(), indent=2, sort_keys=False).encode() + b"\n")


def read_run_info(run_dir: Place) -> RunInfo:
    """HistoryError when there is no run.json, or one that this krash does not understand."""
    path = run_dir / RUN_JSON
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise HistoryError(path, "", "missing: this is not a run directory") from None
    except json.JSONDecodeError as error:
        raise HistoryError(path, f"line {error.lineno}", f"not JSON: {error.msg}") from error
    except (OSError, ValueError) as error:
        raise HistoryError(path, "", f"cannot be read: {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("run"), str):
        raise HistoryError(path, "", "not a run of krash: expected an object with a `run`")
    if data.get("format") != RUN_FORMAT:
        what = f"format {data.get('format')!r}; this krash reads format {RUN_FORMAT}"
        raise HistoryError(path, "", f"{what}: use the version that wrote it, or a newer one")
    for name, kind in _TYPES.items():
        if name in data and not isinstance(data[name], kind):
            raise HistoryError(path, f"field {name}", f"expected {kind}, found {type(data[name]).__name__}")
    known = {item.name for item in fields(RunInfo)} - {"more"}
    return RunInfo(
        **{k: v for k, v in data.items() if k in known}, more={k: v for k, v in data.items() if k not in known}
    )


def update_run_info(run_dir: Path, **changes: Any) -> RunInfo:
    """Change fields of run.json, or add to its `more`; one process at a time does so. HistoryError as `read_run_info`."""
    info = read_run_info(run_dir)
    known = {item.name for item in fields(RunInfo)} - {"more"}
    more = {name: value for name, value in changes.items() if name not in known}
    changed = replace(
        info, **{name: value for name, value in changes.items() if name in known}, more=dict(info.more) | more
    )
    write_run_info(run_dir, changed)
    return changed


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file atomically: a reader, or a crash, sees the old content or the new."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


@contextmanager
def sole_access(run_dir: Path, *, patience_s: float = 2.0) -> Iterator[None]:
    """Nobody records into this run and nobody else finishes it meanwhile; HistoryError when somebody does.

    Recorders hold a shared lock on their journal files for as long as their process lives: it tells the dead from the
    living. Patience is for a killed process that is not quite gone, and for `list_runs`, which looks for a moment.
    """
    journal = run_dir / JOURNAL
    deadline = time.monotonic() + patience_s
    with ExitStack() as stack:
        for path in (journal, *sorted(journal.iterdir())):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            while not _locked(descriptor):
                if time.monotonic() >= deadline:
                    raise HistoryError(path, "", "this run is still being written; end it first")
                time.sleep(0.02)
        yield


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class RunState(StrEnum):
    RUNNING = "running"  # somebody records into it
    UNFINISHED = "unfinished"  # its writers died: krash recover
    FINISHED = "finished"
    UNREADABLE = "unreadable"  # `note` says why


@dataclass(frozen=True, kw_only=True)
class Listing:
    """One line of `krash runs`."""

    path: Path
    run: str
    state: RunState
    started_at: str
    system: str
    seed: int | None
    verdict: str | None  # None: not judged
    status: str | None
    note: str = ""


def list_runs(directory: Path) -> list[Listing]:
    """All runs below a directory, the latest first. Never fails on a run that is half written or damaged."""
    if not directory.is_dir():
        return []
    found = [_listing(path) for path in directory.iterdir() if path.is_dir() and (path / RUN_JSON).exists()]
    return sorted(found, key=lambda run: (run.started_at, run.path.name), reverse=True)


def _listing(run_dir: Path) -> Listing:
    try:
        info = read_run_info(run_dir)
    except HistoryError as error:
        return Listing(
            path=run_dir,
            run=run_dir.name,
            state=RunState.UNREADABLE,
            started_at="",
            system="",
            seed=None,
            verdict=None,
            status=None,
            note=str(error),
        )
    verdict = _verdict(run_dir / VERDICT_JSON)
    return Listing(
        path=run_dir,
        run=info.run,
        state=run_state(run_dir),
        started_at=info.started_at,
        system=info.system,
        seed=info.seed,
        verdict=verdict.get("verdict"),
        status=verdict.get("status"),
    )


def run_state(run_dir: Path) -> RunState:
    """Finished, being recorded right now, or left unfinished by writers that are dead."""
    if not (run_dir / JOURNAL).is_dir():
        return RunState.FINISHED
    try:
        with sole_access(run_dir, patience_s=0):
            return RunState.UNFINISHED
    except (HistoryError, OSError):
        return RunState.RUNNING


def _verdict(path: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
