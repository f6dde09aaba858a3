"""The story of a race in a few sentences: what was acknowledged, which message and which crash did it, and what is gone.

Made of what was recorded, not of what the script wanted: the same sentences tell a run in which the bug did not show.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nemesis.races.step import StepStatus
from nemesis.wire.message import Action, Direction, Message
from reports import explain
from reports.evidence import Evidence, node_name
from reports.sequence import shown_fields
from reports.verdict import Severity, Validity
from reports.wording import at, duration, number, one_line, plural

_BROKE = {
    "kill": "killed",
    "stop": "stopped",
    "pause": "frozen",
    "wipe": "given an empty disk in place of its own",
    "roll-back": "given an old copy of its disk",
    "power-loss": "without power",
    "take-id": "set up with the id of another node",
}
_MESSAGES = 4
_CRASHES = 10


def story(evidence: Evidence) -> list[str]:
    """Sentences in the order in which things happened; empty when the run was no race and nothing was held."""
    return [one_line(sentence) for sentence in _sentences(evidence)]


def about(run: dict[str, Any]) -> dict[str, str]:
    """What run.json says of the race: name, variant, title, story, references."""
    race = run.get("race")
    if not isinstance(race, dict):
        return {"name": str(race)} if isinstance(race, str) else {}
    wanted = ("name", "race", "variant", "title", "story", "affected", "fixed")
    known = {key: race[key] for key in wanted if isinstance(race.get(key), str)}
    if isinstance(expected := race.get("expected"), dict) and isinstance(expected.get("outcome"), str):
        because = f", because {expected['because']}" if expected.get("because") else ""
        known["expected"] = f"{expected['outcome']}{because}"
    if isinstance(race.get("references"), list):
        known["references"] = ", ".join(str(item) for item in race["references"][:10])
    return {"name": known.pop("race", ""), **known} if "name" not in known else known


def _sentences(evidence: Evidence) -> Iterator[str]:
    acted = [message for message in evidence.exchange.messages if message.action != Action.PASSED]
    told = [(message.in_ns, _message(message, evidence)) for message in acted[:_MESSAGES]]
    told += [*_transactions(evidence), *_acknowledged(evidence), *_crashes(evidence)]
    yield from (sentence for _, sentence in sorted(told, key=lambda one: one[0]))
    if len(acted) > _MESSAGES:
        yield f"{plural(len(acted) - _MESSAGES, 'more message')} were held, dropped or changed; see below."
    yield from _leaders(evidence)
    yield from _end(evidence)


def _acknowledged(evidence: Evidence) -> Iterator[tuple[int, str]]:
    """How many records, and by when."""
    counts = evidence.verdict.counts
    sent = [
        step.ended_ns
        for step in evidence.exchange.steps
        if step.verb in ("produce", "flush") and step.ended_ns and "acknowledged" in (step.seen or "")
    ]
    if counts is not None:
        by = f"By {at(max(sent), evidence.zero_ns)} " if sent else ""
        were = "was" if counts.acknowledged == 1 else "were"
        told = "the cluster told the client that it had stored them" if counts.acknowledged else "nothing was promised"
        yield max(sent, default=0), f"{by}{plural(counts.acknowledged, 'record')} {were} acknowledged: {told}."


def _transactions(evidence: Evidence) -> Iterator[tuple[int, str]]:
    """How each transaction of the script ended, in the script's words."""
    ends = [step for step in evidence.exchange.steps if step.verb in ("commit", "abort") and step.ended_ns is not None]
    for step in ends[:_CRASHES]:
        yield (
            step.ended_ns or 0,
            f"At {at(step.ended_ns, evidence.zero_ns)} {step.text}: {step.seen or 'nothing was told'}.",
        )


def _message(message: Message, evidence: Evidence) -> str:
    zero = evidence.zero_ns
    fields = shown_fields(message.fields, evidence.exchange.topics)
    what = f"{message.api_name}{f' ({fields})' if fields else ''}"
    if message.direction == Direction.RESPONSE:
        what = f"the answer to {what}"
    sent = f"At {at(message.in_ns, zero)} {message.source} sent {message.destination} {what}"
    if message.action not in (Action.HELD, Action.DELAYED):
        return f"{sent}; krash {_did(message.action)}."
    if message.out_ns is None:
        return f"{sent}. krash held it back and never let it go."
    answer = next((one for one in evidence.exchange.messages if one.answers == message.message), None)
    said = ""
    if answer is not None and answer.error is not None:
        said = " and was accepted" if answer.error == "NONE" else f" and was refused: {answer.error}"
    return (
        f"{sent}. krash held it back for {duration((message.out_ns - message.in_ns) / 1e9)}: "
        f"it arrived at {at(message.out_ns, zero)}{said}."
    )


