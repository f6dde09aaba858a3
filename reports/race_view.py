"""What the templates need to tell a race, and to draw the sequence around an anomaly of any run with the wire gate on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from reports.evidence import Evidence
from reports.sequence import sequence, spoken, told
from reports.sequence_drawing import draw, legend
from reports.story import about, story
from reports.verdict import AnomalySummary, Severity
from reports.witness import integers
from reports.wording import at, clip, duration, one_line

AROUND = 3  # anomalies that get a sequence of their own
AROUND_ROWS = 40
BEFORE_NS, AFTER_NS = 2_000_000_000, 15_000_000_000
METADATA_ROWS = 150
_ABOUT = ("name", "variant", "title", "story", "references", "affected", "fixed", "expected")
_PLAIN = frozenset(
    {"partition", "partition-change", "topic", "remove-topic", "controller-change", "leader-change", "feature-level"}
    | {"register-broker", "unregister-broker", "broker-registration-change", "fence-broker", "unfence-broker"}
)


@dataclass(frozen=True, kw_only=True)
class Picture:
    drawing: Markup
    legend: Markup
    rows: list[tuple[str, str, str]]
    left_out: int


def race(evidence: Evidence) -> dict[str, Any] | None:
    """None for a run without steps: it tells no story of its own."""
    if not evidence.exchange.steps:
        return None
    metadata = [moment for moment in evidence.exchange.metadata if moment.row.kind in _PLAIN]
    return {
        "about": dict.fromkeys(_ABOUT, "") | about(evidence.run),
        "story": story(evidence),
        "picture": picture(evidence, "sequence-race"),
        "losses": evidence.losses,
        "steps": list(_steps(evidence)),
        "metadata": [
            {
                "offset": moment.row.offset,
                "at": "-" if moment.at_ns is None else at(moment.at_ns, evidence.zero_ns),
                "epoch": moment.row.epoch,
                "kind": one_line(moment.row.kind, 60),
                "says": one_line(told(moment.row, evidence), 200),
            }
            for moment in metadata[-METADATA_ROWS:]
        ],
        "metadata_node": metadata[0].row.node if metadata else "",
        "metadata_left_out": evidence.exchange.metadata_left_out + max(0, len(metadata) - METADATA_ROWS),
        "quotes": evidence.exchange.quotes,
    }


def _steps(evidence: Evidence) -> Iterator[dict[str, str]]:
    for step in evidence.exchange.steps:
        took = "-" if step.ended_ns is None else duration((step.ended_ns - step.started_ns) / 1e9)
        yield {
            "at": at(step.started_ns, evidence.zero_ns),
            "took": took,
            "text": one_line(step.text, 300),
            "status": one_line(step.status, 40),
            "seen": clip(one_line(step.seen or "", 400)),
        }


def picture(
    evidence: Evidence, name: str, since: int | None = None, until: int | None = None, limit: int = 90
) -> Picture | None:
    """The sequence between two moments; None when there is nothing to draw."""
    rows = sequence(evidence, since, until, limit)
    drawing = draw(rows, evidence, name)
    if not drawing:
        return None
    words: list[tuple[str, str, str]] = list(spoken(rows.rows, evidence.zero_ns))
    return Picture(drawing=drawing, legend=legend(rows.rows), rows=words, left_out=rows.rows_left_out)


def around(evidence: Evidence) -> dict[int, Picture]:
    """Place of an anomaly (from 1) -> the messages around its witnesses, where the wire gate saw any. Not for a race,
    which shows its whole sequence."""
    if evidence.exchange.steps or not evidence.exchange.messages_seen:
        return {}
    found: dict[int, Picture] = {}
    for place, anomaly in enumerate(evidence.verdict.anomalies, 1):
        span = _span(anomaly, evidence) if anomaly.severity == Severity.VIOLATION else None
        if span is not None and len(found) < AROUND:
            drawn = picture(evidence, f"sequence-{place}", span[0] - BEFORE_NS, span[1] + AFTER_NS, AROUND_ROWS)
            if drawn is not None:
                found[place] = drawn
    return found


def _span(anomaly: AnomalySummary, evidence: Evidence) -> tuple[int, int] | None:
    """When the ops of its first witnesses happened, the final read aside: that comes long after."""
    named = [op for witness in anomaly.witnesses[:5] for op in integers(witness.get("ops"))]
    ops = [evidence.ops[op] for op in named if op in evidence.ops and evidence.ops[op].phase == "main"]
    moments = [moment for op in ops for moment in (op.invoked_ns, op.completed_ns) if moment is not None]
    return (min(moments), max(moments)) if moments else None
