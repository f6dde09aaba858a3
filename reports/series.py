"""Rates, latencies and outcomes over time, from the ops table, in one pass and constant memory.

Time is cut into at most 300 equal buckets of a round width. Rates are sums per bucket. Latencies go into a histogram
whose bins grow by 3 %, so that any quantile of 10^7 ops costs a few hundred kilobytes and is off by at most 1.5 %;
quantiles are shown per group of four buckets, because a p99 of twenty numbers is only their maximum.

An op counts where it completed; one that never completed counts where it was invoked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reports.scan import Codes, History
from workloads.op import OpKind, Outcome

BUCKET_LIMIT = 300
BUCKETS_PER_QUANTILE = 4
CLIENT_LANES = 12
OUTCOMES = tuple(Outcome)
QUANTILES = (0.5, 0.95, 0.99)
_WIDTHS_S = (0.05, 0.1, 0.2, 0.25, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)

_FLOOR_NS = 1_000.0  # shortest latency told apart: 1 µs
_GROWTH = math.log(1.03)
_BINS = math.ceil(math.log(3.6e12 / _FLOOR_NS) / _GROWTH) + 1  # up to an hour


@dataclass(frozen=True, kw_only=True)
class Buckets:
    """`count` intervals of `width_s` seconds, from the start of the run."""

    zero_ns: int
    width_s: float
    count: int

    @classmethod
    def over(cls, zero_ns: int, seconds: float) -> Buckets:
        width = next((w for w in _WIDTHS_S if seconds <= w * BUCKET_LIMIT), seconds / BUCKET_LIMIT)
        return cls(zero_ns=zero_ns, width_s=width, count=max(1, min(BUCKET_LIMIT, math.ceil(seconds / width))))

    def of(self, ns: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        places = np.floor((ns - self.zero_ns) / (self.width_s * 1e9))
        return np.clip(places, 0, self.count - 1).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """Latency in seconds at p50, p95, p99, and the largest seen (to 1.5 %)."""

    count: int
    p50: float
    p95: float
    p99: float
    largest: float


@dataclass(frozen=True, kw_only=True)
class ClientLane:
    """What one client did: per outcome and bucket, records moved (an op that failed or stayed unknown counts as one
    at least).
    """

    client: str
    ok: tuple[float, ...]
    fail: tuple[float, ...]
    info: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class ErrorCount:
    kind: str
    outcome: str
    error: str
    ops: int


@dataclass(frozen=True, kw_only=True)
class Activity:
    """What clients did over time. The rates are records per second, one number per bucket."""

    buckets: Buckets
    acknowledged: tuple[float, ...] = ()
    failed: tuple[float, ...] = ()
    unknown: tuple[float, ...] = ()
    read: tuple[float, ...] = ()
    send_latency: tuple[
        Quantiles | None, ...
    ] = ()  # one per BUCKETS_PER_QUANTILE buckets; None: nothing was acknowledged then
    sends: Quantiles | None = None
    polls: Quantiles | None = None
    clients: tuple[ClientLane, ...] = ()
    clients_left_out: int = 0
    errors: tuple[ErrorCount, ...] = ()
    ops: int = 0


_COLUMNS = ("client", "kind", "invoked_ns", "completed_ns", "outcome", "error", "count")
_NAMES = ("client", "kind", "outcome", "error")


def span_of_ops(history: History) -> tuple[int, int] | None:
    """Earliest invocation and latest completion (or invocation), in ns; None without ops."""
    first: list[int] = []
    last: list[int] = []
    for batch in history.batches("ops", ["invoked_ns", "completed_ns"]):
        invoked, completed = pc.min_max(batch.column(0)), pc.min_max(batch.column(1))
        first += [t for t in (invoked["min"].as_py(),) if t is not None]
        last += [t for t in (invoked["max"].as_py(), completed["max"].as_py()) if t is not None]
    return (min(first), max(last)) if first else None


def activity(history: History, buckets: Buckets) -> Activity:
    sums = _Sums(buckets)
    for batch in history.batches("ops", _COLUMNS, dictionary=_NAMES):
        sums.add(batch)
    return sums.result()


@dataclass
class _Sums:
    buckets: Buckets
    clients: Codes = field(default_factory=lambda: Codes(limit=512))
    kinds: Codes = field(default_factory=lambda: Codes(limit=32))
    outcomes: Codes = field(default_factory=lambda: Codes(limit=32))
    errors: Codes = field(default_factory=lambda: Codes(limit=512))
    ops: int = 0

    def __post_init__(self) -> None:
        count = self.buckets.count
        self.rates = {name: np.zeros(count) for name in ("acknowledged", "failed", "unknown", "read")}
        self.latency = {kind: np.zeros((count, _BINS), dtype=np.int64) for kind in (OpKind.SEND, OpKind.POLL)}
        self.lanes = np.zeros((self.clients.limit, len(OUTCOMES), count))
        self.tally: dict[tuple[int, int, int], int] = {}
        for kind in OpKind:
            self.kinds.number(kind)
        for outcome in OUTCOMES:
            self.outcomes.number(outcome)

    def add(self, batch: pa.RecordBatch) -> None:
        client, kind, outcome, error = (
            codes.encode(batch.column(name))
            for codes, name in (
                (self.clients, "client"),
                (self.kinds, "kind"),
                (self.outcomes, "outcome"),
                (self.errors, "error"),
            )
        )
        invoked = _numbers(batch.column("invoked_ns"))
        completed = _numbers(batch.column("completed_ns"))
        bucket = self.buckets.of(np.where(np.isnan(completed), invoked, completed))
        records = np.nan_to_num(_numbers(batch.column("count")))
        self.ops += batch.num_rows
        self._add_rates(kind, outcome, bucket, records)
        self._add_latencies(kind, outcome, bucket, completed - invoked, records)
        self._add_lanes(client, outcome, bucket, records)
        self._add_errors(kind, outcome, error)

    def _add_rates(
        self,
        kind: npt.NDArray[np.int64],
        outcome: npt.NDArray[np.int64],
        bucket: npt.NDArray[np.int64],
        records: npt.NDArray[np.float64],
    ) -> None:
        ok, fail, info = (self.outcomes.number(o) for o in OUTCOMES)
        send, poll = self.kinds.number(OpKind.SEND), self.kinds.number(OpKind.POLL)
        for name, wanted_kind, wanted in (
            ("acknowledged", send, ok),
            ("failed", send, fail),
            ("unknown", send, info),
            ("read", poll, ok),
        ):
            chosen = (kind == wanted_kind) & (outcome == wanted)
            self.rates[name] += np.bincount(bucket[chosen], records[chosen], self.buckets.count)

    def _add_latencies(
        self,
        kind: npt.NDArray[np.int64],
        outcome: npt.NDArray[np.int64],
        bucket: npt.NDArray[np.int64],
        latency: npt.NDArray[np.float64],
        records: npt.NDArray[np.float64],
    ) -> None:
        """Only ops that moved a record: an empty poll lasts as long as its timeout says."""
        moved = (outcome == self.outcomes.number(Outcome.OK)) & (records > 0) & ~np.isnan(latency)
        for wanted, histogram in self.latency.items():
            chosen = moved & (kind == self.kinds.number(wanted))
            places = np.floor(np.log(np.maximum(latency[chosen], _FLOOR_NS) / _FLOOR_NS) / _GROWTH)
            places = np.minimum(places, _BINS - 1).astype(np.int64)
            histogram += np.bincount(bucket[chosen] * _BINS + places, minlength=histogram.size).reshape(histogram.shape)

    def _add_lanes(
        self,
        client: npt.NDArray[np.int64],
        outcome: npt.NDArray[np.int64],
        bucket: npt.NDArray[np.int64],
        records: npt.NDArray[np.float64],
    ) -> None:
        known = (outcome >= 0) & (outcome < len(OUTCOMES)) & (client >= 0)
        weight = np.where(outcome == 0, records, np.maximum(records, 1))
        place = (client * len(OUTCOMES) + outcome) * self.buckets.count + bucket
        self.lanes += np.bincount(place[known], weight[known], self.lanes.size).reshape(self.lanes.shape)

    def _add_errors(
        self, kind: npt.NDArray[np.int64], outcome: npt.NDArray[np.int64], error: npt.NDArray[np.int64]
    ) -> None:
        named = error >= 0
        if not named.any():
            return
        keys, counts = np.unique(np.stack([kind[named], outcome[named], error[named]]), axis=1, return_counts=True)
        for key, count in zip(keys.T.tolist(), counts.tolist(), strict=True):
            self.tally[(key[0], key[1], key[2])] = self.tally.get((key[0], key[1], key[2]), 0) + count

    def result(self) -> Activity:
        grouped = _grouped(self.latency[OpKind.SEND])
        busiest = sorted(range(len(self.clients.names)), key=lambda c: -self.lanes[c].sum())[:CLIENT_LANES]
        shown = sorted(busiest, key=lambda c: self.clients.names[c])
        tally = sorted(self.tally.items(), key=lambda item: (-item[1], item[0]))
        return Activity(
            buckets=self.buckets,
            **{name: tuple((sums / self.buckets.width_s).tolist()) for name, sums in self.rates.items()},
            send_latency=tuple(_quantiles(bins) for bins in grouped),
            sends=_quantiles(self.latency[OpKind.SEND].sum(axis=0)),
            polls=_quantiles(self.latency[OpKind.POLL].sum(axis=0)),
            clients=tuple(self._lane(client) for client in shown),
            clients_left_out=len(self.clients.names) - len(shown),
            errors=tuple(
                ErrorCount(
                    kind=self.kinds.names[k], outcome=self.outcomes.names[o], error=self.errors.names[e], ops=count
                )
                for (k, o, e), count in tally[:20]
            ),
            ops=self.ops,
        )

    def _lane(self, client: int) -> ClientLane:
        ok, fail, info = (tuple(row) for row in self.lanes[client].tolist())
        return ClientLane(client=self.clients.names[client], ok=ok, fail=fail, info=info)


def _numbers(column: pa.Array) -> npt.NDArray[np.float64]:
    """As floats, NaN where null: exact to 2^53 ns (104 days of uptime), to 2 ns for years after."""
    numbers: npt.NDArray[np.float64] = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return numbers


def _grouped(histogram: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    starts = range(0, len(histogram), BUCKETS_PER_QUANTILE)
    return [histogram[start : start + BUCKETS_PER_QUANTILE].sum(axis=0) for start in starts]


def _quantiles(bins: npt.NDArray[np.int64]) -> Quantiles | None:
    count = int(bins.sum())
    if not count:
        return None
    reached = np.cumsum(bins)
    p50, p95, p99 = (_seconds(int(np.searchsorted(reached, math.ceil(q * count)))) for q in QUANTILES)
    return Quantiles(count=count, p50=p50, p95=p95, p99=p99, largest=_seconds(int(np.flatnonzero(bins)[-1])))


def _seconds(place: int) -> float:
    """The middle of a histogram bin."""
    return _FLOOR_NS * math.exp((place + 0.5) * _GROWTH) / 1e9


def total(rates: Sequence[float], buckets: Buckets) -> int:
    return round(sum(rates) * buckets.width_s)
