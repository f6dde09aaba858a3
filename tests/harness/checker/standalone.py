"""A real standalone cluster on loopback: one master and two worker processes, from the classes that pyspark brings.

    with standalone_cluster(directory) as cluster:
        cluster.url         "spark://127.0.0.1:41273"
        cluster.executors() processes that workers started for applications; none when nobody judges

Ports are the kernel's choice; web interfaces listen on loopback too, because Spark cannot do without them here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyspark

WAIT_S = 240.0  # the machine may be busy
_JVM = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-XX:TieredStopAtLevel=1",
    "-Djava.net.preferIPv4Stack=true",
)
_PACKAGE = "org.apache.spark.deploy"


@dataclass(frozen=True, kw_only=True)
class Standalone:
    url: str
    workers: tuple[int, ...]  # process ids

    def executors(self) -> list[psutil.Process]:
        """All processes below the workers: executors, and their Python."""
        found = []
        for pid in self.workers:
            found += psutil.Process(pid).children(recursive=True)
        return found


@contextmanager
def standalone_cluster(directory: Path) -> Iterator[Standalone]:
    """`directory`: for logs and the workers' files; processes are gone when the context ends."""
    with ExitStack() as stack:
        log = _started(stack, directory, "master", ["master.Master", "--port", "0", "--webui-port", "0"])
        url = _said(log, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        workers = []
        for name in ("worker-1", "worker-2"):
            arguments = ["worker.Worker", "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "1g"]
            log = _started(stack, directory, name, [*arguments, "--work-dir", str(directory / name), url])
            workers.append(int((directory / f"{name}.pid").read_text()))
            _said(log, r"Successfully registered with master")
        yield Standalone(url=url, workers=tuple(workers))


def until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def _started(stack: ExitStack, directory: Path, name: str, arguments: list[str]) -> Path:
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    java = str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if os.environ.get("JAVA_HOME") else shutil.which("java")
    assert java is not None
    main, *rest = arguments
    opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    command = [java, *_JVM, *opens, "-cp", str(jars), f"{_PACKAGE}.{main}", "--host", "127.0.0.1", *rest]
    local = directory / f"{name}-local"
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_", "PYTHON"))
    }
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(local), "SPARK_SCALA_VERSION": "2.13"}
    environment["SPARK_HOME"] = str(jars.parents[1])
    log = directory / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=directory,
            env=environment,
            start_new_session=True,
        )
    stack.callback(_end, process)
    (directory / f"{name}.pid").write_text(str(process.pid))
    return log


# as Spark's own launcher opens them (org.apache.spark.launcher.JavaModuleOptions)
_OPENED = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar",
)  # fmt: skip


def _said(log: Path, pattern: str) -> str:
    found: list[str] = []

    def says() -> bool:
        match = re.search(pattern, log.read_text(errors="replace"))
        found[:] = [match[match.lastindex or 0]] if match else []
        return bool(found)

    until(says, f"{log} never said {pattern!r}")
    return found[0]


def _end(process: subprocess.Popen[bytes]) -> None:
    """With all that it started: a worker takes its executors with it, and is waited for."""
    family = [psutil.Process(process.pid)] if process.poll() is None else []
    family += family[0].children(recursive=True) if family else []
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for one in psutil.wait_procs(family, timeout=10)[1]:
        one.kill()
