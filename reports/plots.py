"""Throughput, latency and unavailability, plotted by matplotlib as SVG that becomes part of the page.

matplotlib writes a document of its own: a DOCTYPE with an address, ids that clash between two plots, a date, fixed
colours. `_inline` turns that into a fragment: no address, ids with a prefix, and colours as CSS variables, so that
one plot reads well in light, in dark and on paper. For that the plots are drawn in stand-in colours, one per variable
of the page's style sheet. Labels stay text (`svg.fonttype: none`): small, sharp, selectable.

The same evidence gives the same bytes: fixed hash salt, no date. Nothing from a history is ever a label here, since
matplotlib would read `$` in it as mathematics; faults appear by number.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from reports.evidence import Evidence
from reports.series import BUCKETS_PER_QUANTILE
from reports.verdict import Unavailability
from reports.wording import duration, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# stand-in colour -> CSS variable (page.css)
_INK, _GRID, _BAND, _OK, _READ, _INFO, _FAIL, _P50, _P95, _P99 = (f"#0102{n:02x}" for n in range(0x10, 0x1A))
_VARIABLES = {
    _INK: "--ink", _GRID: "--line", _BAND: "--band", _OK: "--ok", _READ: "--read", _INFO: "--info", _FAIL: "--fail",
    _P50: "--p50", _P95: "--p95", _P99: "--p99",
}  # fmt: skip
_LABELLED_FAULTS = 40
_UNAVAILABILITY_ROWS = 20


def throughput(evidence: Evidence) -> Markup | None:
    """Records per second: acknowledged, read, and what failed or stayed unknown. None when nothing was moved."""
    activity = evidence.activity
    if not any(map(any, (activity.acknowledged, activity.read, activity.failed, activity.unknown))):
        return None
    figure, axes = _figure(2.7)
    starts = [index * activity.buckets.width_s for index in range(activity.buckets.count)]
    ends = [*starts, activity.buckets.count * activity.buckets.width_s]
    axes.stairs(activity.acknowledged, ends, color=_OK, linewidth=0, alpha=0.25, fill=True)
    axes.stairs(activity.acknowledged, ends, color=_OK, linewidth=1.5, label="acknowledged (filled)")
    axes.stairs(activity.read, ends, color=_READ, linewidth=0.9, label="read (line)")
    for rates, colour, marker, label in (
        (activity.unknown, _INFO, "^", "unknown outcome"),
        (activity.failed, _FAIL, "x", "failed"),
    ):
        middles = [(s + activity.buckets.width_s / 2, r) for s, r in zip(starts, rates, strict=True) if r > 0]
        if middles:
            axes.plot(
                *zip(*middles, strict=True), color=colour, marker=marker, markersize=4, linestyle="none", label=label
            )
    top = _cut(activity.acknowledged, activity.read, activity.unknown, activity.failed)
    target = _target_rate(evidence)
    if target is not None and 0 < target <= top * 3:
        axes.axhline(target, color=_INK, linewidth=0.8, linestyle=(0, (1, 2)), label="target rate")
        top = max(top, target * 1.1)
    axes.set_ylim(0, top)
    axes.set_ylabel("records / s")
    axes.yaxis.set_major_formatter(lambda value, _: number(value))
    _time_axis(axes, evidence)
    _legend(axes)
    most = number(max(activity.acknowledged, default=0))
    said = f"Records acknowledged and read per second; at most {most} acknowledged per second."
    return _inline(figure, "throughput", "Throughput over time", said)


def _target_rate(evidence: Evidence) -> float | None:
    spec = evidence.run.get("spec")
    rate = spec.get("rate") if isinstance(spec, dict) else None
    return float(rate) if isinstance(rate, (int, float)) and not isinstance(rate, bool) else None


def _cut(*series: Sequence[float]) -> float:
    """Upper end of the axis. What was held up arrives in bursts, and the final read fetches everything at once: those
    may leave the plot, so that the usual rates stay readable.
    """
    usual = [values[int(len(values) * 0.9)] for values in (sorted(v for v in s if v > 0) for s in series) if values]
    return 1.15 * min(max(max(s, default=0.0) for s in series), 2.2 * max([1.0, *usual]))


def latency(evidence: Evidence) -> Markup | None:
    """p50, p95 and p99 of acknowledged sends. None when there were none."""
    activity = evidence.activity
    if activity.sends is None:
        return None
    figure, axes = _figure(2.5)
    width = activity.buckets.width_s * BUCKETS_PER_QUANTILE
    middles = [(index + 0.5) * width for index in range(len(activity.send_latency))]
    for name, colour, style in (("p50", _P50, "-"), ("p95", _P95, "--"), ("p99", _P99, "-.")):
        values = [math.nan if q is None else 1e3 * getattr(q, name) for q in activity.send_latency]
        axes.plot(middles, values, color=colour, linestyle=style, linewidth=1.3, marker=".", markersize=2.5, label=name)
    axes.set_yscale("log")
    axes.set_ylabel("send latency")
    axes.yaxis.set_major_formatter(lambda value, _: duration(value / 1e3))
    axes.yaxis.set_minor_formatter(lambda value, _: "")
    _time_axis(axes, evidence)
    _legend(axes)
    whole = activity.sends
    said = f"Over the whole run p50 {duration(whole.p50)}, p95 {duration(whole.p95)}, p99 {duration(whole.p99)}."
    return _inline(figure, "latency", "Latency of acknowledged sends over time", said)


def unavailability(evidence: Evidence) -> Markup | None:
    """Per fault, how long until the first op invoked after it succeeded. None when there were no such faults."""
    shown = sorted(evidence.verdict.unavailability, key=lambda u: -_worst(u, evidence))[:_UNAVAILABILITY_ROWS]
    if not shown:
        return None
    figure, axes = _figure(0.75 + 0.26 * len(shown))
    for place, window in enumerate(shown):
        for value, offset, colour in ((window.writes_seconds, 0.19, _OK), (window.reads_seconds, -0.19, _READ)):
            y = len(shown) - 1 - place + offset
            length = evidence.seconds if value is None else value
            axes.barh(y, length, height=0.34, color=colour, linewidth=0, alpha=0.45 if value is None else 1.0)
            said = "none until the end" if value is None else duration(value)
            axes.annotate(
                said, (length, y), xytext=(3, 0), textcoords="offset points", va="center", fontsize=7, color=_INK
            )
    axes.set_yticks(range(len(shown)), [f"F{window.fault}" for window in reversed(shown)])
    axes.set_xlim(0, 1.12 * max(0.001, *(_worst(window, evidence) for window in shown)))
    axes.set_xlabel("seconds from the fault to the first success: writes (upper bar), reads (lower bar)")
    axes.grid(visible=False, axis="y")
    said = "The same figures are in the table of faults."
    return _inline(figure, "unavailability", "Unavailability after each fault", said)


def _worst(window: Unavailability, evidence: Evidence) -> float:
    return max(evidence.seconds if s is None else s for s in (window.writes_seconds, window.reads_seconds))


def _figure(height: float) -> tuple[Figure, Axes]:
    """A figure 10 inches wide without any global state of matplotlib's."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, height))
    axes = figure.add_axes((0.075, 0.42 / height, 0.905, 1 - 0.72 / height))
    axes.patch.set_visible(False)
    figure.patch.set_visible(False)
    for name, spine in axes.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(_INK)
        spine.set_linewidth(0.6)
    axes.tick_params(colors=_INK, labelsize=8, width=0.6, length=3)
    axes.tick_params(which="minor", width=0)
    axes.xaxis.label.set(color=_INK, fontsize=8)
    axes.yaxis.label.set(color=_INK, fontsize=8)
    axes.grid(visible=True, color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def _time_axis(axes: Axes, evidence: Evidence) -> None:
    """Seconds since the start of the run, and the faults as numbered bands."""
    axes.set_xlim(0, max(evidence.seconds, 1e-3))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g} s")
    last_label = -math.inf
    for fault in evidence.faults:
        start_ns = fault.proved_ns if fault.proved_ns is not None else fault.injecting_ns
        if start_ns is None:
            continue
        start = evidence.since_start(start_ns)
        end = evidence.since_start(evidence.end_ns if fault.healed_ns is None else fault.healed_ns)
        axes.axvspan(start, max(end, start + evidence.seconds / 500), color=_BAND, alpha=0.22, linewidth=0)
        if len(evidence.faults) <= _LABELLED_FAULTS and start - last_label > evidence.seconds / 45:
            axes.text(start, 1.015, f"F{fault.fault}", transform=axes.get_xaxis_transform(), fontsize=7, color=_INK)
            last_label = start


