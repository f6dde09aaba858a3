"""A cluster whose connections may pass a wire gate: what faults and races act on (`nemesis.stage.Stage`).

`nodes` knows nothing of the gate; this is all that joins the two. `gate` is None in runs without one.
"""

from __future__ import annotations

from dataclasses import dataclass

from nemesis.wire.gate import Gate
from nodes.cluster import Cluster


@dataclass(kw_only=True)
class WiredCluster(Cluster):
    gate: Gate | None = None
