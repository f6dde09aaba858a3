"""The sequence of what happened, as rows: one per message, crash, or change that the controllers wrote down, in time order.

A row has a moment, words, and what is drawn: an arrow between two lanes, a mark on one, or the partition's replicas. The
picture (sequence_drawing.py) and the table for screen readers are made of the same rows, so that neither says more.

    Row(at_ns=6.2 s, kind="held", source="b1", target="c1", words="AlterPartition (newIsr [1, 2], ...) is held", ...)
    Row(at_ns=8.9 s, kind="down", node="b2", words="b2 is gone: killed")
    Row(at_ns=10.1 s, kind="released", source="b1", target="c1", words="... is released after 3.9 s")
    Row(at_ns=10.1 s, kind="answer", source="c1", target="b1", words="AlterPartition is answered: NONE")
    Row(at_ns=10.1 s, kind="replicas", words="t-0: ISR [1, 2], leader b1, ...", leader="b1", isr=("b1", "b2"))

Rows beyond `ROW_LIMIT` are left out, the least telling first, and counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nemesis.races.step import Step
from nemesis.wire.message import Action, Direction, Message
from nodes.metadata_row import MetadataRow
from reports.evidence import Evidence, node_name
from reports.exchange import OTHERWISE, End, Moment, json_object
from reports.spans import NodeLane, Span
from reports.wording import at, duration, one_line

ROW_LIMIT = 90
LANE_LIMIT = 9
WORDS_LIMIT = 150
_SLOW_NS = 50_000_000  # a message that took longer is drawn as sent and as arrived
_SHOWN_FIELDS = (
    "topic",
    "partition",
    "newIsr",
    "leaderEpoch",
    "partitionEpoch",
    "brokerId",
    "brokerEpoch",
    "brokerEpochs",
    "committed",
    "transactionalId",
    "producerEpoch",
    "candidateId",
    "replicaEpoch",
    "partitions",
)
# what a script does that no event tells: verb -> kind of row
_MARKED = {
    "wipe": "wipe",
    "power-loss": "power",
    "pause": "pause",
    "resume": "resume",
    "cut": "cut",
    "heal": "heal",
    "produce": "client",
    "begin": "client",
    "commit": "client",
    "abort": "client",
    "read": "client",
    "ask-end": "client",
    "elect": "mark",
    "roll": "mark",
    "upgrade": "mark",
    "write-back": "mark",
    "take-id": "mark",
    "say": "mark",
}


@dataclass(frozen=True, kw_only=True)
class Row:
    at_ns: int
    kind: (
        str  # message, held, released, dropped, answer, down, starting, up, fenced, unfenced, wipe, cut, ..., replicas
    )
    words: str
    weight: int  # the higher, the more telling
    source: str | None = None  # of an arrow
    target: str | None = None
    nodes: tuple[str, ...] = ()  # of a mark
    leader: str | None = None  # of a partition, with the members of its ISR
    isr: tuple[str, ...] = ()
    replicas: tuple[str, ...] = ()
    message: int | None = None
    bad: bool = False  # an answer that is an error


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows in time order, and the lanes that they need."""

    lanes: tuple[str, ...]
    rows: tuple[Row, ...]
    rows_left_out: int = 0


def sequence(
    evidence: Evidence, since_ns: int | None = None, until_ns: int | None = None, limit: int = ROW_LIMIT
) -> Rows:
    """All rows between two moments, the most telling `limit`."""
    found = [
        row
        for kind in (_messages, _metadata, _nodes, _claims, _steps, _ends)
        for row in kind(evidence)
        if (since_ns is None or row.at_ns >= since_ns) and (until_ns is None or row.at_ns <= until_ns)
    ]
    kept = sorted(found, key=lambda row: (-row.weight, row.at_ns))[:limit]
    shown = tuple(sorted(kept, key=lambda row: (row.at_ns, row.weight)))
    return Rows(lanes=tuple(lanes(shown)), rows=shown, rows_left_out=len(found) - len(kept))


def lanes(rows: Iterable[Row]) -> list[str]:
    """Controllers, then brokers, then clients, each by number; the busiest when there are too many."""
    counts: dict[str, int] = {}
    for row in rows:
        for name in (row.source, row.target, *row.nodes, *row.replicas):
            if name is not None:
                counts[name] = counts.get(name, 0) + 1
    busiest = sorted(counts, key=lambda name: (-counts[name], name))[:LANE_LIMIT]
    return sorted(busiest, key=lambda name: ("cnbw".find(name[:1]) % 5, len(name), name))


def _messages(evidence: Evidence) -> Iterator[Row]:
    requests = {message.message: message for message in evidence.exchange.messages}
    begin_ns = min((step.started_ns for step in evidence.exchange.steps), default=0)  # before it, nodes only come up
    registered = any(moment.row.kind == "register-broker" for moment in evidence.exchange.metadata)  # told by those
    answers = {message.answers: message for message in evidence.exchange.messages if message.answers is not None}
    for message in evidence.exchange.messages:
        if message.direction == Direction.RESPONSE and message.action == Action.PASSED:
            asked = requests.get(message.answers or -1)
            if asked is not None and asked.action != Action.PASSED:
                yield _answer(message)
        elif message.action == Action.PASSED:
            if message.in_ns < begin_ns or (registered and message.api_name == "BrokerRegistration"):
                continue
            yield _passed(message, answers.get(message.message), evidence)
        else:
            yield from _acted(message, evidence)


