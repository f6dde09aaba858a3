"""What nodes said to each other and what the controllers wrote down, reduced to what a page can show.

Three tables and some log files, each of which may be huge, absent or damaged:

* `steps`: the script of a race, whole (a script has tens of steps).
* `messages`: the frames that tell a story: those that the gate did something to, what answered them, those that a step
  names, and requests that change who leads or who is in sync. Heartbeats and fetches by the million are only counted.
* `metadata`: the longest copy of the metadata log, with a time for each record. A record carries the wall clock of the
  controller that wrote it; where the harness saw records live, the smallest difference between the two clocks gives the
  moment on the axis of the page.
* claims: what each controller said of itself, from `events`: that it is the active one, in which epoch, and when that ended.
* quotes: lines of the nodes' logs that match what a race names in run.json (`race.quotes`). Matched by RE2, whose time is
  linear, since pattern and line may both be hostile.

    run.json: {"race": {"name": "kafka-14139", "title": "...", "quotes": ["truncat", "Submitting AlterPartition"], ...}}
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nemesis.races.step import STEPS, Step
from nemesis.wire.message import MESSAGES, Action, Message
from nodes.event import EventKind
from nodes.metadata_row import METADATA, MetadataRow, ends_of_epochs
from reports.scan import History, rows

STEP_LIMIT = 300
MESSAGE_LIMIT = 400
METADATA_LIMIT = 2_000
QUOTE_LIMIT = 40
PATTERN_LIMIT = 20
END_LIMIT = 50
CLAIM_LIMIT = 60
OTHERWISE = "it says otherwise"  # how a claim ends that its controller gave up (nodes/claims.py)
_LOG_BYTES = 16 << 20  # of one log file, from its end
_LINE_BYTES = 600
# requests that change who leads, who is in sync, who is registered, or what a transaction becomes
TELLING = frozenset(
    {"AlterPartition", "AlterPartitionReassignments", "ElectLeaders", "ControlledShutdown", "UpdateFeatures"}
    | {"BrokerRegistration", "UnregisterBroker", "CreateTopics", "DeleteTopics", "AddRaftVoter", "RemoveRaftVoter"}
    | {"Vote", "BeginQuorumEpoch", "EndQuorumEpoch"}
    | {"InitProducerId", "AddPartitionsToTxn", "EndTxn", "WriteTxnMarkers"}
)


@dataclass(frozen=True, kw_only=True)
class Quote:
    """A line of a node's log that the story needs."""

    node: str
    file: str
    line: int  # its number, from 1
    text: str
    pattern: str


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A record of the metadata log and when it was written, on the page's axis."""

    row: MetadataRow
    at_ns: int | None


