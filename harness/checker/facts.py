"""What a checker has to know about a run besides its rows: what the settings promise, what the run deleted, how far the final read got.

One row per log (a topic-partition of a run), small enough to be broadcast to every big table. From run.json, the final
bounds and a few counts per log ("tallies"); plain Python, so that the rules can be read and tested without Spark.

run.json may say what the run deleted on purpose:  "deleted": [{"topic": "log"}, {"topic": "log", "partition": 0},
{"topic": "log", "partition": 0, "before": 41}] (a topic, a partition's topic, records by DeleteRecords).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import pyarrow as pa

from harness.checker.settings import Settings
from harness.history.rundir import RunInfo

GONE_ERROR = "UNKNOWN_TOPIC_OR_PARTITION"
DISK_FAULTS = ("wipe", "roll-back", "power-loss")  # they take away what one replica had stored
_TRUE = ("true", "1", "yes", "on")


class Ending(StrEnum):
    """How a log was found when the run ended."""

    READ = "read"  # there is a complete prefix: `complete_to` says how far
    UNREAD = "unread"  # nobody could say, or nobody asked
    GONE = "gone"  # the topic or partition is not there, and the run did not delete it
    DELETED = "deleted"  # the run deleted it


class LogKey(NamedTuple):
    run: str
    topic: str
    partition: int


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Counts of one log, from one pass over its records."""

    sends: int = 0
    acknowledged: int = 0  # with an offset
    unplaced: int = 0  # acknowledged, without an offset (a broker that had the batch already cannot always tell where)
    found_anyway: int = 0  # of these, how many the final read contains: values are unique, so they are not lost
    reads: int = 0
    first_final: int | None = None  # lowest and highest process of the final read
    last_final: int | None = None
    max_offset: int | None = None
    log: int = 0  # the key that Spark gave it
    started_ns: int = 0  # first invocation
    transactional_reads: int = 0  # by polls within transactions
    first_epoch: int | None = None  # lowest and highest leader epoch of what was read
    last_epoch: int | None = None
    last_send_ns: int | None = None  # last invocation of a send while faults may be active


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    run: str
    settings: Settings = field(default_factory=Settings)
    acks: str | None = None  # "all", "1", "0"; None: not known, taken as all
    idempotence: bool | None = None
    retries: int | None = None
    requests_in_flight: int | None = None
    topics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # name -> {"replication", "config"}
    broker_config: Mapping[str, str] = field(default_factory=dict)
    deleted: Sequence[Mapping[str, Any]] = ()
    read_committed: bool = False  # what consumers and the final read may see
    transaction_timeout_ms: int = 60_000  # librdkafka's and Kafka's own default
    origin_ns: int | None = None  # time 0 of every sentence
    status: str = "completed"  # how the run ended: completed, interrupted, harness-error or hang
    reason: str | None = None  # why, unless it completed
    foreign: bool = False  # a history of jepsen.tests.kafka (foreign_kafka.py)
    drained_ns: int | None = None  # when the final read was over: what happens to nodes later is the end of the run

    @property
    def keeps_order(self) -> bool:
        """Whether a client's records stand in the order in which they were sent even if their sends overlapped."""
        return bool(self.idempotence) or self.requests_in_flight == 1

    @property
    def may_duplicate(self) -> bool:
        return self.idempotence is False and self.retries != 0


