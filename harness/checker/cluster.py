"""The judge's session on a cluster: `krash check --master URL`, for histories that one machine is too small for.

    driver (this process)                        executors (the cluster's)
    ---------------------                        ------------------------------------
    run.json, footers, small tables              rows of ops and records, read through Spark
    plans, the verdict, sentences                shuffles, kernels on Arrow columns
    krash's own packages as one archive   ---->  on their Python's path, for this session only

Executors need a Python of the driver's version with pyarrow, numpy and numba, and nothing of krash: its code is packed
when the session starts and leaves with it. What is missing there is found out by asking every executor before anything
is judged, because Spark's own error for it is a page of Java.

A master on loopback keeps the driver on loopback. Any other master gets the address from which this machine reaches it:
executors connect to the driver, so it listens there. Who else may connect is Spark's matter (`spark.authenticate`).
"""

from __future__ import annotations

import importlib.util
import re
import socket
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = ("harness", "reports", "nemesis", "nodes", "workloads")
ARCHIVE = "krash-code.zip"
NEEDED = ("pyarrow", "numpy", "numba")
EXECUTOR_WAIT_S = 180.0
_LOCAL = re.compile(r"local(\[[^\]]*\])?")
_OURS = {  # what the driver decides, and why nobody else may
    "spark.master": "--master says it",
    "spark.submit.deployMode": "the driver is this process",
    "spark.sql.ansi.enabled": "verdicts depend on it",
    "spark.sql.session.timeZone": "sentences depend on it",
    "spark.ui.showConsoleProgress": "standard output has answers and nothing else",
}


class ClusterFailed(Exception):
    """The cluster cannot judge; the message says what to do about it."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Where a session runs: `spark://host:7077`, `yarn`, `k8s://https://host:6443`, `local[2]`."""

    master: str
    settings: Mapping[str, str] = field(default_factory=dict)  # Spark's, as `--spark-conf` gave them

    def __post_init__(self) -> None:
        """ValueError for a setting that is not one, or that krash decides."""
        for name in self.settings:
            if not name.startswith("spark."):
                raise ValueError(f"{name!r} is no setting of Spark: they start with `spark.`")
            if name in _OURS:
                raise ValueError(f"{name} cannot be set: {_OURS[name]}")

    @property
    def is_local(self) -> bool:
        return _LOCAL.fullmatch(self.master) is not None

    @property
    def address(self) -> str | None:
        """The driver's, as executors reach it; None: Spark finds out (YARN names no host)."""
        if self.is_local:
            return "127.0.0.1"
        place = re.match(r"(?:spark|k8s)://(?:https?://)?([^:/,]+):(\d+)", self.master)
        return None if place is None else _address_towards(place[1], int(place[2]))

    def configuration(self, heap: str) -> dict[str, str]:
        """What differs from a session on this machine alone."""
        return {
            "spark.master": self.master,
            **({} if self.is_local else {"spark.executor.memory": heap, "spark.executor.extraJavaOptions": _EXECUTOR}),
            **self.settings,
        }


_EXECUTOR = "-Xss4m -XX:-UsePerfData"


def settings_from(pairs: Iterable[str]) -> dict[str, str]:
    """`["spark.executor.memory=4g"]` as a mapping. ValueError for anything else."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"expected key=value, found {pair!r}")
        found[name.strip()] = value
    return found


def pack(directory: Path) -> Path:
    """Krash's own packages, sources only, as an archive that Python imports from."""
    archive = directory / ARCHIVE
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for package in PACKAGES:
            spec = importlib.util.find_spec(package)
            assert spec is not None
            assert spec.origin is not None
            root = Path(spec.origin).parent
            for source in sorted(root.rglob("*.py")):
                entry = zipfile.ZipInfo(str(Path(package) / source.relative_to(root)))
                entry.external_attr = 0o644 << 16
                out.writestr(entry, source.read_bytes(), zipfile.ZIP_DEFLATED)
    return archive


