"""Making one fault for a test."""

from __future__ import annotations

import random
from typing import Any

from nemesis.kinds import FaultKind, Order, find
from nemesis.targets import parse
from tests.nemesis.fake import FakeCluster


def make(
    kind: str,
    target: str,
    on: FakeCluster,
    *,
    draw: int = 7,
    safe: bool = True,
    others: tuple[int, ...] = (),
    **settings: Any,
) -> FaultKind:
    found = find(kind)
    settled = found.settle(found.Settings.model_validate(settings), on.topology, random.Random(draw))
    order = Order(
        fault=1, rule=parse(target), settings=settled, draw=draw, safe=safe, others=others, prove_s=5, recover_s=20
    )
    return found(order)
