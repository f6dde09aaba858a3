"""Which records were lost, in a line per partition: from the checker's own rows, all of them, not only the witnesses.

Loss(topic="t", partition=0, count=200, first=0, last=199, first_value="t/0/0", last_value="t/0/199", clients=("w1.p0",))
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reports.exchange import json_object
from reports.scan import History, rows
from reports.wording import VALUE_LIMIT

PARTITION_LIMIT = 30
CLIENT_LIMIT = 8
KINDS = ("lost-write", "read-then-vanished")


@dataclass(frozen=True, kw_only=True)
class Loss:
    kind: str  # anomaly type
    topic: str
    partition: int
    count: int
    first: int | None  # lowest and highest offset
    last: int | None
    first_value: str | None
    last_value: str | None
    clients: tuple[str, ...]  # who had sent (or read) them


def losses(anomalies: History) -> tuple[Loss, ...]:
    """`anomalies`: a folder that holds `anomalies/*.parquet`."""
    found: dict[tuple[str, str, int], Loss] = {}
    columns = ["type", "severity", "topic", "partition", "offset", "value", "detail"]
    for batch in anomalies.batches("anomalies", columns):
        lost = pc.and_(
            pc.equal(batch.column("severity"), "violation"), pc.is_in(batch.column("type"), value_set=pa.array(KINDS))
        )
        for row in rows(batch.filter(pc.fill_null(lost, False))):
            if row["topic"] is None or row["partition"] is None:
                continue
            key = (row["type"], row["topic"], row["partition"])
            if key in found or len(found) < PARTITION_LIMIT:
                found[key] = _with(found.get(key), row)
    return tuple(found[key] for key in sorted(found))


def _with(known: Loss | None, row: dict[str, Any]) -> Loss:
    value = None if row["value"] is None else row["value"][: VALUE_LIMIT + 1]
    who = json_object(row["detail"]).get("client")
    clients = (who,) if isinstance(who, str) else ()
    if known is None:
        return Loss(
            kind=row["type"],
            topic=row["topic"],
            partition=row["partition"],
            count=1,
            first=row["offset"],
            last=row["offset"],
            first_value=value,
            last_value=value,
            clients=clients,
        )
    known = replace(known, count=known.count + 1, clients=_joined(known.clients, clients))
    if row["offset"] is None:
        return known
    if known.first is None or row["offset"] < known.first:
        known = replace(known, first=row["offset"], first_value=value)
    if known.last is None or row["offset"] > known.last:
        known = replace(known, last=row["offset"], last_value=value)
    return known


def _joined(known: tuple[str, ...], more: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*known, *more)))[:CLIENT_LIMIT]
