"""The judge as a process of its own, started while the workload runs so that the verdict follows the drain within seconds.

    $ python -m harness.checker.process --nice 10
    {"ready": true, "seconds": 6.1}                                                   the session is warm
    {"runs": ["runs/2026-11-21T10-14-03-chaos-1f3a"]}                                 <- standard input, one line per request
    {"doing": "looking for suspects, pass 1 of 4"}                                    as it goes, for whoever waits
    {"path": "runs/2026-11-21T10-14-03-chaos-1f3a", "run": "...", "verdict": "valid", "status": "judged", "reason": null, "seconds": 4.0}
    {"path": "runs/broken", "error": "runs/broken/history/ops/0.parquet, row group 2: cannot be read: ..."}
    {"histories": ["etcd_000.log"], "question": {"model": "cas-register"}}            <- histories of other tools
    {"path": "etcd_000.log", "model": "cas-register", "verdict": "invalid", ...}      as `foreign.judge_path` has it

Runs of one request are judged together, and verdict.json and anomalies/ of each are written before its line is. A run is
a path or a URI; `"out": "/DIRECTORY"` beside them sends verdicts there. The process ends at the end of its input, and
with its parent: a watch on the parent's pid works from whatever thread the parent started it (PR_SET_PDEATHSIG fires when
that thread ends). Only these lines go to standard output.

Warm means: a tiny built-in history was judged, so that classes are loaded and Python workers wait; then one with a lost
write, for what explains anomalies, unless a request is expected before that could be done. It costs the workload some seconds
of processor time at low priority, and saves them after the drain. A request that comes meanwhile ends it with the pass that
is under way; `--cold` is for whoever has something to judge at once.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.history.errors import HistoryError
from harness.history.place import Place, is_uri, local
from harness.history.reading import History as Stored
from harness.history.reading import open_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m harness.checker.process", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--nice", type=int, default=10, help="how much to lower the priority (default: 10)")
    parser.add_argument("--rows", type=int, default=0, help="how many records rows to expect, roughly")
    parser.add_argument("--heap", default="2g", help="memory of the JVM (default: 2g)")
    parser.add_argument("--cores", type=int, help="processors to use (default: all)")
    parser.add_argument("--master", help="Spark's master URL (default: this machine alone)")
    parser.add_argument("--spark-conf", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark")
    parser.add_argument("--expect-in", type=float, metavar="SECONDS", help="until the first request, roughly")
    parser.add_argument("--cold", action="store_true", help="do not judge a sample first")
    options = parser.parse_args(arguments)
    _end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end_now)
    os.nice(options.nice)
    began = time.monotonic()
    _compiling.start()

    from harness.checker.cluster import Cluster, settings_from
    from harness.checker.session import SparkFailed, spark_session

    settings = settings_from(options.spark_conf)
    cluster = Cluster(master=options.master or "local[*]", settings=settings) if options.master or settings else None
    try:
        with spark_session(
            rows=options.rows, heap=options.heap, cores=options.cores, cluster=cluster, lasting=not options.cold
        ) as spark:
            signal.signal(
                signal.SIGINT, signal.SIG_IGN
            )  # Spark set its own; Ctrl-C is for the supervisor, who then closes our input
            if not options.cold:
                _warm_up(spark, lost=False)
            took = time.monotonic() - began
            _say({"ready": True, "seconds": round(took, 3)})
            if not options.cold and (options.expect_in is None or options.expect_in > 2 * took):
                _warm_up(spark, lost=True)
            for line in sys.stdin:
                if line.strip():
                    for answer in answers(spark, line):
                        _say(answer)
    except SparkFailed as error:
        _say({"error": str(error)})
        return 3
    return 0


def answers(spark: SparkSession, line: str) -> Iterator[dict[str, Any]]:
    """One answer per path of a request, in its order; a damaged run or history does not keep the others from being judged."""
    try:
        request = json.loads(line)
        foreign = "histories" in request
        paths = [str(path) for path in request["histories" if foreign else "runs"]]
        question = dict(request.get("question", {}))
        out = Path(request["out"]) if request.get("out") else None
    except (ValueError, KeyError, TypeError, AttributeError):
        yield {"error": f'not a request: {line.strip()[:200]!r}; expected {{"runs": ["DIRECTORY", ...]}}'}
        return
    yield from (
        _of_histories(spark, [Path(path) for path in paths], question) if foreign else _of_runs(spark, paths, out)
    )


def _of_histories(spark: SparkSession, paths: list[Path], question: dict[str, Any]) -> Iterator[dict[str, Any]]:
    from harness.checker.foreign import ERROR, Request, judge_histories

    if _compiling.is_alive():
        _doing("compiling kernels, which is kept")
        _compiling.join()
    _doing(f"reading and judging {len(paths)} {'history' if len(paths) == 1 else 'histories'}")
    try:
        yield from judge_histories(spark, paths, Request.from_json(question))
    except Exception as error:  # noqa: BLE001 as below
        for path in paths:
            yield {"path": str(path), "verdict": ERROR, "error": f"{type(error).__name__}: {error}"}


def _of_runs(spark: SparkSession, paths: list[str], out: Path | None) -> Iterator[dict[str, Any]]:
    began = time.monotonic()
    stored, damaged = _opened(spark, [*dict.fromkeys(paths)], out)
    judged, failed = _judged(spark, stored)
    damaged |= failed
    for path in dict.fromkeys(paths):
        if path in damaged:
            yield {"path": path, "error": damaged[path]}
        else:
            yield _written(path, stored[path].path, out, judged[path], began)


def _judged(spark: SparkSession, stored: dict[str, Stored]) -> tuple[dict[str, Any], dict[str, str]]:
    """What was concluded, and what went wrong. Pages of far files are checked only now: a damaged one must not keep the others
    from being judged.
    """
    from harness.checker.cluster import explained
    from harness.checker.judge import judge
    from harness.checker.progress import with_parts

    try:
        with with_parts(spark, _doing) as say:
            return dict(zip(stored, judge(spark, list(stored.values()), say), strict=True)), {}
    except Exception as error:  # noqa: BLE001 whatever went wrong is the answer to this request; the next one may go well
        if len(stored) == 1 or not any(is_uri(path) for path in stored):
            return {}, {path: explained(error) or f"{type(error).__name__}: {error}" for path in stored}
    judged: dict[str, Any] = {}
    failed: dict[str, str] = {}
    for path, run in stored.items():
        one, wrong = _judged(spark, {path: run})
        judged |= one
        failed |= wrong
    return judged, failed


def _opened(spark: SparkSession, paths: list[str], out: Path | None) -> tuple[dict[str, Stored], dict[str, str]]:
    """Runs that can be judged, and why the others cannot."""
    from harness.checker.cluster import unseen
    from harness.checker.session import on_a_cluster
    from harness.checker.spark_place import SparkPlace

    stored: dict[str, Stored] = {}
    damaged: dict[str, str] = {}
    runs: dict[str, str] = {}
    names: dict[str, str] = {}
    for path in paths:
        try:
            # pages of far files are checked where they are read; here they would travel twice
            found = open_run(SparkPlace(spark, path), deep=False) if is_uri(path) else open_run(local(path))
        except (HistoryError, OSError) as error:
            damaged[path] = str(error)
            continue
        if runs.setdefault(found.info.run, path) != path:
            damaged[path] = f"{path}: holds the same run as {runs[found.info.run]}"
        elif out is not None and names.setdefault(found.path.name, path) != path:
            damaged[path] = (
                f"{path}: its verdict would go where that of {names[found.path.name]} goes; judge it by itself"
            )
        else:
            stored[path] = found
    if on_a_cluster(spark):
        ours = {str(local(path)): path for path in stored if not is_uri(path)}
        for name, host in unseen(spark, [Path(name) for name in ours]).items() if ours else ():
            del stored[ours[name]]
            damaged[ours[name]] = (
                f"{name}: the executor on {host} does not see it; put it where driver and executors see it: "
                "a directory that they share, or a URI that Spark reads (hdfs://, s3a://)"
            )
    return stored, damaged


def _written(path: str, place: Place, out: Path | None, judged: Any, began: float) -> dict[str, Any]:
    from harness.checker.judge import write, write_at
    from harness.checker.spark_place import SparkPlace

    verdict = judged.verdict
    try:
        if out is not None:
            (out / place.name).mkdir(parents=True, exist_ok=True)
            write(out / place.name, judged)
        elif isinstance(place, SparkPlace):
            write_at(place, judged)
        else:
            write(local(path), judged)
    except OSError as error:
        return {"path": path, "error": f"the verdict ({verdict.verdict}) could not be written: {error}"}
    return {
        "path": path,
        "run": verdict.run,
        "verdict": verdict.verdict,
        "status": verdict.status,
        "reason": verdict.reason,
        "seconds": round(time.monotonic() - began, 3),
        **({"document": verdict.as_json()} if out is not None or is_uri(path) else {}),
    }


def _compile_kernels() -> None:
    from harness.checker.ready import are_compiled, compile_kernels

    with suppress(Exception):  # whoever needs the kernels is told; whoever does not must not be bothered
        if not are_compiled():
            compile_kernels()


_compiling = threading.Thread(target=_compile_kernels, daemon=True)


class _Asked(Exception):
    """There is something to judge: what was to warm up is of no use any more."""


def _go_on_unless_asked(_text: str = "") -> None:
    """_Asked, if there is a request, or the end of our input. Right until the first one is read."""
    if select.select([sys.stdin], [], [], 0)[0]:
        raise _Asked


def _warm_up(spark: SparkSession, *, lost: bool) -> None:
    from harness.checker.judge import judge
    from harness.checker.sample import save_sample
    from harness.checker.session import scratch

    with suppress(_Asked):
        _go_on_unless_asked()
        sample = save_sample(scratch(spark) / ("lossy" if lost else "clean"), lost=lost)
        judge(spark, [open_run(sample)], _go_on_unless_asked)


def _doing(text: str) -> None:
    _say({"doing": text})


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")  # in one piece: two threads may have something to say
    sys.stdout.flush()


def _end_with_parent() -> None:
    """End when the parent is gone, whatever this process is waiting for."""
    parent = os.getppid()
    watch = os.pidfd_open(parent)

    def wait() -> None:
        select.select([watch], [], [])
        _end_now()

    threading.Thread(target=wait, daemon=True).start()
    if os.getppid() != parent:
        _end_now()


def _end_now(*_: object) -> None:
    """No unwinding: an exception in the middle of a call to Spark would only end in a worse one."""
    from harness.checker.session import abandon

    abandon()
    os._exit(143)


if __name__ == "__main__":
    sys.exit(main())
