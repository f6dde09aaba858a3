"""A Spark session for a small machine: local, offline, quiet, and without a trace.

What Spark does by default and must not do here: write `spark-warehouse`, `metastore_db` or `derby.log` into the current
directory, listen on outside addresses, start a web UI, print to the terminal, run its workers with another interpreter
than ours. Everything that it writes goes into one private directory that is removed when the session ends; one that a
killed process left is removed by the next session.

Which of the JVM's compilers: for small histories the first one only (20 s of processor time from start to verdict of a
tiny run, 40 s with both); for large ones both (61 s against 120 s for 10^7 records on 2 cores); they meet near 3 * 10^6
rows. That was without the class data archive (archive.py), which takes ten seconds off a tiny run. The serial collector
needs the least memory and is as fast as the parallel one on two cores.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from harness.checker import archive as class_archive
from harness.checker.cluster import Cluster, ClusterFailed, innermost_cause, meet_executors, pack
from harness.history.arrow import hidden_pandas, spare_pandas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEAP = "2g"
_PREFIX = "krash-spark-"
LARGE_ROWS = 5_000_000
EXIT_S = 30
ARCHIVE_S = 600
_JVM = "-XX:+UseSerialGC -XX:-UsePerfData -Xss4m -Djava.net.preferIPv4Stack=true"
_FIRST_COMPILER_ONLY = "-XX:TieredStopAtLevel=1"
_LASTING = "spark.krash.lasting"
_DAEMON = "harness.checker.workers"
_LOG4J_FILE = "log4j2.properties"
_LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""


class SparkFailed(Exception):
    """Spark did not start; the message ends with what the JVM said."""


@contextmanager
def spark_session(
    *,
    rows: int = 0,
    heap: str = HEAP,
    cores: int | None = None,
    cluster: Cluster | None = None,
    archive: Path | None = None,
    lasting: bool = False,
) -> Iterator[SparkSession]:
    """One session for as long as the context lasts; there can be one per process at a time.

    `rows`: of the records tables that it will judge, roughly. `lasting`: it will judge more than once, so that it pays to
    compile the plans of small histories, too (5 to 6 s of processor time instead of 7 to 8 for the second, 10^4 records;
    2 to 5 s more for the first). `heap` is the JVM's, and each executor's (Spark syntax,
    "2g"); Python workers come on top, some 150 MB per core. `cores`: None for all. `cluster`: None for this machine.
    `archive`: where the JVM writes a class data archive when the session ends; None: it uses the one that is there.
    SparkFailed, also for a cluster that cannot judge.
    """
    _remove_leftovers()
    home = Path(tempfile.mkdtemp(prefix=_PREFIX))
    held = os.open(home, os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(held, fcntl.LOCK_SH)
    try:
        large = rows >= LARGE_ROWS
        compilers = [] if large else [_FIRST_COMPILER_ONLY]
        classes = class_archive.flags() if archive is None else [f"-XX:ArchiveClassesAtExit={archive}"]
        configuration = _configuration(home, heap, cores, cluster, [*compilers, *classes], large=large)
        spark = _start(home, configuration | {_LASTING: str(lasting).lower()}, cluster)
        try:
            if on_a_cluster(spark):
                spark.sparkContext.addPyFile(str(pack(home)))
                meet_executors(spark)
            else:
                threading.Thread(target=_wake_workers, args=(spark,), daemon=True).start()
            yield spark
        finally:
            _stop(spark, EXIT_S if archive is None else ARCHIVE_S)
    except ClusterFailed as error:
        raise SparkFailed(str(error)) from error
    finally:
        _live.clear()
        os.close(held)
        shutil.rmtree(home, ignore_errors=True)


def _wake_workers(spark: SparkSession) -> None:
    """Beside the first plans: workers import for as long as these take."""
    from harness.checker.workers import wake

    with suppress(Exception):  # a session that ends, or one whose first judgement will say what is wrong
        wake(spark)


def scratch(spark: SparkSession) -> Path:
    """The session's private directory, on the driver's machine."""
    (_, home), *_ = _live
    return home


def on_a_cluster(spark: SparkSession) -> bool:
    """Whether rows are read by other machines than this one."""
    return not Cluster(master=str(spark.sparkContext.master)).is_local


def lasts(spark: SparkSession) -> bool:
    """Whether it will judge more than once."""
    return bool(spark.conf.get(_LASTING, "false") == "true")


def abandon() -> None:
    """End the JVM and remove its files without another word to it: for a process that must end now, from any thread."""
    for process, home in _live:
        process.kill()
        process.wait()
        shutil.rmtree(home, ignore_errors=True)


_live: list[tuple[subprocess.Popen[bytes], Path]] = []  # the session's JVM; at most one


def _start(home: Path, configuration: dict[str, str], cluster: Cluster | None) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway  # its only door to the JVM's standard error
    from pyspark.sql import SparkSession

    with hidden_pandas():  # for its first call of the JVM, pyspark loads what its own tests need, which takes a second
        import pyspark.testing.utils  # noqa: F401
    spare_pandas()
    (home / _LOG4J_FILE).write_text(_LOG4J)
    conf = SparkConf(loadDefaults=False)
    for name, value in configuration.items():
        conf.set(name, value)
    said = home / "jvm.log"
    try:
        with said.open("wb") as log, _environment(home, configuration):
            gateway = launch_gateway(
                conf,
                {  # type: ignore[no-untyped-call]
                    "stderr": log,
                    "stdout": log,
                    "cwd": str(home),
                },
            )
            _live.append((gateway.proc, home))
            session = SparkSession(SparkContext(gateway=gateway, conf=conf))
    except (PySparkException, Py4JError, OSError) as error:
        needs = "it needs Java 17 or later" + (f", and {cluster.master} must answer" if cluster else "")
        told = f"Spark did not start ({innermost_cause(str(error))}); {needs}. The JVM said:\n{_tail(said)}"
        abandon()
        raise SparkFailed(told) from error
    return session


def _configuration(
    home: Path, heap: str, cores: int | None, cluster: Cluster | None, flags: Sequence[str], *, large: bool
) -> dict[str, str]:
    where = cluster or Cluster(master=f"local[{cores or '*'}]")
    address = where.address
    return {
        "spark.app.name": "krash",
        "spark.driver.memory": heap,
        "spark.driver.extraJavaOptions": " ".join(
            [_JVM, f'-Djava.io.tmpdir="{home}" -Dlog4j2.configurationFile="{home / _LOG4J_FILE}"', *map(_quoted, flags)]
        ),
        **({} if address is None else {"spark.driver.host": address, "spark.driver.bindAddress": address}),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Partitions are sized by the number of rows and joins hinted by counted suspects (history.py), so the planner need
        # not stop and think: adaptive execution makes a small run half as slow again.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.autoBroadcastJoinThreshold": "64m",
        "spark.sql.codegen.cache.maxEntries": "3000",  # one judgement has some hundred; of 100 none would be left for the next
        "spark.sql.inMemoryColumnarStorage.compressed": str(
            large
        ).lower(),  # a third of what the ledger costs, for a third of its size
        "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "false",
        **(
            {"spark.executorEnv.PYTHONPATH": _own_path(), "spark.python.daemon.module": _DAEMON}
            if where.is_local
            else {}
        ),
        **where.configuration(heap),
    }


def _quoted(flag: str) -> str:
    return f'"{flag}"'


def _own_path() -> str:
    return os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])


@contextmanager
def _environment(home: Path, configuration: dict[str, str]) -> Iterator[None]:
    """What only the environment can tell Spark, for as long as it starts. spark-submit would read a user's own settings
    and remote sessions from there.
    """
    address = configuration.get("spark.driver.bindAddress")
    wanted = {
        "SPARK_CONF_DIR": class_archive.NO_DIRECTORY,
        **({} if address is None else {"SPARK_LOCAL_IP": address}),
        "SPARK_LOCAL_DIRS": str(home),
        "PYSPARK_PYTHON": configuration.get("spark.pyspark.python", sys.executable),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": "pyspark-shell",
    }
    unwanted = ("SPARK_HOME", "SPARK_REMOTE", "SPARK_TESTING", "PYSPARK_GATEWAY_PORT", "JAVA_TOOL_OPTIONS")
    before = {name: os.environ.get(name) for name in (*wanted, *unwanted)}
    for name in unwanted:
        os.environ.pop(name, None)
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _stop(spark: SparkSession, wait_s: float) -> None:
    """Stop the session and the JVM, and wait until it is gone: what it writes goes with its directory."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    (process, _), *_ = _live
    try:
        spark.stop()
        gateway = SparkContext._gateway
        if gateway is not None:
            gateway.shutdown()
    except (Py4JError, OSError, KeyError):  # an interrupt in the middle of a call leaves the connection out of step
        process.kill()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _remove_leftovers() -> None:
    """Directories of sessions whose process is gone: it held a lock."""
    for home in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if home.is_symlink() or home.stat().st_uid != os.getuid():
                continue
            held = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(home, ignore_errors=True)
            finally:
                os.close(held)


def _tail(path: Path) -> str:
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-20:])
    except OSError:
        return "(nothing)"
