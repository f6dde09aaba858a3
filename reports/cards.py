"""An anomaly as a card: what it is, what it means, what was going on, and the operations that prove it as one table.

The check's sentence tells the first witness; a row of the table tells each. What a row shows already (process, times,
offset) is not said again beneath it.
"""

from __future__ import annotations

import json
from typing import Any

from nemesis.fault import FaultRow
from reports import explain
from reports.evidence import Evidence, node_name
from reports.spans import Span
from reports.verdict import AnomalySummary
from reports.witness import WitnessOp, WitnessRecord, integers
from reports.wording import SENTENCE_LIMIT, VALUE_LIMIT, at, clip, one_line, process_name


def card(place: int, anomaly: AnomalySummary, evidence: Evidence, *, witnesses: int, ops: int) -> dict[str, Any]:
    """What the template needs for one type of anomaly: at most so many `witnesses`, each with at most so many `ops`."""
    explanation = explain.anomaly(anomaly.type)
    shown = anomaly.witnesses[:witnesses]
    return {
        "id": f"anomaly-{place}",
        "summary": anomaly,
        "lead": clip(anomaly.sentence, SENTENCE_LIMIT),
        "explanation": explanation,
        "witnesses": [_witness(witness, anomaly, evidence, ops) for witness in shown],
        "because": _because(shown) if anomaly.expected else None,
        "faults": _named_faults(shown, evidence),
        "leadership": _leadership(shown, evidence),
        "left_out": anomaly.count - len(shown),
    }


def _named_faults(witnesses: list[dict[str, Any]], evidence: Evidence) -> list[tuple[int, str]]:
    named = {fault for witness in witnesses for fault in integers(witness.get("faults"))}
    return [_fault_name(fault, evidence) for fault in evidence.faults if fault.fault in named][:8]


def _leadership(witnesses: list[dict[str, Any]], evidence: Evidence) -> list[tuple[str, str]]:
    """For up to three partitions that witnesses name: their leaders from the last of those ops on, four at most."""
    told: list[tuple[str, str]] = []
    for lane in evidence.states.partitions:
        named = [w for w in witnesses if (w.get("topic"), w.get("partition")) == (lane.topic, lane.partition)]
        times = [evidence.ops[op].invoked_ns for w in named for op in integers(w.get("ops"))[:1] if op in evidence.ops]
        spans = [span for span in lane.leaders if times and span.end_ns > max(times)][:4]
        if spans and len(told) < 3:
            told.append((one_line(f"{lane.topic}-{lane.partition}", 120), _succession(spans, evidence)))
    return told


def _succession(spans: list[Span], evidence: Evidence) -> str:
    """ "b1 until 17.900 s, nobody until 19.600 s, then b2"."""
    names = ["nobody" if span.state == "-1" else node_name(evidence.run, span.state) for span in spans]
    earlier = [
        f"{name} until {at(span.end_ns, evidence.zero_ns)}" for name, span in zip(names, spans[:-1], strict=False)
    ]
    return ", ".join([*earlier, f"then {names[-1]}" if earlier else names[-1]]) + "."


def _witness(witness: dict[str, Any], anomaly: AnomalySummary, evidence: Evidence, limit: int) -> dict[str, Any]:
    """One row of the table."""
    ids = integers(witness.get("ops"))
    topic, partition = witness.get("topic"), witness.get("partition")
    value = witness.get("value")
    sentence = str(witness.get("sentence") or "")
    known = _known(witness)
    return {
        "says": _says(anomaly, sentence, known),
        "partition": None if topic is None else one_line(f"{topic}-{partition}", 120),
        "offset": witness.get("offset"),
        "value": None if value is None else clip(str(value), VALUE_LIMIT),
        "ops": [_op(evidence.ops[op], evidence) for op in ids[:limit] if op in evidence.ops],
        "missing": [op for op in ids[:limit] if op not in evidence.ops],
        "left_out": max(0, len(ids) - limit),
        "detail": None if known or witness.get("detail") is None else clip(str(witness["detail"]), SENTENCE_LIMIT),
    }


def _known(witness: dict[str, Any]) -> dict[str, Any]:
    """What the check wrote into `detail`; {} unless it is a JSON object."""
    try:
        detail = json.loads(witness.get("detail") or "{}")
    except (TypeError, ValueError):
        return {}
    return detail if isinstance(detail, dict) else {}


def _says(anomaly: AnomalySummary, sentence: str, known: dict[str, Any]) -> str:
    """What the row does not show already: how a record was lost, or the whole sentence unless it is the card's own."""
    how = explain.LOST.get(str(known.get("how")))
    if anomaly.type == "lost-write" and how is not None:
        other = known.get("other_value")
        return f"in the end {how}" + (f": {clip(other, VALUE_LIMIT)}" if isinstance(other, str) else "")
    return "" if sentence == anomaly.sentence else clip(sentence, SENTENCE_LIMIT)


def _because(witnesses: list[dict[str, Any]]) -> str | None:
    """Why the settings make this possible, as the check said it of the first witness that knows."""
    reasons = (_known(witness).get("expected_because") for witness in witnesses)
    return next((one_line(reason) for reason in reasons if isinstance(reason, str) and reason), None)


def _op(op: WitnessOp, evidence: Evidence) -> dict[str, Any]:
    where = one_line(f"{op.topic}-{op.partition}", 120) if op.topic is not None else None
    return {
        "op": op,
        "process": process_name(one_line(op.client, 60), op.process),
        "what": f"{op.kind} {where}" if where else op.kind,
        "invoked": at(op.invoked_ns, evidence.zero_ns),
        "completed": at(op.completed_ns, evidence.zero_ns),
        "outcome": {"fail": "failed", "info": "unknown"}.get(op.outcome, op.outcome),
        "broker": None if op.broker is None else node_name(evidence.run, str(op.broker)),
        "records": [_record(record) for record in op.records],
    }


def _record(record: WitnessRecord) -> dict[str, Any]:
    value = (
        None if record.value is None else clip(record.value, VALUE_LIMIT, max(record.value_length, len(record.value)))
    )
    return {"record": record, "value": value}


def _fault_name(fault: FaultRow, evidence: Evidence) -> tuple[int, str]:
    effect = fault.proved_ns if fault.proved_ns is not None else fault.injecting_ns
    targets = ", ".join(fault.targets)
    return fault.fault, one_line(f"F{fault.fault} {fault.name} {targets} at {at(effect, evidence.zero_ns)}", 200)