def _legend(axes: Axes) -> None:
    axes.legend(
        loc="upper right",
        bbox_to_anchor=(1.0, 1.17),
        ncols=6,
        fontsize=8,
        frameon=False,
        labelcolor=_INK,
        handlelength=2.2,
        columnspacing=1.4,
    )


def _inline(figure: Figure, name: str, title: str, said: str) -> Markup:
    """The figure as an `<svg>` fragment: `name` prefixes its ids, `title` and `said` are read out in place of the
    picture.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    written = io.StringIO()
    canvas: Any = FigureCanvasSVG(figure)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        canvas.print_svg(written, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = written.getvalue()
    box = re.search(r'viewBox="([\d. ]+)"', svg)
    body = svg[svg.index(">", svg.index("<svg")) + 1 : svg.rindex("</svg>")]
    body = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'(?:xlink:)?href="#', f'href="#{name}-', body)
    body = body.replace("url(#", f"url(#{name}-")
    body = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", body)
    for colour, variable in _VARIABLES.items():
        body = body.replace(colour, f"var({variable})")
    body = re.sub(r"\s*\n\s*", "\n", body)
    view = box[1] if box else "0 0 720 200"
    body_as_markup = Markup(body)  # noqa: S704  # matplotlib wrote it, and nothing from a history is in it
    return _OPENING.format(view, name, name, title, said) + body_as_markup + Markup("</svg>")


_OPENING = Markup(
    '<svg class="plot" viewBox="{}" role="img" aria-labelledby="{}-title"><title id="{}-title">{}. {}</title>'
)
