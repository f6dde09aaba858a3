"""Which transaction of a Kafka history must come before which, from offsets and unique values: arrays in, a graph out.

Every send and poll outside a transaction is a transaction of its own. The *version order* of a log is its records by offset;
offsets without a known record are gaps in it, which are stepped over.

    WR    wrote a record -> read it
    WW    wrote a record -> wrote the next one of its log
    RW    read a log up to a record, and no further -> wrote the next one

Kafka promises that a reader with read_committed comes after what it reads (WR). It does not promise that transactions do not
write between each other's records (WW), nor that a poll returns all there is (RW). So there are two graphs: one with WR and the orders
in time, in which every cycle contradicts Kafka, and one with everything.

A transaction of unknown outcome takes part if somebody read a record of it. Where two values were seen at one offset, the
version is the one with the lowest key: any choice would do, but it must not depend on the order of rows.

Source: `graph` of jepsen.tests.kafka (where RW is described and left out); Adya 1999.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.checker.serializability.graph import RW, WR, WW, Edges, Graph, process_edges, realtime_edges

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

UNPLACED = -1


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Records that were sent or read, one place per row in each column, in any order."""

    unit: Int64s  # the transaction
    write: Bools
    happened: Bools  # False: a send that counts only if its record was read, or a poll that shows offsets only
    key: Int64s  # of log and value
    log: Int64s
    offset: Int64s  # UNPLACED: not known
    process: Int64s  # of the unit
    invoked: Int64s  # of the unit
    completed: Int64s  # of the unit; OPEN: nobody knows


@dataclass(frozen=True, kw_only=True)
class Dependencies:
    units: Int64s  # by node of the graphs
    reads: Graph  # WR and orders in time
    everything: Graph


def dependencies(rows: Rows, *, everything: bool = True) -> Dependencies:
    """`item` of a WR, WW or RW edge is a row with the record that it is about. Without `everything`, that graph is the same."""
    seen = np.unique(rows.key[~rows.write & rows.happened])
    takes_part = rows.happened | (rows.write & np.isin(rows.key, seen))
    units, first = _units(rows, takes_part)
    node = np.full(len(rows.unit), -1, np.int64)
    order = np.argsort(units)
    place = np.searchsorted(units[order], rows.unit[takes_part])
    node[takes_part] = order[place]
    writers = np.flatnonzero(rows.write & takes_part)
    writers = writers[np.lexsort((node[writers], rows.key[writers]))]
    writers = writers[_firsts(rows.key[writers])]
    edges = _with_time(rows, units, first)
    read, wrote = _write_read(rows, node, writers)
    edges.extend(node[wrote], node[read], WR, read)
    reads = edges.graph()
    if not everything:
        return Dependencies(units=units, reads=reads, everything=reads)
    versions = _versions(rows, writers)
    known = versions[:, 1] >= 0
    _write_write(edges, rows, node, versions[known])
    _read_write(edges, rows, node, versions[known])
    return Dependencies(units=units, reads=reads, everything=edges.graph())


def _units(rows: Rows, takes_part: Bools) -> tuple[Int64s, Int64s]:
    """Units by when they were invoked, and a row of each: one of the lowest process, where several worked for it."""
    mine = np.flatnonzero(takes_part)
    mine = mine[np.argsort(rows.process[mine], kind="stable")]
    units, first = np.unique(rows.unit[mine], return_index=True)
    first = mine[first]
    order = np.lexsort((units, rows.invoked[first]))
    return units[order], first[order]


def _with_time(rows: Rows, units: Int64s, first: Int64s) -> Edges:
    edges = Edges(len(units))
    happened = np.ones(len(units), bool)
    process_edges(edges, rows.process[first], happened)
    realtime_edges(edges, rows.invoked[first], rows.completed[first], happened)
    return edges


def _write_read(rows: Rows, node: Int64s, writers: Int64s) -> tuple[Int64s, Int64s]:
    """Rows that read, and the rows that wrote what they read; once per pair of transactions."""
    read = np.flatnonzero(~rows.write & (node >= 0))
    wrote = _row_of(rows.key[read], rows.key[writers], writers)
    read, wrote = read[wrote >= 0], wrote[wrote >= 0]
    order = np.lexsort((rows.offset[read], rows.log[read], node[read], node[wrote]))
    read, wrote = read[order], wrote[order]
    pairs = node[wrote] * (node.max(initial=0) + 1) + node[read]
    first = _firsts(pairs)
    return read[first], wrote[first]


def _versions(rows: Rows, writers: Int64s) -> Int64s:
    """One line per known record, by log and offset: a row with its place, and the row that wrote it (-1: nobody knows)."""
    placed = np.flatnonzero(rows.offset != UNPLACED)
    placed = placed[np.lexsort((rows.key[placed], rows.offset[placed], rows.log[placed]))]
    log, offset = rows.log[placed], rows.offset[placed]
    new = np.ones(len(placed), bool)
    new[1:] = (log[1:] != log[:-1]) | (offset[1:] != offset[:-1])
    placed = placed[new]
    return np.stack((placed, _row_of(rows.key[placed], rows.key[writers], writers)), axis=1)


def _write_write(edges: Edges, rows: Rows, node: Int64s, versions: Int64s) -> None:
    before, after = versions[:-1], versions[1:]
    same = rows.log[before[:, 0]] == rows.log[after[:, 0]]
    edges.extend(node[before[same, 1]], node[after[same, 1]], WW, after[same, 0])


def _read_write(edges: Edges, rows: Rows, node: Int64s, versions: Int64s) -> None:
    """From how far each transaction read each log, to who wrote what comes next."""
    read = np.flatnonzero(~rows.write & (node >= 0) & (rows.offset != UNPLACED))
    read = read[np.lexsort((rows.offset[read], rows.log[read], node[read]))]
    last = np.ones(len(read), bool)
    last[:-1] = (node[read][1:] != node[read][:-1]) | (rows.log[read][1:] != rows.log[read][:-1])
    read = read[last]
    number = np.unique(np.concatenate((rows.log[versions[:, 0]], rows.log[read])), return_inverse=True)[1]
    ranks, rank = np.unique(np.concatenate((rows.offset[versions[:, 0]], rows.offset[read])), return_inverse=True)
    place = number * (len(ranks) + 1) + rank
    of_versions, of_reads = place[: len(versions)], place[len(versions) :]
    following = np.searchsorted(of_versions, of_reads, side="right")
    inside = following < len(versions)
    read, following = read[inside], following[inside]
    same = rows.log[versions[following, 0]] == rows.log[read]
    read, following = read[same], following[same]
    edges.extend(node[read], node[versions[following, 1]], RW, versions[following, 0])


def _row_of(keys: Int64s, known: Int64s, rows: Int64s) -> Int64s:
    """For each key the row at the place that it has among the known ones (sorted), or -1."""
    if not len(known):
        return np.full(len(keys), -1, np.int64)
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[place] == keys, rows[place], -1)


def _firsts(values: Int64s) -> Bools:
    """Of sorted values: where a new one begins."""
    first = np.ones(len(values), bool)
    first[1:] = values[1:] != values[:-1]
    return first
