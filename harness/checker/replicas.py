"""Replicas that did not come back, and replicas that should not have been let in.

under-replicated asks how things stood when the final read was over: the last ISR that anybody saw of each partition,
against its replicas. It is a violation only if nothing was left to wait for: every broker up and unfenced, every fault
healed, and all of that for longer than `rejoin_bound`. If less time had passed it is information.

fenced-replica reads the metadata log alone, which is the one order of events that all controllers agreed on:

    41  broker-registration-change  broker 2 fenced
    44  partition-change  t-0  isr [1, 2]      <- 2 was not in the ISR before, and is fenced: let in although it is fenced

A broker that is fenced while it is in an ISR may stay there (the last member always does); only joining counts.

Source: KAFKA-14616 (a re-created topic is not followed again), KAFKA-13916 and KIP-841 (a fenced broker joins the ISR).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.checker.anomalies import FENCED_REPLICA, UNDER_REPLICATED
from harness.checker.check import Check, Need, Row, plain_finding
from nodes.event import EventKind
from nodes.metadata_row import ends_of_epochs
from reports.verdict import Severity

if TYPE_CHECKING:
    from harness.checker.history import History

Partition = tuple[str, int]
_UP = (EventKind.STARTED, EventKind.READY, EventKind.UNFENCED)
_DOWN = (EventKind.EXITED, EventKind.FENCED)
_PLACED = ("partition", "partition-change")


@dataclass(kw_only=True)
class Standing:
    """How one run's cluster stood when its final read was over."""

    isr: dict[Partition, frozenset[int]] = field(default_factory=dict)
    leaders: dict[Partition, int] = field(default_factory=dict)
    replicas: dict[Partition, frozenset[int]] = field(default_factory=dict)
    down: dict[str, str] = field(default_factory=dict)  # node -> "exited" or "fenced"
    changed_ns: int | None = None  # when a broker last came up or went away, or a fault was healed

    def touched(self, at_ns: int | None) -> None:
        if at_ns is not None:
            self.changed_ns = max(at_ns, self.changed_ns or at_ns)


def standing(
    events: Iterable[Mapping[str, Any]],
    faults: Iterable[Mapping[str, Any]],
    metadata: Iterable[Mapping[str, Any]],
    until_ns: int | None,
) -> Standing:
    """Rows of EVENTS, FAULTS and METADATA of one run; what came after `until_ns` is its end, not its outcome."""
    found = Standing()
    for event in sorted(events, key=lambda event: int(event["at_ns"])):
        if until_ns is not None and event["at_ns"] > until_ns:
            break
        if event["topic"] is not None and event["partition"] is not None:
            _place(found, event)
        elif event["node"] is not None and event["kind"] in (*_UP, *_DOWN):
            found.touched(event["at_ns"])
            if event["kind"] in _DOWN:
                found.down[event["node"]] = event["kind"]
            elif found.down.get(event["node"]) != EventKind.FENCED or event["kind"] == EventKind.UNFENCED:
                found.down.pop(event["node"], None)
    for row in faults:
        found.touched(row["healed_ns"] or row["injecting_ns"])
        if row["status"] == "active":
            found.down |= {f"{row['name']} of {', '.join(row['targets'])}": "never healed"}
    for row in metadata:
        if row["replicas"] and row["topic"] is not None and row["partition"] is not None:
            found.replicas[row["topic"], row["partition"]] = frozenset(row["replicas"])
    return found


def _place(found: Standing, event: Mapping[str, Any]) -> None:
    partition = (event["topic"], event["partition"])
    if event["leader"] is not None:
        found.leaders[partition] = event["leader"]
    if event["isr"] is not None:
        found.isr[partition] = frozenset(event["isr"])