LOGS = pa.schema(
    [
        pa.field("log", pa.int64(), nullable=False),  # xxhash64(run, topic, partition)
        pa.field("run", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("ending", pa.string(), nullable=False),
        pa.field("log_start", pa.int64()),
        pa.field("log_end", pa.int64()),
        pa.field("unread_because", pa.string()),  # where it was not read, or not to its end
        pa.field(
            "blocked", pa.bool_(), nullable=False
        ),  # a transaction that never ends hides what is above complete_to
        pa.field("committed_only", pa.bool_(), nullable=False),  # readers had read_committed
        pa.field("complete_to", pa.int64()),  # the final read saw all that is there from log_start up to here
        pa.field("final_process", pa.int64()),  # the one whose reads are the final read
        pa.field("deleted_before", pa.int64()),  # DeleteRecords was asked for up to here
        pa.field("may_expire", pa.bool_(), nullable=False),
        pa.field("compacted", pa.bool_(), nullable=False),
        pa.field("loss_reason", pa.string()),  # the setting that makes loss possible
        pa.field("keeps_order", pa.bool_(), nullable=False),
        pa.field("may_duplicate", pa.bool_(), nullable=False),
        pa.field("origin_ns", pa.int64(), nullable=False),
        pa.field("unavailable_bound", pa.float64()),
        pa.field("last_send_ns", pa.int64()),
    ]
)


def run_facts(info: RunInfo) -> RunFacts:
    """From run.json. A run without a spec (an imported history) gets the defaults: everything is promised."""
    workload = info.spec.get("workload") or {}
    config = info.spec.get("config") or {}
    brokers = {**(config.get("all") or {}), **(config.get("brokers") or {})}
    for node in (config.get("nodes") or {}).values():
        brokers.update(
            {k: v for k, v in (node or {}).items() if k.startswith(("unclean", "log.retention")) and k not in brokers}
        )
    starts = [phase["start_ns"] for phase in info.phases if phase.get("start_ns") is not None]
    acks = workload.get("acks")
    return RunFacts(
        run=info.run,
        settings=Settings.model_validate(info.spec.get("checks") or {}),
        acks=None if acks is None else {"-1": "all"}.get(str(acks), str(acks)),
        idempotence=workload.get("idempotence"),
        retries=workload.get("retries"),
        requests_in_flight=workload.get("requests_in_flight"),
        read_committed=workload.get("isolation") == "read_committed",
        transaction_timeout_ms=int(workload.get("transaction_timeout_ms") or 60_000),
        drained_ns=next((phase.get("start_ns") for phase in info.phases if phase.get("name") == "collect"), None),
        topics={topic["name"]: topic for topic in info.topics},
        broker_config={str(k): _text(v) for k, v in brokers.items()},
        deleted=info.more.get("deleted") or (),
        origin_ns=min(starts) if starts else None,
        status=str(info.more.get("status", "completed")),
        reason=info.more.get("reason"),
    )


def log_rows(
    facts: Mapping[str, RunFacts],
    tallies: Mapping[LogKey, Tally],
    final_bounds: Iterable[Mapping[str, Any]],
    faults: Iterable[Mapping[str, Any]],
    *,
    leaderless: Collection[LogKey] = (),
    blocked: Collection[LogKey] = (),
) -> pa.Table:
    """The LOGS row of every log that has records. `final_bounds`: BOUNDS rows of the final phase; `faults`: FAULTS rows;
    `leaderless`: logs without a leader at the end; `blocked`: logs with a transaction that never ends.
    """
    bounds: dict[LogKey, list[Mapping[str, Any]]] = {}
    for row in final_bounds:
        bounds.setdefault(LogKey(row["run"], row["topic"], row["partition"]), []).append(row)
    disk_faults = {row["run"] for row in faults if _took_effect(row) and str(row["name"]).startswith(DISK_FAULTS)}
    started: dict[str, int] = {}
    for key, tally in tallies.items():
        started[key.run] = min(tally.started_ns, started.get(key.run, tally.started_ns))
    rows = []
    for key in sorted(tallies):
        run = facts[key.run]
        origin = run.origin_ns if run.origin_ns is not None else started[key.run]
        rows.append(
            key._asdict()
            | _ending(run, key, bounds.get(key, []), leaderless=key in leaderless)
            | _promises(run, key.topic, disk_faults=key.run in disk_faults)
            | {
                "log": tallies[key].log,
                "final_process": tallies[key].last_final,
                "last_send_ns": tallies[key].last_send_ns,
                "origin_ns": origin,
                "blocked": key in blocked,
                "committed_only": run.read_committed,
            }
        )
    return pa.Table.from_pylist(rows, schema=LOGS)


def _took_effect(fault: Mapping[str, Any]) -> bool:
    return fault["injecting_ns"] is not None and fault["status"] not in ("planned", "refused")


def _ending(run: RunFacts, key: LogKey, bounds: list[Mapping[str, Any]], *, leaderless: bool) -> dict[str, Any]:
    """The latest final bounds count, unless they could not be had and earlier ones say how far a read got."""
    if any(
        entry["topic"] == key.topic and "before" not in entry and entry.get("partition") in (None, key.partition)
        for entry in run.deleted
    ):
        return {"ending": Ending.DELETED}
    before = [
        entry["before"]
        for entry in run.deleted
        if entry["topic"] == key.topic and entry.get("partition") == key.partition and "before" in entry
    ]
    ordered = sorted(bounds, key=lambda row: (row["invoked_ns"], row["op"]))
    common = {"deleted_before": max(before, default=None), "unread_because": _unread(ordered, leaderless=leaderless)}
    if ordered and ordered[-1]["error"] == GONE_ERROR:
        return common | {"ending": Ending.GONE}
    known = [row for row in ordered if row["log_end"] is not None]
    if not known:
        return common | {"ending": Ending.UNREAD}
    last = next((row for row in reversed(known) if row["read_to"] is not None), known[-1])
    span = {"log_start": last["log_start"] or 0, "log_end": last["log_end"]}
    if last["read_to"] is None:
        return common | span | {"ending": Ending.UNREAD}
    return common | span | {"ending": Ending.READ, "complete_to": min(last["read_to"], last["log_end"])}


def _unread(ordered: list[Mapping[str, Any]], *, leaderless: bool) -> str | None:
    """Why a log could not be read to its end, as far as anybody knows."""
    if leaderless:
        return "it had no leader"
    error = ordered[-1]["error"] if ordered else None
    if error == "_TIMED_OUT":
        return "nobody answered in time"
    return None if error is None else f"the answer was {error}"


def _promises(run: RunFacts, topic: str, *, disk_faults: bool) -> dict[str, Any]:
    known = run.topics.get(topic, {})
    config = {str(k): _text(v) for k, v in (known.get("config") or {}).items()}

    def setting(name: str) -> str:
        return config.get(name, run.broker_config.get(name, run.broker_config.get(f"log.{name}", "")))

    policy = setting("cleanup.policy")
    retention = [setting(name) for name in ("retention.ms", "retention.bytes")]
    retention += [run.broker_config.get(f"log.retention.{unit}", "") for unit in ("minutes", "hours")]
    return {
        "may_expire": "delete" in (policy or "delete") and any(value not in ("", "-1") for value in retention),
        "compacted": "compact" in policy,
        "loss_reason": _loss_reason(
            run, known.get("replication"), setting("unclean.leader.election.enable"), disk_faults=disk_faults
        ),
        "keeps_order": run.keeps_order,
        "may_duplicate": run.may_duplicate,
        "unavailable_bound": run.settings.unavailable_bound,
    }


def _loss_reason(run: RunFacts, replication: int | None, unclean: str, *, disk_faults: bool) -> str | None:
    """The setting that allows the system to lose acknowledged records, in the words of the spec."""
    if run.acks in ("0", "1"):
        return f"acks={run.acks}"
    if unclean.lower() in _TRUE:
        return "unclean.leader.election.enable=true"
    if replication == 1 and disk_faults:
        return "replication 1 and a fault that takes a disk's content"
    return None


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