def _did(action: str) -> str:
    return {"dropped": "dropped it", "duplicated": "sent it twice", "closed": "closed its connection"}.get(
        action, f"{action} it"
    )


def _crashes(evidence: Evidence) -> Iterator[tuple[int, str]]:
    """When, and what krash broke then. Of a race, cuts and upgrades are told by their steps, which say it in words."""
    zero, steps = evidence.zero_ns, evidence.exchange.steps
    rolls = [step for step in steps if step.verb == "roll"]
    for step in [step for step in steps if step.verb in ("roll", "cut")][:_CRASHES]:
        what = step.text.partition(" ")[2]
        said = f"the network was cut: {what}" if step.verb == "cut" else f"an upgrade began: {what}"
        yield step.started_ns, f"At {at(step.started_ns, zero)} {said}."
    struck = [fault for fault in evidence.faults if fault.injecting_ns is not None and fault.name in _BROKE]
    for fault in sorted(struck, key=lambda fault: fault.injecting_ns or 0)[:_CRASHES]:
        begun = fault.injecting_ns or 0
        if any(step.started_ns <= begun <= (step.ended_ns or begun) for step in rolls):
            continue
        names = one_line(" and ".join(fault.targets[:4]), 80)
        verb = "were" if len(fault.targets) > 1 else "was"
        yield begun, f"At {at(begun, zero)} {names} {verb} {_BROKE[fault.name]}."


def _leaders(evidence: Evidence) -> Iterator[str]:
    """Who led the partitions that lost something."""
    named = {(loss.topic, loss.partition) for loss in evidence.losses}
    for lane in [lane for lane in evidence.states.partitions if (lane.topic, lane.partition) in named][:2]:
        spans = lane.leaders
        if len(spans) < 2:
            continue
        names = ["nobody" if span.state == "-1" else node_name(evidence.run, span.state) for span in spans[:6]]
        turns = [f"{names[0]} until {at(spans[0].end_ns, evidence.zero_ns)}"]
        turns += [
            f"{name} from {at(span.start_ns, evidence.zero_ns)}"
            for name, span in zip(names[1:], spans[1:6], strict=False)
        ]
        yield f"{lane.topic}-{lane.partition} was led by {', then by '.join(turns)}."


def _end(evidence: Evidence) -> Iterator[str]:
    verdict, counts = evidence.verdict, evidence.verdict.counts
    stuck = [step for step in evidence.exchange.steps if step.status in (StepStatus.NOT_REACHED, StepStatus.FAILED)]
    if stuck:
        yield f"The race stopped at step {stuck[0].step}, {stuck[0].text}. Seen instead: {stuck[0].seen or 'nothing'}."
    for loss in evidence.losses[:4]:
        span = f"offset {loss.first}" if loss.first == loss.last else f"offsets {loss.first} to {loss.last}"
        of = f" of the {number(counts.acknowledged)}" if counts is not None and loss.kind == "lost-write" else ""
        what = "acknowledged records" if loss.kind == "lost-write" else "records that a consumer had read"
        gone = "is" if loss.count == 1 else "are"
        yield f"In the end {number(loss.count)}{of} {what} {gone} gone from {loss.topic}-{loss.partition} ({span})."
    for anomaly in verdict.anomalies:
        if anomaly.severity == Severity.VIOLATION and anomaly.type not in {loss.kind for loss in evidence.losses}:
            yield f"In the end: {explain.counted(anomaly.type, anomaly.count)}."
    yield from verdict.unjudged[:2]
    if verdict.verdict == Validity.VALID and not stuck:
        besides = [
            explain.counted(anomaly.type, anomaly.count)
            for anomaly in verdict.anomalies
            if anomaly.severity == Severity.INFORMATION and not anomaly.expected and anomaly.type != "unavailable"
        ]
        rest = f"but {', '.join(besides)}" if besides else "and nothing that was checked went wrong"
        yield f"In the end every acknowledged record was there, {rest}."