def _passed(message: Message, answer: Message | None, evidence: Evidence) -> Row:
    told = f", answered {one_line(answer.error, 60)}" if answer is not None and answer.error is not None else ""
    return Row(
        at_ns=message.in_ns,
        kind="message",
        words=_line(f"{_called(message, evidence)}{told}"),
        weight=3,
        source=message.source,
        target=message.destination,
        message=message.message,
        bad=answer is not None and answer.error not in (None, "NONE"),
    )


def _answer(message: Message) -> Row:
    error = message.error or "something that was not decoded"
    accepted = " (accepted)" if error == "NONE" else " (refused)" if message.error else ""
    return Row(
        at_ns=message.in_ns if message.out_ns is None else message.out_ns,
        kind="answer",
        words=_line(f"{message.api_name} is answered: {error}{accepted}"),
        weight=9,
        source=message.source,
        target=message.destination,
        message=message.message,
        bad=error != "NONE",
    )


def _acted(message: Message, evidence: Evidence) -> Iterator[Row]:
    called = _called(message, evidence)
    kind = "dropped" if message.action in (Action.DROPPED, Action.CLOSED) else "message"
    late = message.out_ns is None or message.out_ns - message.in_ns > _SLOW_NS
    if message.action in (Action.HELD, Action.DELAYED) and late:
        kind = "held"
    row = Row(
        at_ns=message.in_ns,
        kind=kind,
        words=_line(f"{called} is {message.action}"),
        weight=10,
        source=message.source,
        target=message.destination,
        message=message.message,
    )
    yield row
    if kind == "held" and message.out_ns is not None:
        lasted = duration((message.out_ns - message.in_ns) / 1e9)
        yield replace(
            row, at_ns=message.out_ns, kind="released", words=_line(f"{message.api_name} is released after {lasted}")
        )


def _called(message: Message, evidence: Evidence) -> str:
    kind = "answer to " if message.direction == Direction.RESPONSE else ""
    fields = shown_fields(message.fields, evidence.exchange.topics)
    return f"{kind}{message.api_name}{f' ({fields})' if fields else ''}"


def shown_fields(text: str | None, topics: Mapping[str, str]) -> str:
    """The fields of a frame that people ask about: "t-0, newIsr [1, 2], partitionEpoch 1"."""
    fields = json_object(text)
    if "topicId" in fields and "topic" not in fields:
        id = str(fields["topicId"])
        fields = {"topic": topics.get(id, f"{id[:6]}…"), **fields}
    if "newIsr" in fields:
        fields = {name: value for name, value in fields.items() if name not in ("brokerId", "brokerEpoch")}
    known = {name: fields[name] for name in _SHOWN_FIELDS if fields.get(name) is not None}
    if {"topic", "partition"} <= known.keys():
        known = {"": f"{known.pop('topic')}-{known.pop('partition')}", **known}
    return one_line(", ".join(f"{name} {_value(value)}".strip() for name, value in known.items()), 110)


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _metadata(evidence: Evidence) -> Iterator[Row]:
    """Changes of leaders and ISRs, and registrations. Replicas of a partition are remembered, since changes do not repeat them."""
    begin_ns = min((step.started_ns for step in evidence.exchange.steps), default=0)  # before it, brokers only come up
    replicas: dict[tuple[str, int], tuple[int, ...]] = {}
    state: dict[tuple[str, int], dict[str, Any]] = {}
    for moment in evidence.exchange.metadata:
        row = moment.row
        if moment.at_ns is None:
            continue
        if row.topic is not None and row.partition is not None and not row.topic.startswith("__"):
            partition = (row.topic, row.partition)
            replicas[partition] = row.replicas or replicas.get(partition, ())
            known = state.setdefault(partition, {})
            for name in ("isr", "leader", "leader_epoch", "partition_epoch"):
                if getattr(row, name) is not None:
                    known[name] = getattr(row, name)
            yield _replicas(moment, known, replicas[partition], evidence)
        elif row.broker is None or moment.at_ns < begin_ns:
            continue
        elif row.kind == "register-broker":
            name = node_name(evidence.run, str(row.broker))
            epoch = "" if row.broker_epoch is None else f" with broker epoch {row.broker_epoch}"
            yield Row(at_ns=moment.at_ns, kind="mark", words=f"{name} is registered{epoch}", weight=5, nodes=(name,))
        elif row.fenced is not None:
            name, word = node_name(evidence.run, str(row.broker)), "fenced" if row.fenced else "unfenced"
            yield Row(at_ns=moment.at_ns, kind=word, words=f"{name} is {word}", weight=6, nodes=(name,))


