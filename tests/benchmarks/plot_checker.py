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


def draw(measured: list[dict[str, Any]], to: Path) -> None:
    """`measured`: lines of KRASH_BENCHMARK_RESULTS; of each size and shape the one with the least wall time counts. Wall time of
    a machine that others were using says nothing, and is left out (`load` null: it was quiet, and nobody noted the load).
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    best: dict[tuple[bool, int], dict[str, Any]] = {}
    for line in measured:
        key = (line["logs"] == 1, line["records"])
        if key not in best or line["seconds"] < best[key]["seconds"]:
            best[key] = line
    with mpl.rc_context({"svg.hashsalt": "krash", "font.size": 9}):
        figure = Figure(figsize=(8, 3.4), layout="constrained")
        time, memory = figure.subplots(1, 2)
        for alone, label, marker in ((False, "12 logs (100 from 10\u2078 on)", "o"), (True, "one log", "s")):
            lines = [line for (one, _), line in sorted(best.items()) if one == alone]
            sizes = [line["records"] for line in lines]
            quiet = [line for line in lines if line["load"] is None or line["load"] < QUIET_LOAD]
            time.plot(
                [line["records"] for line in quiet],
                [line["seconds"] for line in quiet],
                marker=marker,
                label=f"{label}, wall",
            )
            time.plot(sizes, [line["processor"] for line in lines], marker=marker, ls=":", label=f"{label}, processor")
            memory.plot(sizes, [line["peak"] / GIB for line in lines], marker=marker, label=label)
        time.set(xscale="log", yscale="log", xlabel="records", ylabel="seconds", title="time to a verdict, 2 cores")
        memory.set(xscale="log", ylim=(0, 6.5), xlabel="records", ylabel="GiB", title="peak memory, all processes")
        memory.axhline(6, color="grey", lw=0.8, ls="--")
        for axes in (time, memory):
            axes.grid(alpha=0.3)
            axes.legend(frameon=False)
        figure.savefig(to, metadata={"Date": None} if to.suffix == ".svg" else None)


if __name__ == "__main__":
    source, target = sys.argv[1:]
    draw([json.loads(line) for line in Path(source).read_text().splitlines()], Path(target))