@dataclass(frozen=True, kw_only=True)
class End:
    """What the final read found of a partition."""

    topic: str
    partition: int
    at_ns: int
    log_start: int | None
    log_end: int | None
    read_to: int | None
    stable_end: int | None
    error: str | None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A controller began to say that it is the active one, or was last asked when it still said so."""

    node: str
    epoch: int
    at_ns: int
    ends: str | None  # how it ended: "silent", "it says otherwise"; None: it began


@dataclass(frozen=True, kw_only=True)
class Exchange:
    steps: tuple[Step, ...] = ()
    messages: tuple[Message, ...] = ()  # by `in_ns`
    messages_seen: int = 0
    messages_left_out: int = 0  # of those that tell something
    metadata: tuple[Moment, ...] = ()  # by offset
    metadata_left_out: int = 0
    quotes: tuple[Quote, ...] = ()
    ends: tuple[End, ...] = ()
    claims: tuple[Claim, ...] = ()  # by time
    topics: Mapping[str, str] = field(default_factory=dict)  # topic id -> name

    def __bool__(self) -> bool:
        return bool(self.steps or self.messages or self.metadata)


def exchange(history: History, run: Mapping[str, Any], run_dir: Path) -> Exchange:
    """Reduce the tables. Never raises for what is missing or damaged: it becomes a line in `history.problems`."""
    steps = _steps(history)
    messages, seen, left_out = _messages(history, {step.message for step in steps if step.message is not None})
    metadata, metadata_left_out = _metadata(history, run)
    return Exchange(
        steps=steps,
        messages=messages,
        messages_seen=seen,
        messages_left_out=left_out,
        metadata=metadata,
        metadata_left_out=metadata_left_out,
        quotes=tuple(_quotes(run_dir / "nodes", patterns(run))),
        ends=_ends(history),
        claims=_claims(history),
        topics=dict(_topic_ids(metadata)),
    )


def _steps(history: History) -> tuple[Step, ...]:
    """The last row of each."""
    latest: dict[int, Step] = {}
    for batch in history.batches("steps", STEPS.names):
        for row in rows(batch):
            latest[row["step"]] = Step(**{**row, "nodes": tuple(row["nodes"])})
    return tuple(latest[number] for number in sorted(latest)[:STEP_LIMIT])


def _ends(history: History) -> tuple[End, ...]:
    """The last final bounds of each partition."""
    latest: dict[tuple[str, int], End] = {}
    columns = ["phase", "topic", "partition", "invoked_ns", "log_start", "log_end", "read_to", "stable_end", "error"]
    for batch in history.batches("bounds", columns):
        for row in rows(batch):
            key = (row["topic"], row["partition"])
            if row.pop("phase") == "final" and (key in latest or len(latest) < END_LIMIT):
                latest[key] = End(at_ns=row.pop("invoked_ns"), **row)
    return tuple(latest[key] for key in sorted(latest))


def _claims(history: History) -> tuple[Claim, ...]:
    """The first CLAIM_LIMIT."""
    kinds = pa.array([str(EventKind.CONTROLLER_CLAIMS), str(EventKind.CONTROLLER_CLAIM_ENDS)])
    found = []
    for batch in history.batches("events", ["kind", "node", "leader_epoch", "at_ns", "detail"]):
        for row in rows(batch.filter(pc.is_in(batch.column("kind"), value_set=kinds))):
            if row["node"] is not None and row["leader_epoch"] is not None:
                ends = (row["detail"] or "") if row["kind"] == EventKind.CONTROLLER_CLAIM_ENDS else None
                found.append(Claim(node=row["node"], epoch=row["leader_epoch"], at_ns=row["at_ns"], ends=ends))
    return tuple(sorted(found, key=lambda claim: claim.at_ns)[:CLAIM_LIMIT])


def _messages(history: History, named: Collection[int]) -> tuple[tuple[Message, ...], int, int]:
    """(the most telling ones, rows of the table, telling ones that were left out)."""
    telling = pa.array(sorted(TELLING), pa.string())
    special = set(named)
    kept: list[tuple[int, int, dict[str, Any]]] = []
    seen = found = 0
    for batch in history.batches("messages", MESSAGES.names):
        seen += batch.num_rows
        acted = pc.not_equal(batch.column("action"), str(Action.PASSED))
        special |= set(batch.filter(acted).column("message").to_pylist()[:MESSAGE_LIMIT])
        ids = pa.array(sorted(special), pa.int64())
        about = [pc.is_in(batch.column(name), value_set=ids) for name in ("message", "answers")]
        wanted = pc.or_(pc.or_(*about), pc.or_(acted, pc.is_in(batch.column("api_name"), value_set=telling)))
        for row in rows(batch.filter(pc.fill_null(wanted, False))):
            found += 1
            weight = 2 if row["message"] in special else 1 if row["answers"] in special else 0
            heapq.heappush(kept, (weight, -row["message"], row))
            if len(kept) > MESSAGE_LIMIT:
                heapq.heappop(kept)
    chosen = sorted((Message(**row) for _, _, row in kept), key=lambda message: (message.in_ns, message.message))
    return tuple(chosen), seen, found - len(chosen)


def _metadata(history: History, run: Mapping[str, Any]) -> tuple[tuple[Moment, ...], int]:
    """The longest copy, without what was never agreed on; and how much of it was left out."""
    copies: dict[str, dict[tuple[int, int, int], MetadataRow]] = {}
    counts: dict[str, int] = {}
    for batch in history.batches("metadata", METADATA.names):
        for row in rows(batch):
            counts[row["node"]] = counts.get(row["node"], 0) + 1
            copy = copies.setdefault(row["node"], {})
            if len(copy) < METADATA_LIMIT:
                lists = {name: None if row[name] is None else tuple(row[name]) for name in ("isr", "replicas")}
                copy[row["offset"], row["epoch"], row["index"]] = MetadataRow(**{**row, **lists})
    if not copies:
        return (), 0
    ends = ends_of_epochs((offset, epoch) for copy in copies.values() for offset, epoch, _ in copy)
    agreed = {
        name: [copy[place] for place in sorted(copy) if place[0] < ends[place[1]]] for name, copy in copies.items()
    }
    node = max(sorted(agreed), key=lambda name: len(agreed[name]))
    longest = agreed[node]
    shift = _shift(longest, run)
    return tuple(Moment(row=row, at_ns=_when(row, shift)) for row in longest), max(0, counts[node] - METADATA_LIMIT)


def _shift(longest: Iterable[MetadataRow], run: Mapping[str, Any]) -> int | None:
    """What to add to a wall clock in ns: what was seen live bounds it from above; the start of the run says it roughly."""
    seen = [row.at_ns - row.timestamp_ms * 1_000_000 for row in longest if row.at_ns is not None]
    if seen:
        return min(seen)
    phases = run.get("phases")
    try:
        started = datetime.fromisoformat(str(run["started_at"])).timestamp()
        return int(phases[0]["start_ns"]) - int(started * 1e9)  # type: ignore[index]
    except (KeyError, IndexError, TypeError, ValueError, OverflowError):
        return None


def _when(row: MetadataRow, shift: int | None) -> int | None:
    told = None if shift is None else row.timestamp_ms * 1_000_000 + shift
    known = [moment for moment in (told, row.at_ns) if moment is not None]
    return min(known, default=None)


def _topic_ids(metadata: Sequence[Moment]) -> Iterable[tuple[str, str]]:
    for moment in metadata:
        if moment.row.kind == "topic":
            fields = json_object(moment.row.fields)
            name, id = fields.get("name"), fields.get("topic_id")
            if isinstance(name, str) and isinstance(id, str):
                yield id, name


def json_object(text: str | None) -> dict[str, Any]:
    """{} unless it is one."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def patterns(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(regular expression, nodes) that the run's race wants quoted: texts, or {"pattern": ..., "node": "b*"}."""
    race = run.get("race")
    wanted = race.get("quotes") if isinstance(race, dict) else None
    found = []
    for item in wanted[:PATTERN_LIMIT] if isinstance(wanted, list) else []:
        pattern, node = (item.get("pattern"), item.get("node", "*")) if isinstance(item, dict) else (item, "*")
        if isinstance(pattern, str) and isinstance(node, str) and 0 < len(pattern) <= 200:
            found.append((pattern, node))
    return found


