"""What `krash protections catch` does alike for simulated and for real clusters: which protections, the table's files.

    chosen(only, DEFECTS)                        # UsageError for a name that there is not
    write_table(out, replace(kept_table(out), rows=...))

Each of the two halves keeps the other's as it stands in protections.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.errors import UsageError
from harness.simulated.defects import DEFECTS
from nodes.reference.protections import Protection
from reports.protections import Row, Table

FILE: Final = "tries.jsonl"


class Entry(Protocol):
    @property
    def protection(self) -> Protection: ...


E = TypeVar("E", bound=Entry)


def chosen(only: Sequence[str], entries: Sequence[E]) -> list[E]:
    """Those that were named, or all. UsageError for a name that there is not."""
    known = {one.protection.value: one for one in entries}
    if unknown := [name for name in only if name not in known]:
        raise UsageError(f"no entry in the table: {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in only] if only else list(entries)


def first_witness(run_dir: Path, anomalies: pa.Table, kind: str | None) -> int | None:
    """When the first op was invoked that a finding of a kind names, ns of the run's clock; None if none names any."""
    named = pc.list_flatten(anomalies.filter(pc.field("type") == kind)["ops"])
    ops = pq.read_table(run_dir / "history" / "ops", columns=["op", "invoked_ns"])
    first: int | None = pc.min(ops.filter(pc.is_in(ops["op"], value_set=pc.unique(named)))["invoked_ns"]).as_py()
    return first


def stated(table: Table) -> list[Row]:
    """A row for each protection, in the order of the table, with what is known of it already."""
    rows = []
    for defect in DEFECTS:
        words = {
            "protection": defect.protection.value,
            "source": defect.protection.source,
            "without": defect.protection.without,
            "anomaly": defect.anomaly,
            "faults": defect.faults,
        }
        known = table.of(defect.protection.value)
        rows.append(replace(known, **words) if known else Row(**words))
    return rows


def kept_table(out: Path) -> Table:
    """What stands in a folder's protections.json; an empty one where there is none, or one of another format."""
    try:
        return Table.of_json((out / "protections.json").read_text())
    except (OSError, ValueError, KeyError, TypeError):
        return Table()


def write_table(out: Path, table: Table) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "protections.md").write_text(table.page())
    (out / "protections.json").write_text(table.as_json())
