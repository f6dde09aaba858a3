"""The rows of a sequence as a picture: nodes are lanes, time runs downwards, each row has its moment and its words beside it.

Rows are evenly spaced, not to scale: what matters is what came before what, and a race has milliseconds and seconds in one
story. A message that was held is an arrow that stops at a bar; a dotted line leads down to the row at which it was released.

Colour never stands alone: a held message has its bar and its words, a crash its cross, an answer that is an error a cross
at its head; the ISR of a partition is full and empty circles on the lanes of its replicas, the leader's has a ring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from reports.evidence import Evidence
from reports.sequence import Row, Rows
from reports.wording import at, clip

WIDTH = 1120
ROW, TOP = 27, 46
TIMES, LANES = 62, 108  # where the times end, and the first lane stands
_CHARACTER, _BOLD = 5.9, 6.8  # width of a character
_LOUD = ("held", "released", "answer", "down", "wipe", "power", "stuck", "end")
_MARKS = {
    "down": "✕",
    "starting": "▸",
    "up": "●",
    "fenced": "⊘",
    "unfenced": "○",
    "wipe": "wiped",
    "power": "power lost",
    "pause": "paused",
    "resume": "resumed",
    "cut": "cut",
    "heal": "healed",
    "client": "◆",
    "stuck": "not reached",
    "mark": "•",
    "end": "end",
}


def draw(rows: Rows, evidence: Evidence, name: str) -> Markup:
    """The `<svg>`; empty without rows. `name`: unique on the page."""
    if not rows.rows or not rows.lanes:
        return Markup("")
    drawing = _Drawing(rows, evidence)
    for place, row in enumerate(rows.rows):
        drawing.row(place, row)
    return drawing.finished(name)


@dataclass
class _Drawing:
    rows: Rows
    evidence: Evidence
    parts: list[Markup] = field(default_factory=list)

    def __post_init__(self) -> None:
        count = len(self.rows.lanes)
        self.step = max(58.0, min(110.0, 470 / max(count - 1, 1)))
        self.x = {name: LANES + place * self.step for place, name in enumerate(self.rows.lanes)}
        self.words_at = LANES + (count - 1) * self.step + 48
        self.height = TOP + ROW * len(self.rows.rows) + 14
        self.bars: dict[int, tuple[float, float]] = {}  # message that is held -> where its bar is

    def y(self, place: int) -> float:
        return TOP + ROW * place + ROW / 2

    def put(self, text: str, **holes: object) -> None:
        self.parts.append(Markup(text).format(**holes))  # noqa: S704  # our own text; the holes are escaped

    def row(self, place: int, row: Row) -> None:
        y = self.y(place)
        if place % 2:
            self.put('<rect class="stripe" x="0" y="{y}" width="{w}" height="{h}"/>', y=y - ROW / 2, w=WIDTH, h=ROW)
        self.put(
            '<text class="when" x="{x}" y="{y}">{t}</text>', x=TIMES, y=y + 4, t=at(row.at_ns, self.evidence.zero_ns)
        )
        room = int((WIDTH - self.words_at) / (_BOLD if row.kind in _LOUD else _CHARACTER))
        shown = row.words if len(row.words) <= room else f"{row.words[: room - 1]}…"
        self.put(
            '<text class="words {k}" x="{x}" y="{y}"><title>{all}</title>{t}</text>',
            k=f"say-{row.kind}",
            x=self.words_at,
            y=y + 4,
            all=clip(row.words),
            t=clip(shown),
        )
        if row.kind == "replicas":
            self.replicas(row, y)
        elif row.source in self.x and row.target in self.x:
            self.arrow(row, self.x[row.source], self.x[row.target], y)
        else:
            for node in row.nodes:
                if node in self.x:
                    self.mark(row, self.x[node], y)

    def arrow(self, row: Row, start: float, end: float, y: float) -> None:
        if start == end:
            self.put(
                '<path class="arrow {k}" d="M{x:.1f} {t:.1f}h16v10h-9"/><path class="arrow {k} head" d="M{x:.1f} {b:.1f}l9 -5v10z"/>',
                k=f"{row.kind} bad" if row.bad else row.kind,
                x=start,
                t=y - 5,
                b=y + 5,
            )
            return
        away = 1 if end > start else -1
        kind = f"arrow {row.kind}" + (" bad" if row.bad else "")
        if row.kind in ("held", "dropped"):
            stop = start + (end - start) * 0.62
            self.put('<path class="{k}" d="M{a:.1f} {y:.1f}H{b:.1f}"/>', k=kind, a=start, y=y, b=stop)
            shape = "M{x:.1f} {t:.1f}v16m{d} -16v16" if row.kind == "held" else "M{l:.1f} {u:.1f}l10 10m0 -10l-10 10"
            line = shape.format(x=stop, t=y - 8, d=4 * away, l=stop - 5, u=y - 5)
            self.put('<path class="{k} stop" d="{d}"/>', k=kind, d=line)
            if row.kind == "held" and row.message is not None:
                self.bars[row.message] = (stop, y)
            return
        if row.kind == "released" and row.message in self.bars:
            stop, above = self.bars[row.message]
            self.put('<path class="wait" d="M{x:.1f} {a:.1f}V{b:.1f}"/>', x=stop + 2 * away, a=above + 9, b=y)
            start = stop + 2 * away
        self.put('<path class="{k}" d="M{a:.1f} {y:.1f}H{b:.1f}"/>', k=kind, a=start, y=y, b=end - 7 * away)
        self.put('<path class="{k} head" d="M{x:.1f} {y:.1f}l{l} -5v10z"/>', k=kind, x=end - away, y=y, l=-9 * away)
        if row.bad:
            self.put(
                '<path class="{k} stop" d="M{x:.1f} {t:.1f}l9 9m0 -9l-9 9"/>',
                k=kind,
                x=(start + end) / 2 - 4,
                t=y - 4.5,
            )

    def mark(self, row: Row, x: float, y: float) -> None:
        said = _MARKS.get(row.kind, "•")
        if len(said) == 1:
            self.put('<circle class="mark {k}" cx="{x:.1f}" cy="{y:.1f}" r="9"/>', k=row.kind, x=x, y=y)
            self.put('<text class="in-mark {k}" x="{x:.1f}" y="{y:.1f}">{t}</text>', k=row.kind, x=x, y=y + 4, t=said)
            return
        width = len(said) * 5.8 + 10
        self.put(
            '<rect class="mark {k}" x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="17" rx="4"/>',
            k=row.kind,
            x=x - width / 2,
            y=y - 8.5,
            w=width,
        )
        self.put('<text class="in-mark {k}" x="{x:.1f}" y="{y:.1f}">{t}</text>', k=row.kind, x=x, y=y + 4, t=said)

    def replicas(self, row: Row, y: float) -> None:
        for node in row.replicas:
            if node in self.x:
                kind = "in" if node in row.isr else "out"
                if node == row.leader:
                    self.put('<circle class="replica leader" cx="{x:.1f}" cy="{y:.1f}" r="8.5"/>', x=self.x[node], y=y)
                self.put('<circle class="replica {k}" cx="{x:.1f}" cy="{y:.1f}" r="5"/>', k=kind, x=self.x[node], y=y)

    def lane(self, name: str) -> Markup:
        """A line from top to bottom, broken where the node was down."""
        parts, since, up = [], float(TOP - 8), True
        for place, row in enumerate(self.rows.rows):
            if name not in row.nodes or row.kind not in ("down", "starting", "up"):
                continue
            parts.append((since, self.y(place), up))
            since, up = self.y(place), row.kind != "down"
        parts.append((since, float(self.height - 10), up))
        x = f"{self.x[name]:.1f}"
        lines = Markup("").join(
            Markup('<path class="lane {}" d="M{} {:.1f}V{:.1f}"/>').format("up" if alive else "away", x, start, end)
            for start, end, alive in parts
        )
        box = Markup('<rect class="name" x="{:.1f}" y="12" width="50" height="22" rx="5"/>').format(self.x[name] - 25)
        text = Markup('<text class="name" x="{}" y="27">{}</text>').format(x, clip(name, 8))
        return lines + box + text

    def finished(self, name: str) -> Markup:
        lanes = Markup("").join(self.lane(lane) for lane in self.rows.lanes)
        stripes = [part for part in self.parts if part.startswith('<rect class="stripe"')]
        others = [part for part in self.parts if not part.startswith('<rect class="stripe"')]
        return Markup(
            '<svg class="sequence" viewBox="0 0 {} {:.0f}" role="img" aria-labelledby="{}"><title id="{}">{}</title>{}</svg>'
        ).format(
            WIDTH,
            self.height,
            name,
            name,
            "Sequence of messages, crashes and changes; the same as a table below",
            Markup("").join([*stripes, lanes, *others]),
        )


def legend(rows: Sequence[Row]) -> Markup:
    """What the marks mean, of those that are there."""
    kinds = {row.kind for row in rows}
    entries = (
        ("message", "message", {"message", "released"}),
        ("held", "held back by krash; the dotted line leads to its release", {"held"}),
        ("dropped", "dropped by krash", {"dropped"}),
        ("answer", "answer (a cross: refused)", {"answer"}),
        ("down", "node gone", {"down"}),
        ("replicas", "replica in the ISR (full), not in it (empty), leader (ring)", {"replicas"}),
    )
    return Markup(" ").join(
        Markup('<span class="seq-key seq-{}">{}</span>').format(kind, said) for kind, said, of in entries if of & kinds
    )
