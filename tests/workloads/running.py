"""The workload in the background of a test, and what tests of it ask of a history again and again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.workloads.recording import MemoryRecorder
from workloads.log import LogWorkload
from workloads.op import OpKind, Outcome
from workloads.workload import ClientContext, Workload

ONE_BY_ONE = {"producers": 1, "consumers": 0, "in_flight": 1}
UNSAFE = {"idempotence": False, "retries": 0}


@contextmanager
def running(given: ClientContext, workload: type[Workload] = LogWorkload) -> Iterator[None]:
    """The workload in a thread of its own while the body runs; its exception comes out here."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            workload().run(given)
        except BaseException as failure:  # noqa: BLE001 - raised in the test's thread
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        given.stop.set()
        thread.join(60)
        assert not thread.is_alive()
    if failures:
        raise failures[0]


def sent(at_least: int, outcome: Outcome | None = Outcome.OK) -> Callable[[MemoryRecorder], bool]:
    return lambda recorder: len(recorder.sends(outcome)) >= at_least


def readers(recorder: MemoryRecorder) -> set[tuple[str, int]]:
    return {(op.client, p) for op in recorder.of(OpKind.POLL) if op.reads for p in op.reads.partitions}


def assert_positions_grow(recorder: MemoryRecorder) -> None:
    position: dict[tuple[int, str, int], int] = {}
    for op in recorder.of(OpKind.POLL):
        if op.reads:
            for topic, partition, offset in zip(*op.reads[:3], strict=True):
                assert offset > position.get((op.process, topic, partition), -1)
                position[op.process, topic, partition] = offset
