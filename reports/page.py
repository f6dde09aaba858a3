"""The report: one HTML file that opens from disk, offline, without a script.

Order of the page is the order of a reader's questions: what is the verdict, what went wrong, when, what was broken,
how did it behave, what exactly was run and how do I run it again. A newcomer reads the sentences; an engineer finds
op ids, offsets and file names.

Safety: the template escapes everything (autoescape), and before that every text passes `visible` and `clip` (the
environment's `finalize`), so that no value can act, hide or fill the disk. The CSP forbids scripts and every request.
Size: whatever the history, the page stays below `SIZE_LIMIT`; when it would not, `DETAILS` gives up witnesses first
and drawings last, and the page says so.

    Path("report.html").write_text(render(gather(run, verdict, run_dir / "history")), encoding="utf-8")
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from nemesis.fault import FaultRow
from reports import explain, plots, race_view, timeline
from reports.cards import card
from reports.evidence import Evidence, node_name
from reports.headline import headline, reason
from reports.verdict import Status, Unavailability, Validity, Verdict
from reports.witness import OPS_PER_WITNESS
from reports.wording import SENTENCE_LIMIT, at, clip, duration, number, one_line, plural

SIZE_LIMIT = 3_000_000  # bytes
CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


@dataclass(frozen=True, kw_only=True)
class Detail:
    """How much the page shows; each step keeps what the one before could not fit."""

    witnesses: int
    ops: int
    faults: int
    types: int
    config: int  # characters of the spec
    drawings: bool = True


DETAILS = (
    Detail(witnesses=20, ops=OPS_PER_WITNESS, faults=300, types=50, config=40_000),
    Detail(witnesses=5, ops=3, faults=100, types=30, config=10_000),
    Detail(witnesses=1, ops=2, faults=20, types=20, config=2_000, drawings=False),
)


def render(evidence: Evidence) -> str:
    """The page. The same evidence gives the same bytes, and they are valid UTF-8 whatever the history held."""
    template = _environment().get_template("page.html.j2")
    drawings, problems = _drawings(evidence)
    pictures = _sequences(evidence, problems)
    html = ""
    for place, detail in enumerate(DETAILS):
        notes = ["to keep this file small, not everything is shown"] if place else []
        view = _view(evidence, detail, [*evidence.problems, *problems, *notes])
        shown = pictures if detail.drawings else _without_drawings(pictures)
        html = template.render(view, drawings=drawings if detail.drawings else {}, **shown)
        if len(html.encode()) <= SIZE_LIMIT:
            break
    return html


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("reports", "templates"),
        autoescape=True,
        finalize=lambda value: clip(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        duration=duration, number=number, plural=plural, clip=clip, sentence=lambda text: clip(text, SENTENCE_LIMIT)
    )
    return environment


def _drawings(evidence: Evidence) -> tuple[dict[str, Markup], list[str]]:
    """Every drawing that can be made, and why the others could not."""
    makers: dict[str, Callable[[Evidence], Markup | None]] = {
        "timeline": timeline.draw,
        "throughput": plots.throughput,
        "latency": plots.latency,
        "unavailability": plots.unavailability,
    }
    drawn: dict[str, Markup] = {}
    problems: list[str] = []
    for name, make in makers.items():
        try:
            picture = make(evidence)
        except Exception as error:  # noqa: BLE001  # a failed plot never costs the report, let alone the verdict
            problems.append(f"the {name} could not be drawn: {one_line(repr(error), 200)}")
            continue
        if picture:
            drawn[name] = picture
    return drawn, problems


def _sequences(evidence: Evidence, problems: list[str]) -> dict[str, Any]:
    """The story of a race and the sequences around anomalies; what cannot be told becomes a problem, never a page less."""
    try:
        return {"race": race_view.race(evidence), "around": race_view.around(evidence)}
    except Exception as error:  # noqa: BLE001  # as for drawings
        problems.append(f"the sequence could not be drawn: {one_line(repr(error), 200)}")
        return {"race": None, "around": {}}


def _without_drawings(pictures: dict[str, Any]) -> dict[str, Any]:
    race = pictures["race"]
    return {"race": None if race is None else {**race, "picture": None}, "around": {}}


def _view(evidence: Evidence, detail: Detail, problems: list[str]) -> dict[str, Any]:
    verdict, run = evidence.verdict, evidence.run
    faults = [_fault(fault, evidence) for fault in evidence.faults[: detail.faults]]
    anomalies = verdict.anomalies[: detail.types]
    return {
        "csp": CSP,
        "style": _style(),
        "verdict": verdict,
        "run": run,
        "title": _title(verdict),
        "system": system(run),
        "headline": headline(verdict),
        "reason": reason(verdict),
        "status_note": None if verdict.status == Status.JUDGED else explain.STATUSES.get(Status(verdict.status)),
        "counts": list(_counts(evidence)),
        "facts": list(_facts(evidence)),
        "anomalies": [
            card(place, a, evidence, witnesses=detail.witnesses, ops=detail.ops) for place, a in enumerate(anomalies, 1)
        ],
        "anomalies_left_out": len(verdict.anomalies) - len(anomalies),
        "not_checked": list(_not_checked(evidence)),
        "explain": explain,
        "legend": timeline.legend(),
        "activity": evidence.activity,
        "states": evidence.states,
        "elections": list(_elections(evidence)),
        "faults": faults,
        "faults_left_out": evidence.faults_left_out + len(evidence.faults) - len(faults),
        "commands": list(_commands(run)),
        "environment": list(_flat(run.get("environment"))),
        "versions": list(_flat(run.get("versions"))),
        "topics": [list(_flat(t)) for t in run["topics"][:50]] if isinstance(run.get("topics"), list) else [],
        "spec": clip(json.dumps(run.get("spec", {}), indent=2, ensure_ascii=False, default=str), detail.config),
        "tables": evidence.tables,
        "files": evidence.files,
        "problems": problems,
    }


def _style() -> Markup:
    folder = files("reports").joinpath("templates")
    return Markup("").join(
        Markup(folder.joinpath(name).read_text(encoding="utf-8"))  # noqa: S704  # our own files
        for name in ("page.css", "sequence.css")
    )


def system(run: dict[str, Any]) -> str:
    """The system and the versions of it that ran: "kafka 4.3.1", "kafka 3.9.2 and 4.3.1, metadata.version 3.4"."""
    told = one_line(str(run.get("system") or ""), 60)
    versions = run["versions"] if isinstance(run.get("versions"), dict) else {}
    missing = [one_line(str(one), 40) for one in sorted(set(map(str, versions.values()))) if str(one) not in told][:4]
    spec = run["spec"] if isinstance(run.get("spec"), dict) else {}
    level = spec.get("metadata_version")
    return " ".join(part for part in (told, " and ".join(missing)) if part) + (
        f", metadata.version {one_line(str(level), 40)}" if level else ""
    )


def _title(verdict: Verdict) -> str:
    return f"{verdict.verdict.upper()} - {one_line(verdict.run, 120)} - krash"


def _counts(evidence: Evidence) -> Iterator[tuple[str, str]]:
    counts = evidence.verdict.counts
    if counts is not None:
        yield number(counts.acknowledged), "records acknowledged"
        yield number(counts.read), "read back"
        yield number(counts.lost), "lost"
        yield number(counts.ops.get("info", 0)), "unknown outcomes"
    if evidence.faults:
        injected = sum(1 for fault in evidence.faults if fault.injecting_ns is not None) + evidence.faults_left_out
        yield number(injected), "fault" if injected == 1 else "faults"
    if evidence.states.partitions:
        elections = evidence.states.elections
        yield number(elections), "leader election" if elections == 1 else "leader elections"


def _facts(evidence: Evidence) -> Iterator[tuple[str, str]]:
    run = evidence.run
    spec = run["spec"] if isinstance(run.get("spec"), dict) else {}
    workload = spec.get("workload")
    for name, value in (
        ("System", system(run) or None),
        ("Nodes", len(run["versions"]) if isinstance(run.get("versions"), dict) else None),
        ("Workload", workload.get("name") if isinstance(workload, dict) else workload),
        ("Backend", spec.get("backend")),
        ("Seed", run.get("seed")),
        ("Lasted", duration(evidence.seconds) if evidence.seconds else None),
        ("Started", run.get("started_at")),
    ):
        if value is not None:
            yield name, one_line(str(value), 80)


def _not_checked(evidence: Evidence) -> Iterator[str]:
    verdict = evidence.verdict
    yield from (one_line(line) for line in verdict.unjudged[:30])
    for check in verdict.checks:
        if check.verdict == Validity.UNKNOWN and check.note not in verdict.unjudged:
            yield f"{check.name}: {one_line(check.note or 'no reason was given')}"
    if not verdict.checks:
        yield "No check was made at all."
    if not evidence.faults and any(table.name == "faults" and table.rows == 0 for table in evidence.tables):
        yield "No fault was injected, so this run says nothing about failures."
    refused = sum(1 for fault in evidence.faults if fault.status == "refused")
    if refused:
        yield f"{plural(refused, 'planned fault')} could not be done at its moment; see the table of faults."


def _fault(fault: FaultRow, evidence: Evidence) -> dict[str, Any]:
    windows = {window.fault: window for window in evidence.verdict.unavailability}
    return {
        "row": fault,
        "targets": one_line(", ".join(fault.targets), 200),
        "meaning": explain.fault(fault.name),
        "settings": _settings(fault.settings),
        "injecting": _moment(fault.injecting_ns, evidence),
        "proved": _moment(fault.proved_ns, evidence),
        "healed": _moment(fault.healed_ns, evidence),
        "unavailable": _unavailable(windows.get(fault.fault)),
    }


def _settings(document: str) -> str:
    """A fault's settings as people write them: "restart_after 6s, action drop"."""
    try:
        settings = json.loads(document or "{}")
    except ValueError:
        settings = None
    if not isinstance(settings, dict):
        return clip(document, 300)
    return one_line(", ".join(f"{key.replace('_', ' ')} {value}" for key, value in settings.items()), 300)


