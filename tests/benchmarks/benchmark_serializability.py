"""How fast transactions are judged, in processor time of one core, from paired operations to the verdict.

Goals: 10^5 transactions on lists in 4 s (Elle on this kind of machine: 16 to 19 s), on registers likewise; graphs of 10^7
edges. `python -m pytest tests/benchmarks/benchmark_serializability.py -m benchmark -s`
"""

from __future__ import annotations

import random
import resource
import time

import numpy as np
import pytest

from harness.checker.models.model import Question
from harness.checker.serializability.cycles import cycles
from harness.checker.serializability.graph import RW, WR, WW, Edges, realtime_edges
from harness.history.formats.pairing import Paired
from reports.verdict import Validity
from tests.harness.checker.serializability.agreement import model_of
from tests.harness.checker.serializability.bulk import bulk

pytestmark = pytest.mark.benchmark

ELLE = 16.0  # seconds, 10^5 transactions


def judged(write: str, history: Paired) -> tuple[Validity, float]:
    began = time.process_time()
    verdict = model_of(write).judge(history, Question()).verdict
    return verdict, time.process_time() - began


def told(what: str, seconds: float, rest: str = "") -> None:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\n{what}: {seconds:.2f} s{rest}; the process had {most:.1f} GiB at most")


@pytest.fixture(autouse=True)
def _compiled() -> None:
    for write in ("append", "w"):
        judged(write, bulk(write, 100))


@pytest.mark.parametrize("write", ["append", "w"])
@pytest.mark.parametrize("clients", [5, 50, 200])
def test_sound_histories(write: str, clients: int) -> None:
    count = 10**5
    verdict, seconds = judged(write, bulk(write, count, clients))
    told(f"{write}, {clients} clients, 10^5 transactions", seconds, f", {ELLE / seconds:.0f} times as fast as Elle")
    assert verdict == Validity.VALID
    assert seconds < 4


@pytest.mark.parametrize("write", ["append", "w"])
def test_a_million(write: str) -> None:
    verdict, seconds = judged(write, bulk(write, 10**6))
    told(f"{write}, 10^6 transactions", seconds)
    assert verdict == Validity.VALID


@pytest.mark.parametrize("write", ["append", "w"])
def test_one_cycle_through_everything(write: str) -> None:
    """Serializable, but in no order of time: the worst case, where nothing can be put aside."""
    history = bulk(write, 10**5)
    places = list(range(len(history.operations)))
    random.Random(1).shuffle(places)
    moved = [o._replace(invoked=2 * p, completed=2 * p + 1) for o, p in zip(history.operations, places, strict=True)]
    moved.sort(key=lambda one: one.invoked)
    verdict, seconds = judged(write, Paired(operations=moved))
    told(f"{write}, 10^5 transactions shuffled in time", seconds)
    assert verdict == Validity.INVALID


@pytest.mark.parametrize("contradiction", [False, True])
def test_ten_million_edges(contradiction: bool) -> None:
    transactions, count = 3 * 10**6, 10**7
    rng = np.random.default_rng(1)
    source = rng.integers(0, transactions - 1000, count)
    target = source + rng.integers(1, 1000, count)
    if contradiction:
        source[-1], target[-1] = transactions - 1, 0
    edges = Edges(transactions)
    for kind, part in enumerate(np.array_split(np.arange(count), 3)):
        edges.extend(source[part], target[part], (WW, WR, RW)[kind], 0)
    begun = 10 * np.arange(transactions)
    realtime_edges(edges, begun, begun + 50, np.ones(transactions, bool))
    graph = edges.graph()
    del source, target, edges
    began = time.process_time()
    found = cycles(graph)
    seconds = time.process_time() - began
    told(f"{len(graph.source) / 1e6:.0f} million edges, contradiction: {contradiction}", seconds)
    assert bool(found) is contradiction
