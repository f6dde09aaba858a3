"""`krash wire`: the frames that passed the wire gate of a run, filtered, in their order, without holding them in memory.

12.104 s  b1 -> c1  AlterPartition v2      67 B  held 4.031 s by stale         newIsr=[1, 2] partitionEpoch=1 ...
16.135 s  c1 -> b1  AlterPartition v2      60 B  answers 4711                  NONE
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from rich.console import Console
from rich.text import Text

from harness.errors import UsageError
from harness.history.reading import open_run
from harness.history.rundir import RunInfo
from harness.history.tables import MESSAGES_TABLE
from nemesis.durations import parse_seconds
from nemesis.wire.message import Action, Direction
from reports.wording import number

NOTABLE_S = 0.001  # a frame that was in the gate for longer says so
FIELDS_SHOWN = 200  # characters


@dataclass(frozen=True, kw_only=True)
class Filters:
    """What is None lets everything through. Names of nodes and rules may hold `*`; times count from the run's first phase."""

    source: str | None = None
    destination: str | None = None
    api: str | None = None  # name or number
    action: str | None = None
    rule: str | None = None
    since: str | None = None
    until: str | None = None


def show_messages(run_dir: Path, filters: Filters, *, limit: int, as_json: bool) -> int:
    """Print what the filters let through, the first `limit` frames (0: all)."""
    history = open_run(run_dir, deep=False)
    origin = origin_ns(history.info)
    rows = messages([Path(str(file)) for file in history.files[MESSAGES_TABLE.name]], filters, origin)
    console = Console(highlight=False, soft_wrap=True)
    shown, more = 0, 0
    for row in rows:
        if limit and shown == limit:
            more += 1
        elif as_json:
            print(json.dumps(row))
            shown += 1
        else:
            console.print(line(row, origin))
            shown += 1
    if as_json:
        return 0
    if not history.rows[MESSAGES_TABLE.name]:
        console.print("no frames: this run had no wire gate; `krash run --set wire=on` has one")
    elif not shown:
        console.print(f"none of {number(history.rows[MESSAGES_TABLE.name])} frames fits")
    elif more:
        console.print(Text(f"... and {number(more)} more; --limit 0 shows all", style="dim"))
    return 0


def origin_ns(info: RunInfo) -> int:
    return min((int(phase["start_ns"]) for phase in info.phases), default=0)


def messages(files: list[Path], filters: Filters, origin: int) -> Iterator[dict[str, Any]]:
    """Rows of `messages` in their order. UsageError for a filter that cannot be understood."""
    wanted = _expression(filters, origin)
    for path in files:
        for batch in ds.dataset(path).scanner(filter=wanted, use_threads=False).to_batches():
            yield from batch.select(MESSAGES_TABLE.schema.names).to_pylist()


def line(row: Mapping[str, Any], origin: int) -> Text:
    """One frame for people."""
    text = Text(f"{(row['in_ns'] - origin) / 1e9:10.3f} s  ")
    text.append(f"{row['source']} -> {row['destination']}", style="bold")
    text.append(f"  {row['api_name']} v{row['version']}  {row['size']} B  #{row['message']}")
    if row["direction"] == Direction.RESPONSE:
        text.append(f" answers #{row['answers']}")
    if row["action"] != Action.PASSED or row["rule"]:
        text.append(f"  {row['action']}", style="yellow")
        text.append(f" by {row['rule']}" if row["rule"] else "")
    if row["out_ns"] is None:
        text.append("  never went on", style="red")
    elif (stayed := (row["out_ns"] - row["in_ns"]) / 1e9) >= NOTABLE_S:
        text.append(f"  stayed {stayed:.3f} s", style="yellow")
    if row["error"]:
        text.append(f"  {row['error']}", style="red" if row["error"] != "NONE" else "green")
    if row["fields"]:
        text.append(f"  {_shortened(row['fields'])}", style="dim")
    return text


def _shortened(fields: str) -> str:
    words = " ".join(f"{name}={json.dumps(value)}" for name, value in json.loads(fields).items())
    return words if len(words) <= FIELDS_SHOWN else f"{words[:FIELDS_SHOWN]}..."


def _expression(filters: Filters, origin: int) -> ds.Expression | None:
    parts = [
        _like(name, pattern)
        for name, pattern in (("source", filters.source), ("destination", filters.destination), ("rule", filters.rule))
        if pattern is not None
    ]
    if filters.api is not None:
        by_number = filters.api.isdecimal()
        parts.append(ds.field("api") == int(filters.api) if by_number else _like("api_name", filters.api))
    if filters.action is not None:
        if filters.action not in list(Action):
            raise UsageError(f"--action {filters.action}: expected one of {', '.join(Action)}")
        parts.append(ds.field("action") == filters.action)
    if filters.since is not None:
        parts.append(ds.field("in_ns") >= pa.scalar(origin + _ns("--since", filters.since)))
    if filters.until is not None:
        parts.append(ds.field("in_ns") <= pa.scalar(origin + _ns("--until", filters.until)))
    whole: ds.Expression | None = None
    for part in parts:
        whole = part if whole is None else whole & part
    return whole


def _like(name: str, pattern: str) -> ds.Expression:
    """Whole names, upper or lower case; `*` stands for anything."""
    import pyarrow.compute as pc

    regex = "^" + ".*".join(re.escape(part) for part in pattern.split("*")) + "$"
    return pc.match_substring_regex(ds.field(name), regex, ignore_case=True)


def _ns(flag: str, text: str) -> int:
    try:
        return round(parse_seconds(text) * 1e9)
    except ValueError as error:
        raise UsageError(f"{flag} {text}: {error}") from None