def meet_executors(spark: SparkSession, *, wait_s: float = EXECUTOR_WAIT_S) -> None:
    """Wait until there is one, and ask all whether they have what a judgement needs. ClusterFailed."""
    context: Any = spark.sparkContext
    deadline = time.monotonic() + wait_s
    while _executors(spark) == 0:
        if context._jsc.sc().isStopped():
            raise ClusterFailed(
                f"{context.master} ended our application: its executors failed, and their own logs say why"
            )
        if time.monotonic() >= deadline:
            raise ClusterFailed(
                f"no executor came within {wait_s:g} s: is a worker up that has spark.executor.memory "
                f"({context.getConf().get('spark.executor.memory')}) and a core free? Is another application holding them?"
            )
        time.sleep(0.1)
    tasks = max(context.defaultParallelism, 2 * _executors(spark))
    missing = _missing(_asked(spark, range(tasks), _what_is_missing))
    if missing:
        raise ClusterFailed(
            f"executors lack {missing}: install it there for the Python that they run, or name one that has it: "
            "--spark-conf spark.pyspark.python=/path/to/python3"
        )


def unseen(spark: SparkSession, paths: Iterable[Path]) -> dict[str, str]:
    """path -> an executor's host, for files of this machine that an executor does not see."""
    wanted = [str(path) for path in paths]
    context = spark.sparkContext
    tasks = max(context.defaultParallelism, 2 * _executors(spark))
    found = _asked(spark, range(tasks), _PathsNotThere(wanted))
    return {path: host for host, path in found}


def explained(error: Exception) -> str | None:
    """What to do about an error of Spark that everybody meets once; None: not one of these."""
    said = str(error)
    if "PYTHON_VERSION_MISMATCH" in said:
        versions = re.search(r"has different version: ([\d.]+) than that in driver: ([\d.]+)", said)
        seen = f" (theirs {versions[1]}, ours {versions[2]})" if versions else ""
        return f"executors run another version of Python{seen}: name one of ours with --spark-conf spark.pyspark.python=PATH"
    if missing := re.search(r'Cannot run program "([^"]+)"', said):
        return f"executors have no {missing[1]}: name their Python with --spark-conf spark.pyspark.python=PATH"
    if damaged := re.search(r"\[FAILED_READ_FILE[^]]*\] Encountered error while reading file (\S+?)\.? ", said):
        return f"{damaged[1]}: cannot be read: {innermost_cause(said)}"
    return None


def _executors(spark: SparkSession) -> int:
    """Without the driver, which counts itself."""
    context: Any = spark.sparkContext
    return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1


def _asked(spark: SparkSession, tasks: range, question: Any) -> list[tuple[str, str]]:
    from py4j.protocol import Py4JJavaError

    try:
        told: list[tuple[str, str]] = (
            spark.sparkContext.parallelize(tasks, len(tasks)).mapPartitions(question).collect()
        )
    except Py4JJavaError as error:
        said = str(error)
        raise ClusterFailed(explained(error) or f"executors do not work: {innermost_cause(said)}") from error
    return sorted(set(told))


def _missing(told: Iterable[tuple[str, str]]) -> str:
    hosts: dict[str, list[str]] = {}
    for host, module in told:
        hosts.setdefault(module, []).append(host)
    return ", ".join(f"{module} (on {', '.join(on)})" for module, on in hosts.items())


def _what_is_missing(_: Iterator[int]) -> Iterator[tuple[str, str]]:
    """On an executor."""
    for module in NEEDED:
        if importlib.util.find_spec(module) is None:
            yield socket.gethostname(), module


class _PathsNotThere:
    """On an executor: which of these are not there."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths

    def __call__(self, _: Iterator[int]) -> Iterator[tuple[str, str]]:
        for path in self._paths:
            if not Path(path).exists():
                yield socket.gethostname(), path


def innermost_cause(said: str) -> str:
    """Of what Spark says about an error, without where in Java: the innermost cause when there is one."""
    if causes := re.findall(r"^Caused by: (.+)$", said, re.MULTILINE):
        return str(causes[-1])[:500]
    lines = [line.strip().removeprefix(": ") for line in said.splitlines()]
    told = [line for line in lines if line and not line.startswith(("at ", "An error occurred while calling"))]
    return " ".join(told[:3])[:500]


def _address_towards(host: str, port: int) -> str:
    """This machine's address on the way to another: connecting a datagram socket sends nothing."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, port))
            return str(probe.getsockname()[0])
    except OSError as error:
        raise ClusterFailed(f"there is no way to {host}: {error}") from error
