"""The timeline: one drawing, one time axis, lanes from cause to effect: faults, anomalies, clients, partitions, nodes.

Why drawn by hand and not plotted: every bar carries a `<title>` with the proof or the epoch behind it, colours are
CSS classes so that dark mode and print are the page's business, and nothing needs a script. It is bounded: lanes and
spans are capped by `spans.py` and `series.py`, client lanes are one path per outcome.

Colour never stands alone: leaders carry their name, "no leader" and "down" are hatched, failures hang from the top of
a lane while successes grow from its bottom.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

from nemesis.fault import FaultRow
from reports.evidence import Evidence, node_name
from reports.series import ClientLane
from reports.spans import NodeLane, PartitionLane, Span
from reports.witness import integers
from reports.wording import at, clip, one_line

WIDTH, LEFT, RIGHT = 1000, 112, 16
PLOT = WIDTH - LEFT - RIGHT
FAULT_ROWS = 8
BROKER_COLOURS = 8
ISR_LINES = 5
LABEL = 17  # characters of a lane's name
_CHARACTER = 6.1  # width of a label's character
_TICKS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)
_MARKS_PER_TYPE = 20


def draw(evidence: Evidence) -> Markup:
    """The `<svg>`; empty when there is no time to draw."""
    if evidence.seconds <= 0:
        return Markup("")
    drawing = _Drawing(evidence)
    drawing.phases()
    drawing.faults()
    drawing.anomalies()
    drawing.clients()
    drawing.partitions()
    drawing.nodes()
    return drawing.finished()


@dataclass
class _Drawing:
    evidence: Evidence
    y: float = 22
    parts: list[Markup] = field(default_factory=list)
    colours: dict[str, int] = field(default_factory=dict)

    def x(self, ns: float) -> float:
        share = (ns - self.evidence.zero_ns) / (self.evidence.end_ns - self.evidence.zero_ns)
        return LEFT + PLOT * min(1.0, max(0.0, share))

    def heading(self, text: str) -> None:
        self.y += 8
        self.parts.append(Markup('<text class="lane-group" x="0" y="{}">{}</text>').format(f"{self.y + 10:.0f}", text))
        self.y += 16

    def label(self, text: str, height: float, title: str | None = None) -> None:
        self.parts.append(
            Markup('<text class="lane" x="{}" y="{}"><title>{}</title>{}</text>').format(
                LEFT - 6, f"{self.y + height / 2 + 4:.1f}", clip(title or text, 200), clip(_short(text), LABEL)
            )
        )

    def bar(self, kind: str, start: float, end: float, y: float, height: float, title: str) -> None:
        self.parts.append(
            Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>').format(
                kind, f"{start:.1f}", f"{y:.1f}", f"{max(1.0, end - start):.1f}", f"{height:.1f}", clip(title, 400)
            )
        )

    def path(self, kind: str, path: str, title: str) -> None:
        self.parts.append(
            Markup('<path class="{}" d="{}"><title>{}</title></path>').format(kind, path, clip(title, 200))
        )

    def text(self, kind: str, x: float, y: float, text: str) -> None:
        self.parts.append(Markup('<text class="{}" x="{}" y="{}">{}</text>').format(kind, f"{x:.1f}", f"{y:.1f}", text))

    def note(self, text: str) -> None:
        self.text("note", LEFT, self.y + 9, text)
        self.y += 14

    def during(self, span: Span) -> str:
        zero = self.evidence.zero_ns
        return f"{at(span.start_ns, zero)} to {at(span.end_ns, zero)}"

    def phases(self) -> None:
        if not self.evidence.phases:
            return
        self.label("phase", 14)
        for index, span in enumerate(self.evidence.phases):
            start, end = self.x(span.start_ns), self.x(span.end_ns)
            if end <= start:
                continue
            self.bar(f"phase p{index % 2}", start, end, self.y, 14, f"{span.state}: {self.during(span)}")
            if len(span.state) * _CHARACTER < end - start:
                self.text("in-phase", (start + end) / 2, self.y + 11, clip(span.state, 40))
        self.y += 18

    def faults(self) -> None:
        took_effect = [f for f in self.evidence.faults if (f.proved_ns or f.injecting_ns) is not None]
        if not took_effect:
            return
        self.heading("What krash broke")
        rows: list[float] = []  # right end of what each row holds
        left_out = 0
        top = self.y
        for fault in sorted(took_effect, key=lambda f: f.injecting_ns or f.proved_ns or 0):
            start, end = self._fault_ends(fault)
            name = one_line(f"F{fault.fault} {fault.name} {', '.join(fault.targets)}", 60)
            room = int((end - start - 6) / _CHARACTER)
            if 8 <= room < len(name):
                name = f"{name[: room - 1]}…"
            row = next((r for r, used in enumerate(rows) if used < start), len(rows))
            if row >= FAULT_ROWS:
                left_out += 1
                continue
            inside = len(name) * _CHARACTER + 6 < end - start
            outside = not inside and end + len(name) * _CHARACTER + 6 < WIDTH
            rows[row : row + 1] = [(end + len(name) * _CHARACTER + 8 if outside else end) + 2]
            self._fault(fault, name, start, end, top + row * 20, inside, outside)
        self.y = top + len(rows) * 20 + 2
        if left_out:
            self.note(f"{left_out} more at the same time are only in the table")

    def _fault_ends(self, fault: FaultRow) -> tuple[float, float]:
        start = self.x(fault.injecting_ns if fault.injecting_ns is not None else fault.proved_ns or 0)
        end = self.x(self.evidence.end_ns if fault.healed_ns is None else fault.healed_ns)
        return start, max(end, start + 3)

    def _fault(
        self, fault: FaultRow, name: str, start: float, end: float, y: float, inside: bool, outside: bool
    ) -> None:
        healed = (
            "never healed" if fault.healed_ns is None else f"healed at {at(fault.healed_ns, self.evidence.zero_ns)}"
        )
        proof = fault.proof or "no proof of its effect"
        title = f"{name}: in effect at {at(fault.proved_ns, self.evidence.zero_ns)}, {healed}. {proof}"
        self.parts.append(Markup('<a href="#fault-{}">').format(fault.fault))
        self.bar(f"fault {'failed' if fault.status == 'failed' else ''}".strip(), start, end, y, 16, title)
        if fault.proved_ns is not None:
            proved = self.x(fault.proved_ns)
            self.parts.append(Markup('<path class="proved" d="M{} {}v16"/>').format(f"{proved:.1f}", f"{y:.1f}"))
        if inside or outside:
            self.text("in-fault" if inside else "by-fault", start + 4 if inside else end + 4, y + 12, name)
        self.parts.append(Markup("</a>"))

    def anomalies(self) -> None:
        if not self.evidence.ops:
            return
        self.heading("What went wrong")
        for place, anomaly in enumerate(self.evidence.verdict.anomalies, 1):
            ids = [
                op for witness in anomaly.witnesses for op in integers(witness.get("ops")) if op in self.evidence.ops
            ]
            if not ids:
                continue
            self.label(anomaly.type, 12)
            self.parts.append(Markup('<a href="#anomaly-{}">').format(place))
            marked = {round(self.x(self.evidence.ops[op].invoked_ns), 1) for op in ids}
            for x in sorted(marked)[: _MARKS_PER_TYPE * 3]:
                self.parts.append(Markup('<path class="mark" d="M{} {}l5 6l-5 6l-5 -6z"/>').format(x, f"{self.y:.1f}"))
            self.parts.append(Markup("<title>{}</title></a>").format(one_line(anomaly.sentence, 300)))
            self.y += 16

    def clients(self) -> None:
        lanes = self.evidence.activity.clients
        if not lanes:
            return
        self.heading("What clients did: ok from below, failed and unknown from above")
        for lane in lanes:
            self._client(lane)
        if self.evidence.activity.clients_left_out:
            self.note(f"{self.evidence.activity.clients_left_out} quieter clients left out")

    def _client(self, lane: ClientLane) -> None:
        height = 26.0
        totals = sorted(v for v in lane.ok if v > 0)
        top = totals[int(len(totals) * 0.95)] * 1.15 if totals else 1.0
        said = ", ".join(
            f"{sum(values):,.0f} {name}"
            for name, values in (("ok", lane.ok), ("failed", lane.fail), ("unknown", lane.info))
        )
        self.label(lane.client, height, f"{lane.client}: {said}")
        self.parts.append(
            Markup('<rect class="lane-back" x="{}" y="{}" width="{}" height="{}"/>').format(
                LEFT, f"{self.y:.1f}", PLOT, height
            )
        )
        worst = max((f + i for f, i in zip(lane.fail, lane.info, strict=True)), default=0)
        ok = [min(1.0, value / top) * height for value in lane.ok]
        bad_scale = height * 0.75 / max(worst, top)
        info = [max(4.0, value * bad_scale) if value else 0.0 for value in lane.info]
        fail = [max(4.0, value * bad_scale) if value else 0.0 for value in lane.fail]
        self._columns("ok", [self.y + height - h for h in ok], ok, f"{lane.client} ok")
        self._columns("info", [self.y] * len(info), info, f"{lane.client} unknown outcome")
        self._columns("fail", [self.y + i for i in info], fail, f"{lane.client} failed")
        self.y += height + 4

    def _columns(self, kind: str, tops: Sequence[float], heights: Sequence[float], title: str) -> None:
        """One path for all buckets of an outcome; neighbours share an edge, so that no hairlines show between them."""
        buckets = self.evidence.activity.buckets
        step = PLOT * buckets.width_s / self.evidence.seconds
        drawn: list[str] = []
        for index, (y, height) in enumerate(zip(tops, heights, strict=True)):
            if height > 0:
                left = LEFT + index * step
                right = min(left + step, WIDTH - RIGHT)
                drawn.append(f"M{left:.1f} {y:.1f}H{right:.1f}v{height:.1f}H{left:.1f}z")
        if drawn:
            self.path(kind, "".join(drawn), title)

    def partitions(self) -> None:
        lanes = self.evidence.states.partitions
        if not lanes:
            return
        self.heading("Who led each partition (bar), and who was in sync (lines below it)")
        for lane in lanes:
            self._partition(lane)
        if self.evidence.states.partitions_left_out:
            self.note(f"{self.evidence.states.partitions_left_out} quieter partitions left out")

    def _partition(self, lane: PartitionLane) -> None:
        name = f"{lane.topic}-{lane.partition}"
        self.label(name, 15, f"{name}: {lane.elections} elections")
        for span in lane.leaders:
            start, end = self.x(span.start_ns), self.x(span.end_ns)
            if span.state == "-1":
                self.bar("no-leader", start, end, self.y, 14, f"{name} had no leader, {self.during(span)}")
                continue
            leader = node_name(self.evidence.run, span.state)
            epoch = f" in leader epoch {span.detail}" if span.detail else ""
            self.bar(
                f"broker b{self.colour(span.state)}",
                start,
                end,
                self.y,
                14,
                f"{name} led by {leader}{epoch}, {self.during(span)}",
            )
            if len(leader) * _CHARACTER + 4 < end - start:
                self.text("in-bar", start + 4, self.y + 11, clip(leader, 20))
        members = sorted({m for span in lane.isr for m in span.state.split(",") if m}, key=lambda m: (len(m), m))
        for line, member in enumerate(members[:ISR_LINES]):
            y = self.y + 16 + line * 3
            joined = _joined(span for span in lane.isr if member in span.state.split(","))
            path = "".join(
                f"M{self.x(start):.1f} {y:.0f}H{self.x(end):.1f}v2H{self.x(start):.1f}z" for start, end in joined
            )
            title = f"in the ISR of {name}: {node_name(self.evidence.run, member)}"
            self.path(f"broker b{self.colour(member)}", path, title)
        self.y += 21 + 3 * len(members[:ISR_LINES])

    def colour(self, broker: str) -> int:
        """By number where it is one, so that a broker has the same colour in every report."""
        number = int(broker) - 1 if broker.isdecimal() else self.colours.setdefault(broker, len(self.colours))
        return number % BROKER_COLOURS

    def nodes(self) -> None:
        states = self.evidence.states
        if not states.nodes and not states.controller:
            return
        self.heading("Which nodes were up")
        for lane in states.nodes:
            self._node(lane)
        if states.nodes_left_out:
            self.note(f"{states.nodes_left_out} more nodes left out")
        if states.controller:
            self.label("active controller", 12)
            for span in states.controller:
                name = node_name(self.evidence.run, span.state)
                start, end = self.x(span.start_ns), self.x(span.end_ns)
                self.bar("node up", start, end, self.y, 12, f"{name}, {self.during(span)}")
                if len(name) * _CHARACTER + 4 < end - start:
                    self.text("in-node", start + 4, self.y + 10, clip(name, 30))
            self.y += 16

    def _node(self, lane: NodeLane) -> None:
        self.label(lane.node, 12)
        for span in lane.states:
            start, end = self.x(span.start_ns), self.x(span.end_ns)
            said = f"{lane.node} {span.state}, {self.during(span)}" + (f" ({span.detail})" if span.detail else "")
            self.bar(f"node {span.state}", start, end, self.y, 12, said)
            if span.state != "up" and len(span.state) * _CHARACTER + 4 < end - start:
                self.text("in-down", start + 4, self.y + 10, span.state)
        for span in lane.fenced:
            start, end = self.x(span.start_ns), self.x(span.end_ns)
            self.bar("fenced", start, end, self.y + 9, 3, f"{lane.node} fenced, {self.during(span)}")
        self.y += 16

    def finished(self) -> Markup:
        height = self.y + 20
        axis = self._axis(self.y)
        bands = Markup("").join(
            Markup('<rect class="band" x="{}" y="18" width="{}" height="{}"/>').format(
                f"{start:.1f}", f"{end - start:.1f}", f"{self.y - 18:.0f}"
            )
            for start, end in (self._fault_ends(f) for f in self.evidence.faults if f.injecting_ns is not None)
        )
        body = Markup("").join([bands, axis, *self.parts])
        return _FRAME.format(width=WIDTH, height=f"{height:.0f}", body=body)

    def _axis(self, bottom: float) -> Markup:
        seconds = self.evidence.seconds
        step = next((t for t in _TICKS_S if seconds / t <= 12), seconds / 10)
        marks: list[Markup] = []
        for index in range(int(seconds / step) + 1):
            x = f"{LEFT + PLOT * index * step / seconds:.1f}"
            said = f"{index * step:g} s"
            marks.append(Markup('<path class="tick" d="M{} 16V{}"/>').format(x, f"{bottom:.0f}"))
            for y in ("12", f"{bottom + 13:.0f}"):
                marks.append(Markup('<text class="tick" x="{}" y="{}">{}</text>').format(x, y, said))
        return Markup("").join(marks)


_FRAME = Markup(
    '<svg class="timeline" viewBox="0 0 {width} {height}" role="img" aria-labelledby="timeline-title">'
    '<title id="timeline-title">Timeline of faults, clients, leaders and nodes</title>'
    '<defs><pattern id="hatch" width="6" height="6" patternTransform="rotate(45)" patternUnits="userSpaceOnUse">'
    '<rect class="hatch-back" width="6" height="6"/><rect class="hatch-line" width="2.4" height="6"/>'
    "</pattern></defs>{body}</svg>"
)


def _joined(spans: Iterable[Span]) -> list[tuple[int, int]]:
    """Spans that touch, as one."""
    joined: list[tuple[int, int]] = []
    for span in spans:
        if joined and joined[-1][1] >= span.start_ns:
            joined[-1] = (joined[-1][0], span.end_ns)
        else:
            joined.append((span.start_ns, span.end_ns))
    return joined


def legend() -> Markup:
    """What the marks mean, for below the drawing."""
    entries = (
        ("ok", "ok"),
        ("info", "unknown outcome"),
        ("fail", "failed"),
        ("hatched", "no leader, or node down"),
        ("starting", "starting"),
        ("fenced", "fenced: the controller gives it no work"),
        ("fault", "fault"),
    )
    return Markup(" ").join(
        Markup('<span class="key key-{}">{}</span>').format(kind, escape(said)) for kind, said in entries
    )


def _short(label: str) -> str:
    """A long name loses its middle: partitions of one topic differ at the end."""
    return label if len(label) <= LABEL else f"{label[: LABEL - 7]}…{label[-6:]}"
