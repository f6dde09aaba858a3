"""Which modules are mutated, and which of their mutants are drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from tests.mutation.mutants import Mutant, mutants_of

_CHECKER = "harness/checker"
PURE = tuple(
    f"{_CHECKER}/{folder}/{name}.py"
    for folder, names in {
        "linearizability": (
            "configurations", "counters", "decide", "encoding", "epochs", "frontier", "kernel", "log", "mutexes",
            "operations", "pieces", "queues", "sets", "shrink", "states", "zones",
        ),
        "serializability": (
            "consistency", "cycles", "decide", "findings", "graph", "history", "kernels", "lists", "registers",
        ),
        "models": (
            "bad_history", "counter", "epoch", "jepsen_rules", "jepsen_sets", "kv", "log", "mutex", "objects", "queue",
            "register", "registry", "rules", "sets", "transactions", "values",
        ),
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
    mutants = [one for module in modules for one in mutants_of(module, (root / module).read_text(), sql=sql)]
    return sorted(mutants, key=lambda one: hashlib.sha256(f"{SEED} {one.name}".encode()).digest())[:count]