def _quotes(nodes: Path, wanted: Sequence[tuple[str, str]]) -> list[Quote]:
    """The first few lines per pattern and node."""
    found: list[Quote] = []
    for path in sorted(nodes.glob("*/log/*.log"))[:100] if wanted else []:
        node = path.parts[-3]
        mine = [pattern for pattern, of in wanted if fnmatch(node, of)]
        if mine and path.is_file() and not path.is_symlink():
            found += _quoted(path, node, mine)
    return found[:QUOTE_LIMIT]


def _quoted(path: Path, node: str, wanted: Sequence[str]) -> list[Quote]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            skipped = max(0, size - _LOG_BYTES)
            file.seek(0)
            before = sum(chunk.count(b"\n") for chunk in _chunks(file, skipped))
            lines = [line[:_LINE_BYTES].decode("utf-8", "backslashreplace") for line in file.read().split(b"\n")]
    except OSError:
        return []
    column = pa.array(lines, pa.string())
    found = []
    for pattern in wanted:
        try:
            places = pc.indices_nonzero(pc.match_substring_regex(column, pattern)).to_pylist()
        except pa.ArrowInvalid:
            continue  # not a regular expression
        found += [
            Quote(node=node, file=path.name, line=before + place + 1, text=lines[place], pattern=pattern)
            for place in places[:5]
        ]
    return sorted(found, key=lambda quote: quote.line)


def _chunks(file: Any, size: int) -> Iterable[bytes]:
    while size > 0 and (chunk := file.read(min(size, 1 << 20))):
        size -= len(chunk)
        yield chunk