def _moment(ns: int | None, evidence: Evidence) -> str:
    return "-" if ns is None else at(ns, evidence.zero_ns)


def _unavailable(window: Unavailability | None) -> list[str]:
    if window is None:
        return []
    return [
        f"{name} {'none until the end' if seconds is None else duration(seconds)}"
        for name, seconds in (("writes", window.writes_seconds), ("reads", window.reads_seconds))
    ]


def _elections(evidence: Evidence) -> Iterator[tuple[str, str, str, str]]:
    """Leader changes as text: when, partition, leader, epoch; at most 200."""
    changes = [(span, lane) for lane in evidence.states.partitions for span in lane.leaders]
    for span, lane in sorted(changes, key=lambda change: change[0].start_ns)[:200]:
        leader = "none" if span.state == "-1" else node_name(evidence.run, span.state)
        yield (
            at(span.start_ns, evidence.zero_ns),
            one_line(f"{lane.topic}-{lane.partition}", 120),
            leader,
            span.detail or "-",
        )


def _commands(run: dict[str, Any]) -> Iterator[tuple[str, str]]:
    command = run.get("command")
    if command:
        words = command if isinstance(command, list) else None
        yield "The same run", clip(shlex.join(str(w) for w in words) if words is not None else str(command), 2_000)
    yield "The same choices, as they were recorded (from this report's directory)", "krash run --replay ."
    yield "The recorded history, judged again (from this report's directory)", "krash check ."


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """A nested object as rows ("memory.total", "8 GiB"), at most 100."""
    if not isinstance(value, dict):
        return
    for count, (key, item) in enumerate(value.items()):
        if count >= 100:
            return
        name = one_line(f"{prefix}{key}", 120)
        if isinstance(item, dict) and prefix.count(".") < 4:
            yield from _flat(item, f"{name}.")
        else:
            yield name, one_line(item if isinstance(item, str) else json.dumps(item, default=str), 300)
