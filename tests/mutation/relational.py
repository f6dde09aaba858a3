"""Modules that judge with Spark: a mutant judges the seeded defects and the messy histories, with one session for all.

A session takes longer to start than a hundred mutants to be tried, so mutants run in forks of a process that has one, over
connections of their own. The stories are those of the unit tests, with what these demand: every seeded defect gives
exactly its anomalies and its lawful neighbour none (`test_seeded_defects`, `test_client_defects`, `test_race_defects`,
`test_foreign_kafka`; where a check cuts long logs into ranges, also with short ranges, as `test_judge` has it), messy
histories give what the definitions say (`oracle.py`). Only the mutated module's checks and those that are built on it are
run, since most of the time goes into planning queries; what their sentences say is not looked at. Queries are not
compiled, which for so few rows is faster.
"""

from __future__ import annotations

import random
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.mutation.mutated import install

LIMITS: dict[str, Any] = {"processor": 600.0, "wall": 1200.0, "memory": None}
MESSY = 200
_USERS = {"loss": ("producers", "linearizable", "vanished"), "polls": ("producers",)}
_SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_session: list[Any] = []
_kept: list[object] = []  # never collected in a fork, where that would close the connection of the process before it


def prepare(stack: ExitStack, root: Path) -> None:
    from harness.checker.session import spark_session

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's own
        spark = stack.enter_context(spark_session(heap="1g", cores=2))
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    _session.append(spark)
    stack.callback(_session.clear)


def tidied() -> None:
    """What a fork has left in the JVM goes."""
    spark = _session[0]
    spark.sparkContext.cancelAllJobs()
    spark.catalog.clearCache()
    spark._jvm.System.gc()


def tried(root: Path, module: str, text: str) -> str:
    """In a fork: what was judged otherwise than the tests demand; empty: nothing."""
    spark = _session[0]
    client = spark.sparkContext._gateway._gateway_client
    _kept.append(client.thread_connection)
    client.thread_connection = threading.local()
    client.deque.clear()
    install(root, module, text)
    from pyspark.errors import PySparkException

    name = Path(module).stem
    try:
        kinds = _restrict(name)
    except Exception as error:  # noqa: BLE001 - a changed module fails however it likes
        return f"import: {type(error).__name__}"
    try:
        return next(_differences(spark, kinds, cut=".bits" in text), "")
    except PySparkException as error:
        return f"Spark: {type(error).__name__}"
    except Exception as error:
        if not _from_checker(error, module):
            raise
        return f"judging: {type(error).__name__}"


def _from_checker(error: Exception, module: str) -> bool:
    """Its traceback passes the changed module, or what reads its findings."""
    trace = error.__traceback__
    while trace is not None:
        if "harness/checker/" in trace.tb_frame.f_code.co_filename:
            return True
        trace = trace.tb_next
    return False


def _restrict(name: str) -> set[str]:
    """Names of the checks that are left."""
    import importlib

    from harness.checker import judge

    names = (name, *_USERS.get(name, ()))
    modules = [importlib.import_module(f"harness.checker.{one}") for one in names]
    checks = [check for one in modules for check in getattr(one, "CHECKS", None) or (one.CHECK,)]
    judge.CHECKS = tuple(check for check in judge.CHECKS if check in checks)
    return {check.name for check in judge.CHECKS}


def _differences(spark: Any, kinds: set[str], *, cut: bool) -> Iterator[str]:
    """`cut`: the module has another way for logs that span ranges, which short ones only do if ranges are short."""
    yield from _stories(spark, kinds)
    if cut:
        from harness.checker import history

        usual, history.RANGE_BITS = history.RANGE_BITS, 1
        yield from (f"{found}, cut" for found in _stories(spark, kinds))
        history.RANGE_BITS = usual
    yield from _foreign(spark, kinds)
    yield from _messy(spark, kinds)


def _judged(spark: Any, stories: Sequence[Any]) -> Mapping[str, Any]:
    from tempfile import TemporaryDirectory

    from harness.checker.judge import judge
    from harness.history.reading import open_run

    with TemporaryDirectory(prefix="krash-mutation-") as folder:
        stored = [open_run(story.save(Path(folder) / story.run)) for story in stories]
        return {one.run: one for one in judge(spark, stored)}


def _stories(spark: Any, kinds: set[str]) -> Iterator[str]:
    from tests.harness.checker import test_client_defects, test_race_defects, test_seeded_defects

    registries = [one.REGISTRY for one in (test_seeded_defects, test_client_defects, test_race_defects)]
    judged = _judged(spark, [story for registry in registries for story in registry.stories()])
    for registry in registries:
        for name, (_, expected) in registry.defects.items():
            found = {
                one.type: one.count
                for one in judged[name].verdict.anomalies
                if one.severity == "violation" and one.type in kinds
            }
            if found != {kind: count for kind, count in expected.items() if kind in kinds}:
                yield f"story {name}"
        for name in registry.fine:
            if any(one.severity != "information" and one.type in kinds for one in judged[name].verdict.anomalies):
                yield f"story {name}"


def _foreign(spark: Any, kinds: set[str]) -> Iterator[str]:
    from harness.checker.foreign_kafka import judge_foreign
    from tests.harness.checker import test_foreign_kafka

    told = test_foreign_kafka.DEFECTS | test_foreign_kafka.FINE
    judged = judge_foreign(spark, {name: test_foreign_kafka.paired(make()) for name, (make, _) in told.items()})
    for name, (_, expected) in told.items():
        violation = name in test_foreign_kafka.DEFECTS
        found = {one.type: one.count for one in judged[name].found if one.violation is violation and one.type in kinds}
        unwanted = not violation and any(one.violation and one.type in kinds for one in judged[name].found)
        if unwanted or found != {kind: count for kind, count in expected.items() if kind in kinds}:
            yield f"foreign {name}"


def _messy(spark: Any, kinds: set[str]) -> Iterator[str]:
    from tests.harness.checker.oracle import Oracle
    from tests.harness.checker.test_against_oracle import key, messy

    rng = random.Random(20261121)
    stories = [messy(f"m{number}", rng) for number in range(MESSY)]
    judged = _judged(spark, stories)
    for story in stories:
        rows = judged[story.run].anomalies.to_pylist()
        found = {key(row) for row in rows if row["severity"] == "violation" and row["type"] in kinds}
        if found != {one for one in Oracle(story).findings() if one[0] in kinds}:
            yield f"messy {story.run}"
