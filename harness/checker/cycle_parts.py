"""What Spark's workers do with the transactions of runs that are cut into segments (cycle_segments.py): Arrow in, Arrow out.

In a module that imports nothing but Arrow and NumPy (cycle_rows.py), because executors of a cluster need not have anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.checker.cycle_rows import CYCLES_FOUND, found_rows
from harness.checker.serializability.graph import RW, WR, WW, Edges, process_edges, realtime_edges

__all__ = ["CYCLES_FOUND", "MERGED", "PART", "TRANSACTION", "merge", "segments", "sharing", "sweep_part"]

Int64s = npt.NDArray[np.int64]
Segments = Mapping[str, tuple[Int64s, Int64s]]  # run -> where each begins and ends, ascending, ends included

TRANSACTION = -1  # the kind of a row that is no edge: `source` is the transaction
MERGED = "run string, low long, high long"
PART = (
    "run string, bundle long, source long, target long, kind int, log long, offset long, process long, invoked long, "
    "completed long"
)
_AT_ONCE = 1 << 20


def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Intervals of places in any order -> fewer, that have no point in common, of the same points."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(one.num_rows for one in held) > _AT_ONCE:
            held = _merged(held)
    yield from _merged(held)


def segments(intervals: pa.Table) -> Segments:
    """Of all runs; runs without any are left out."""
    found = {}
    for run in pc.unique(intervals["run"]).to_pylist():
        mine = intervals.filter(pc.equal(intervals["run"], run))
        found[run] = _union(mine["low"].to_numpy(), mine["high"].to_numpy())
    return found


def sharing(segments: Segments, bundles: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Rows of which `place` and `other_place` lie in one segment, with the bundle of that segment; no others."""

    def share(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            runs = batch.column("run").dictionary_encode()
            number = np.full(batch.num_rows, -1, np.int64)
            codes = runs.indices.to_numpy(zero_copy_only=False)
            place, other = (batch.column(name).to_numpy() for name in ("place", "other_place"))
            for code, run in enumerate(runs.dictionary.to_pylist()):
                if run in segments:
                    mine = codes == code
                    one, another = (_segment_of(places[mine], *segments[run]) for places in (place, other))
                    number[mine] = np.where(one == another, one, -1)
            if (number >= 0).any():
                kept = batch.append_column("bundle", pa.array(number % bundles)).filter(pa.array(number >= 0))
                yield kept.select([field.split()[0] for field in PART.split(", ")])

    return share


def sweep_part(table: pa.Table) -> pa.Table:
    """The transactions of some segments of one run, and the edges among them -> their cycles."""
    from harness.checker.serializability.cycles import cycles

    kind, source, target = (table[name].to_numpy() for name in ("kind", "source", "target"))
    whole = np.flatnonzero(kind == TRANSACTION)
    process, invoked, completed = (table[name].to_numpy()[whole] for name in ("process", "invoked", "completed"))
    order = np.lexsort((source[whole], invoked))
    units = source[whole][order]
    edges = Edges(len(units))
    happened = np.ones(len(units), bool)
    process_edges(edges, process[order], happened)
    realtime_edges(edges, invoked[order], completed[order], happened)
    by_unit = np.argsort(units)
    for one in (WR, WW, RW):
        mine = np.flatnonzero(kind == one)
        begins, ends = (by_unit[np.searchsorted(units[by_unit], end[mine])] for end in (source, target))
        edges.extend(begins, ends, one, mine)
    log, offset = (table[name].to_numpy() for name in ("log", "offset"))
    return found_rows(table["run"][0].as_py(), units, log, offset, [(False, one) for one in cycles(edges.graph())])


def _merged(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if not batches:
        return []
    schema = batches[0].schema
    out = []
    for run, (low, high) in segments(pa.Table.from_batches(batches)).items():
        columns = {"run": pa.array([run] * len(low), pa.string()), "low": pa.array(low), "high": pa.array(high)}
        out.append(pa.RecordBatch.from_arrays([columns[name] for name in schema.names], names=schema.names))
    return out


def _union(low: Int64s, high: Int64s) -> tuple[Int64s, Int64s]:
    order = np.argsort(low, kind="stable")
    low, high = low[order], np.maximum.accumulate(high[order])
    new = np.ones(len(low), bool)
    new[1:] = low[1:] > high[:-1]
    return low[new], high[np.append(new[1:], True)]


def _segment_of(places: Int64s, low: Int64s, high: Int64s) -> Int64s:
    """The number of the segment at each place, or -1."""
    number = np.searchsorted(low, places, side="right") - 1
    return np.where((number >= 0) & (places <= high[number]), number, -1)
