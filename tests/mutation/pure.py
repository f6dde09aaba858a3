"""Modules that know no Spark: a mutant is tried by pytest, in a process that has everything imported but the judge.

Kernels run as plain Python (NUMBA_DISABLE_JIT), so that a changed one needs no compiler. Tests come in the order of the
table below, the ones about the module first, and end at the first failure. Left out are those that run other processes,
which would see the unchanged files, and 10^4 histories of the frontier, which take minutes when nothing is compiled.
"""

from __future__ import annotations

import importlib
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.mutation.mutated import install

_AT = "tests/harness/checker"
_LINEAR, _SERIAL, _MODELS = f"{_AT}/linearizability", f"{_AT}/serializability", f"{_AT}/models"
_ALL_OF_LINEAR = (
    f"{_LINEAR}/test_seeded_defects.py", f"{_LINEAR}/test_decide.py", f"{_LINEAR}/test_many.py", f"{_MODELS}/test_objects.py",
)  # fmt: skip
_ALL_OF_SERIAL = (
    f"{_SERIAL}/test_anomalies.py", f"{_SERIAL}/test_consistency.py", f"{_MODELS}/test_transactions.py",
    f"{_SERIAL}/test_kernels.py", f"{_AT}/test_dependencies.py", f"{_SERIAL}/test_agreement.py",
    f"{_SERIAL}/test_invariance.py",
)  # fmt: skip
_ALL_OF_MODELS = (
    f"{_MODELS}/test_meaning.py", f"{_MODELS}/test_jepsen_rules.py", f"{_MODELS}/test_log_and_epoch.py",
    f"{_MODELS}/test_jepsen_orders.py", f"{_MODELS}/test_detection.py", f"{_MODELS}/test_transactions.py",
    f"{_MODELS}/test_objects.py",
)  # fmt: skip
_ALL = {
    "linearizability": _ALL_OF_LINEAR,
    "serializability": _ALL_OF_SERIAL,
    "models": _ALL_OF_MODELS,
    "glance": (f"{_AT}/glance/test_glance.py", f"{_AT}/glance/test_slices.py"),
}
_SEARCH = (f"{_LINEAR}/test_decide.py", f"{_LINEAR}/test_frontier.py")
_EXACT = (f"{_LINEAR}/test_seeded_defects.py", f"{_LINEAR}/test_many.py", f"{_LINEAR}/test_exact_engines.py")
_FIRST = {
    "linearizability/log": (f"{_AT}/test_kernel.py", *_EXACT, f"{_MODELS}/test_log_and_epoch.py"),
    "linearizability/holes": (f"{_MODELS}/test_log_and_epoch.py", *_EXACT),
    "linearizability/pieces": (f"{_LINEAR}/test_pieces.py", f"{_AT}/test_kernel.py"),
    "linearizability/epochs": (f"{_LINEAR}/test_epochs.py", f"{_MODELS}/test_log_and_epoch.py"),
    "linearizability/zones": (*_EXACT[:2], f"{_LINEAR}/test_zones.py"),
    "linearizability/mutexes": _EXACT,
    "linearizability/counters": _EXACT,
    "linearizability/queues": _EXACT,
    "linearizability/sets": _EXACT,
    "linearizability/operations": (*_SEARCH, *_EXACT),
    "linearizability/frontier": _SEARCH,
    "linearizability/kernel": _SEARCH,
    "linearizability/configurations": _SEARCH,
    "linearizability/states": _SEARCH,
    "linearizability/encoding": _SEARCH,
    "linearizability/shrink": (
        f"{_LINEAR}/test_frontier.py::test_of_a_long_history_whose_values_come_again_and_again_two_operations_are_left",
        f"{_LINEAR}/test_frontier.py::test_shrunk_evidence_is_still_a_contradiction",
        *_SEARCH,
    ),
    "models/jepsen_orders": (f"{_MODELS}/test_jepsen_orders.py",),
    "models/jepsen_rules": (f"{_MODELS}/test_jepsen_rules.py",),
    "models/jepsen_sets": (f"{_MODELS}/test_jepsen_rules.py",),
    "models/log": (f"{_MODELS}/test_log_and_epoch.py",),
    "models/bad_history": (f"{_MODELS}/test_log_and_epoch.py",),
    "models/epoch": (f"{_MODELS}/test_log_and_epoch.py",),
    "models/transactions": (f"{_MODELS}/test_transactions.py",),
}
_NOT = (
    f"{_LINEAR}/test_many.py::test_it_agrees_with_the_definition[frontier]",
    f"{_MODELS}/test_transactions.py::test_after_preparing_nothing_is_compiled_and_another_process_loads_it",
    f"{_SERIAL}/test_kernels.py::test_without_the_compiler_the_kernels_are_plain_python",
)
LIMITS: dict[str, Any] = {"processor": 400.0, "wall": 3600.0, "memory": 6 << 30}  # survivors take some 100 s
OF_ONE_TEST = 20.0  # seconds of processor time; they take up to 6
_OPTIONS = (  # without what collects garbage at every end
    "-x", "-q", "-p", "no:cacheprovider", "-p", "no:unraisableexception", "--tb=line", "--assert=plain", "--no-header",
)  # fmt: skip
_IMPORTED = (
    "numpy", "pandas", "pyarrow.parquet", "numba", "hypothesis.strategies", "hypothesis.internal.conjecture.engine",
    "_pytest.assertion.rewrite", "_pytest.python", "_pytest.junitxml", "pytest_timeout", "harness.history.formats.reading",
    "harness.history.formats.kafka", "harness.history.formats.edn", "harness.history.formats.of_run",
    "harness.history.reading", "reports.verdict", "workloads.op", "json", "re", "concurrent.futures",
)  # fmt: skip


def tests_of(module: str) -> tuple[str, ...]:
    """Paths, the most telling first."""
    name = module.removeprefix("harness/checker/").removesuffix(".py")
    folder = name.partition("/")[0]
    return tuple(dict.fromkeys((*_FIRST.get(name, ()), *_ALL[folder])))


def prepare(stack: ExitStack, root: Path) -> None:
    """Import what every mutant needs and no mutant changes."""
    for name in _IMPORTED:
        importlib.import_module(name)
    from hypothesis import settings

    settings.register_profile("mutation", derandomize=True, database=None, deadline=None)
    settings.load_profile("mutation")


def tried(root: Path, module: str, text: str) -> str:
    """In a process of its own: which test failed; empty: none did."""
    import pytest

    install(root, module, text)
    watcher = _Watcher()
    options = [*_OPTIONS, "--rootdir", str(root), *(f"--deselect={test}" for test in _NOT)]
    for path in tests_of(module):  # one by one: most mutants need no second one to be imported
        code = pytest.main([*options, path], plugins=[watcher])
        if code not in (0, 1, 2):
            return f"broken: pytest ended with {code}"
        if code:
            return watcher.failed or "not importable"
    return ""


class _Watcher:
    def __init__(self) -> None:
        self.failed = ""

    def pytest_runtest_logstart(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, OF_ONE_TEST)  # whose signal ends the process

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid.removeprefix(f"{_AT}/")

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed = f"import of {report.nodeid.removeprefix(f'{_AT}/')}"


def tidied() -> None:
    """Nothing is shared with the next one."""
