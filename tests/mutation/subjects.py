"""Which modules are mutated, and which of their mutants are drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from tests.mutation.mutants import Mutant, changes_something, mutants_of

_CHECKER = "harness/checker"
PURE = tuple(
    f"{_CHECKER}/{folder}/{name}.py"
    for folder, names in {
        "linearizability": (
            "configurations", "counters", "decide", "encoding", "epochs", "frontier", "holes", "kernel", "log",
            "mutexes", "operations", "pieces", "queues", "sets", "shrink", "states", "zones",
        ),
        "serializability": (
            "consistency", "cycles", "decide", "findings", "graph", "history", "kernels", "lists", "registers",
        ),
        "models": (
            "bad_history", "counter", "epoch", "jepsen_orders", "jepsen_rules", "jepsen_sets", "kv", "log", "mutex",
            "objects", "queue", "register", "registry", "rules", "sets", "transactions", "values",
        ),
        "glance": ("carried", "columns", "logs", "plain", "screens", "slices"),
    }.items()
    for name in names
)  # fmt: skip
RELATIONAL = tuple(
    f"{_CHECKER}/{name}.py"
    for name in ("identity", "linearizable", "loss", "polls", "producers", "transactions", "unseen", "vanished")
)
SEED = "krash 1"


def drawn(root: Path, modules: Sequence[str], count: int, *, sql: bool) -> list[Mutant]:
    """`count` of all mutants of the modules, each as likely as any other; the same ones while the code is the same."""
    sources = {module: (root / module).read_text() for module in modules}
    mutants = [one for module, source in sources.items() for one in mutants_of(module, source, sql=sql)]
    mutants.sort(key=lambda one: hashlib.sha256(f"{SEED} {one.name}".encode()).digest())
    return list(islice((one for one in mutants if changes_something(one, sources[one.module])), count))
