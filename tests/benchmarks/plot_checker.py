"""Draw what benchmark_checker.py measured: time and memory of a verdict over the size of its history.

python -m tests.benchmarks.plot_checker docs/performance.jsonl docs/images/checker-scaling.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

GIB = 2**30
QUIET_LOAD = 4.0
_HOW = {"screens": "Spark's screens", "look": "looked at as arrays"}
_ONE, _MANY = "one log", "12 logs (100 from 10\u2078 on)"
_SERIES = {
    ("screens", False): ("tab:orange", "o"),
    ("screens", True): ("tab:red", "s"),
    ("look", False): ("tab:blue", "o"),
    ("look", True): ("tab:cyan", "s"),
}


def draw(measured: list[dict[str, Any]], to: Path) -> None:
    """`measured`: lines of KRASH_BENCHMARK_RESULTS; of each size and shape the one with the least wall time counts. Wall time of
    a machine that others were using says nothing, and is left out (`load` null: it was quiet, and nobody noted the load).
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    best: dict[tuple[str, bool, int], dict[str, Any]] = {}
    for line in measured:
        key = (line.get("how", "screens"), line["logs"] == 1, line["records"])
        if key not in best or line["seconds"] < best[key]["seconds"]:
            best[key] = line
    with mpl.rc_context({"svg.hashsalt": "krash", "font.size": 9}):
        figure = Figure(figsize=(8, 4), layout="constrained")
        time, memory = figure.subplots(1, 2)
        for (how, alone), (color, marker) in _SERIES.items():
            lines = [line for key, line in sorted(best.items()) if key[:2] == (how, alone)]
            sizes = [line["records"] for line in lines]
            quiet = [line for line in lines if line["load"] is None or line["load"] < QUIET_LOAD]
            label = f"{_HOW[how]}, {_ONE if alone else _MANY}"
            time.plot(
                [line["records"] for line in quiet],
                [line["seconds"] for line in quiet],
                color=color,
                marker=marker,
                label=label,
            )
            time.plot(sizes, [line["processor"] for line in lines], color=color, marker=marker, ls=":", ms=3)
            memory.plot(sizes, [line["peak"] / GIB for line in lines], color=color, marker=marker)
        time.set(
            xscale="log",
            yscale="log",
            xlabel="records",
            ylabel="seconds",
            title="time to a verdict, 2 cores (dotted: processor)",
        )
        memory.set(xscale="log", ylim=(0, 6.5), xlabel="records", ylabel="GiB", title="peak memory, all processes")
        memory.axhline(6, color="grey", lw=0.8, ls="--")
        for axes in (time, memory):
            axes.grid(alpha=0.3)
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
        figure.savefig(to, metadata={"Date": None} if to.suffix == ".svg" else None)


if __name__ == "__main__":
    source, target = sys.argv[1:]
    draw([json.loads(line) for line in Path(source).read_text().splitlines()], Path(target))