def _replicas(moment: Moment, known: Mapping[str, Any], replicas: Sequence[int], evidence: Evidence) -> Row:
    names = {id: node_name(evidence.run, str(id)) for id in (*replicas, *(known.get("isr") or ()))}
    leader = known.get("leader")
    assert moment.at_ns is not None
    return Row(
        at_ns=moment.at_ns,
        kind="replicas",
        words=_line(told(moment.row, evidence)),
        weight=7,
        leader=None if leader is None or leader < 0 else node_name(evidence.run, str(leader)),
        isr=tuple(names[id] for id in known.get("isr") or ()),
        replicas=tuple(names.values()),
    )


def told(row: MetadataRow, evidence: Evidence) -> str:
    """A record of the metadata log in words: "t-0: ISR b1, b2; leader b1; leader epoch 1; partition epoch 3"."""
    parts = []
    if row.isr is not None:
        parts.append(f"ISR {', '.join(node_name(evidence.run, str(id)) for id in row.isr) or 'empty'}")
    if row.leader is not None:
        parts.append("no leader" if row.leader < 0 else f"leader {node_name(evidence.run, str(row.leader))}")
    parts += [
        f"{name.replace('_', ' ')} {value}"
        for name in ("leader_epoch", "partition_epoch", "broker_epoch")
        if (value := getattr(row, name)) is not None
    ]
    if row.fenced is not None:
        parts.append("fenced" if row.fenced else "unfenced")
    where = f"{row.topic}-{row.partition}" if row.topic is not None and row.partition is not None else row.topic
    about = where if where is not None else None if row.broker is None else node_name(evidence.run, str(row.broker))
    return f"{about}: {'; '.join(parts)}" if about and parts else about or row.kind


def _nodes(evidence: Evidence) -> Iterator[Row]:
    """Processes that went and came."""
    for lane in evidence.states.nodes:
        yield from (row for span in lane.states if (row := _state(lane, span, evidence)) is not None)


def _state(lane: NodeLane, span: Span, evidence: Evidence) -> Row | None:
    words = {"down": f"{lane.node} is gone", "starting": f"{lane.node} is started", "up": f"{lane.node} is ready"}[
        span.state
    ]
    detail = f": {one_line(span.detail, 80)}" if span.detail and span.state == "down" else ""
    first = span is lane.states[0] or (span.state == "up" and len(lane.states) > 1 and span is lane.states[1])
    over = evidence.drained_ns is not None and span.start_ns >= evidence.drained_ns
    weight = 8 if span.state == "down" else 4
    return (
        None
        if over or first
        else Row(at_ns=span.start_ns, kind=span.state, words=words + detail, weight=weight, nodes=(lane.node,))
    )


def _claims(evidence: Evidence) -> Iterator[Row]:
    """Who says that it is the active controller. That one fell silent is told by what silenced it."""
    for claim in evidence.exchange.claims:
        if claim.ends is None:
            words = f"{claim.node} says that it is the active controller, in epoch {claim.epoch}"
        elif claim.ends == OTHERWISE:
            words = f"{claim.node} does not say so any more (epoch {claim.epoch})"
        else:
            continue
        yield Row(at_ns=claim.at_ns, kind="mark", words=_line(words), weight=7, nodes=(claim.node,))


def _steps(evidence: Evidence) -> Iterator[Row]:
    for step in evidence.exchange.steps:
        if step.status != "done":
            yield _step(step, "stuck", 11)
        elif step.verb in _MARKED:
            yield _step(step, _MARKED[step.verb], 8)


def _step(step: Step, kind: str, weight: int) -> Row:
    seen = f": {step.seen}" if step.seen and (kind in ("client", "stuck") or step.verb == "elect") else ""
    return Row(
        at_ns=step.started_ns, kind=kind, words=_line(f"{step.text}{seen}"), weight=weight, nodes=tuple(step.nodes)
    )


def _ends(evidence: Evidence) -> Iterator[Row]:
    """What the final read found, of partitions of which something is told; of a race all."""
    named = {(loss.topic, loss.partition) for loss in evidence.losses}
    for end in evidence.exchange.ends:
        if evidence.exchange.steps or (end.topic, end.partition) in named:
            yield Row(at_ns=end.at_ns, kind="end", words=_line(f"final read: {found(end)}"), weight=8)


def found(end: End) -> str:
    """ "t-0 ends at offset 0: it is empty"."""
    name = f"{end.topic}-{end.partition}"
    if end.log_end is None:
        return f"{name} could not be read ({end.error or 'nobody answered'})"
    said = f"{name} ends at offset {end.log_end}"
    if end.log_end == (end.log_start or 0):
        return f"{said}: it is empty"
    if end.stable_end is not None and end.stable_end < end.log_end:
        return f"{said}, but read_committed gets to offset {end.stable_end} only"
    return said if end.error is None else f"{said}, and was read to {end.read_to or 0} only ({end.error})"


def _line(text: str) -> str:
    return one_line(text, WORDS_LIMIT)


def spoken(rows: Iterable[Row], zero_ns: int) -> Iterator[tuple[str, str, str]]:
    """The rows as text: when, between or at whom, what."""
    for row in rows:
        who = f"{row.source} → {row.target}" if row.source is not None else ", ".join(row.nodes)
        yield at(row.at_ns, zero_ns), who, row.words
