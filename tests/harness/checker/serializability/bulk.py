"""Long strictly serializable histories, made fast: transactions take effect one after the other inside their intervals."""

from __future__ import annotations

import random
from typing import Any

from harness.history.formats.pairing import Paired
from tests.harness.checker.serializability.worlds import READ, operation
from workloads.op import Outcome

PER_KEY = 32  # writes, as in Jepsen's workloads; then a new key takes its place
LIVE = 10


def bulk(write: str, count: int, clients: int = 10, lost: float = 0.01, failed: float = 0.05) -> Paired:
    """`lost`: share of unknown outcomes; `failed` of those that do not happen.

    Of the up to four micro-operations of a transaction half are reads.
    """
    rng = random.Random(count)
    state: dict[int, Any] = {}
    keys, written = list(range(LIVE)), [0] * LIVE
    free = [0] * clients
    value = 0
    effects = []
    for number in range(count):
        client = number % clients
        effect = max(10 * number + rng.randint(0, 3), free[client] + 1)
        invoked = max(free[client] + 1, effect - rng.randint(0, 10 * clients))
        free[client] = effect + rng.randint(0, 10 * clients)
        effects.append((effect, invoked, free[client], client))
    operations = []
    for effect in sorted(effects):
        micros = []
        fails = rng.random() < failed
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(LIVE)
            key = keys[place]
            if rng.random() < 0.5:
                micros.append((READ, key, state.get(key, () if write == "append" else None)))
                continue
            value += 1
            if fails:
                micros.append((write, key, value))
                continue
            state[key] = (*state.get(key, ()), value) if write == "append" else value
            micros.append((write, key, value))
            written[place] += 1
            if written[place] == PER_KEY:
                keys[place], written[place] = value + LIVE, 0
        unknown = not fails and rng.random() < lost
        _, invoked, completed, client = effect
        at = (invoked, None if unknown else completed)
        outcome = Outcome.FAIL if fails else Outcome.INFO if unknown else Outcome.OK
        operations.append(operation(0, tuple(micros), process=client, at=at, outcome=outcome))
    operations.sort(key=lambda one: one.invoked)
    return Paired(operations=[one._replace(index=index) for index, one in enumerate(operations)])
