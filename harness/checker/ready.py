"""Compile all kernels ahead, so that no verdict waits for a compiler: some twenty seconds once per version, then never.

    python -m harness.checker.ready

Set-up does it, and the judge's process in a thread while its JVM starts, beside the workload of a run.
"""

from __future__ import annotations

from harness.checker.linearizability import ready
from harness.checker.models import transactions


def compile_kernels() -> None:
    ready.compile_kernels()
    transactions.prepare()


if __name__ == "__main__":
    compile_kernels()
