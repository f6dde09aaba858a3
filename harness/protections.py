"""`krash protections`: what of the reference cluster can be switched off, where it comes from, and what goes wrong without it."""

from __future__ import annotations

import json

from rich.console import Console
from rich.table import Table

from nodes.reference.protections import Protection


def list_protections(*, as_json: bool) -> int:
    if as_json:
        for one in Protection:
            print(json.dumps({"name": one.value, "source": one.source, "without": one.without}))
        return 0
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("protection", no_wrap=True)
    table.add_column("from", ratio=1)
    table.add_column("without it", ratio=2)
    for one in Protection:
        table.add_row(one.value, one.source, one.without)
    Console(highlight=False).print(table)
    return 0