def missing_replicas(history: History) -> Iterator[Row]:
    """Partitions of the run's topics whose ISR was not whole at the end."""
    for run, at_end in history.standing.items():
        facts = history.runs[run]
        ended_ns = history.ends.get(run)
        for (topic, partition), isr in sorted(at_end.isr.items()):
            known = facts.topics.get(topic, {})
            replicas = at_end.replicas.get((topic, partition), frozenset())
            wanted = len(replicas) or known.get("replication") or 0
            if (
                topic not in facts.topics
                or len(isr) >= wanted
                or any(one.get("topic") == topic for one in facts.deleted)
            ):
                continue
            quiet = None if ended_ns is None or at_end.changed_ns is None else (ended_ns - at_end.changed_ns) / 1e9
            absent = ", ".join(f"broker {id}" for id in sorted(replicas - isr)) or f"{wanted - len(isr)} of them"
            says = (
                f"At the end {topic}-{partition} had {len(isr)} of its {wanted} replicas in the ISR "
                f"({_ids(isr)}); {absent} had not come back"
            )
            serious = not at_end.down and quiet is not None and quiet > facts.settings.rejoin_bound
            yield plain_finding(
                UNDER_REPLICATED,
                run=run,
                sentence=says + _patience(at_end, quiet, serious=serious),
                severity=None if serious else Severity.INFORMATION,
                topic=topic,
                partition=partition,
                since=at_end.changed_ns,
                until=ended_ns,
                detail={
                    "isr": sorted(isr),
                    "replicas": sorted(replicas),
                    "leader": at_end.leaders.get((topic, partition)),
                },
            )


def _patience(at_end: Standing, quiet: float | None, *, serious: bool) -> str:
    if serious:
        return f", although every broker had been up and left alone for {quiet:.0f} s."
    if at_end.down:
        return f"; {'; '.join(f'{name}: {how}' for name, how in sorted(at_end.down.items())[:3])}."
    return "." if quiet is None else f"; the last of its faults was over for {quiet:.0f} s only."


def fenced_joins(history: History) -> Iterator[Row]:
    """ISR changes that let a fenced broker in."""
    for run, rows in history.metadata.items():
        for row, broker in joined_while_fenced(rows):
            where = f"{row['topic']}-{row['partition']}"
            yield plain_finding(
                FENCED_REPLICA,
                run=run,
                sentence=f"Record {row['offset']} of the metadata log put broker {broker} into the ISR of {where} "
                f"({_ids(row['isr'])}) while broker {broker} was fenced.",
                topic=row["topic"],
                partition=row["partition"],
                since=row["at_ns"],
                until=row["at_ns"],
                detail={"broker": broker, "isr": list(row["isr"]), "metadata_offset": row["offset"]},
            )


def joined_while_fenced(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], int]]:
    """(the METADATA row that let it in, broker id), each once however many nodes have a copy of that record.

    What a controller wrote without its quorum was never agreed on, and does not count.
    """
    rows = list(rows)
    ends = ends_of_epochs((row["offset"], row["epoch"]) for row in rows)
    copies: dict[str, list[Mapping[str, Any]]] = {}
    for row in (row for row in rows if row["offset"] < ends[row["epoch"]]):
        copies.setdefault(row["node"], []).append(row)
    told: set[tuple[int, str, int, int]] = set()
    for copy in copies.values():
        fenced: dict[int, bool] = {}
        isr: dict[Partition, frozenset[int]] = {}
        for row in sorted(copy, key=lambda row: (row["offset"], row["index"])):
            if row["broker"] is not None and row["fenced"] is not None:
                fenced[row["broker"]] = row["fenced"]
            if row["kind"] not in _PLACED or row["isr"] is None:
                continue
            partition = (row["topic"], row["partition"])
            new = frozenset(row["isr"]) - isr.get(partition, frozenset()) if row["kind"] != "partition" else frozenset()
            isr[partition] = frozenset(row["isr"])
            for broker in sorted(new):
                if fenced.get(broker) and (row["offset"], *partition, broker) not in told:
                    told.add((row["offset"], *partition, broker))
                    yield row, broker


def _ids(brokers: Iterable[int]) -> str:
    return f"[{', '.join(map(str, sorted(brokers)))}]"


CHECKS = (
    Check(kind=UNDER_REPLICATED, engine="rules", needs=Need.REPLICAS, tell=missing_replicas, optional=True),
    Check(kind=FENCED_REPLICA, engine="rules", needs=Need.METADATA, tell=fenced_joins, optional=True),
)
