"""What to send next, and when: the choices of a sender, drawn so that the same seed gives the same plan.

Choices are drawn in blocks, one recorded draw for 1024 records: `choices.jsonl` stays small, and the n-th record of a
sender goes to the same partition in every run of a seed, however the brokers behaved. How many records of the plan get
sent before the time is up is what the brokers decide. A sender draws all its blocks from one substream, one after the
other, so that nothing grows with the length of a run.
"""

from __future__ import annotations

import random

BLOCK = 1024


class PartitionChoices:
    """An endless sequence of indexes into the partitions of a run: `take(3)` -> `[0, 3, 1]`."""

    def __init__(self, stream: random.Random, partitions: int) -> None:
        self._stream, self._partitions = stream, range(partitions)
        self._ahead: list[int] = []

    def take(self, count: int) -> list[int]:
        while len(self._ahead) < count:
            self._ahead += self._stream.choices(self._partitions, k=BLOCK)
        taken, self._ahead = self._ahead[:count], self._ahead[count:]
        return taken


class Pace:
    """An open loop: records fall due at a fixed rate, whether earlier ones were answered or not.

    What could not be sent (nothing free, a broker silent) is caught up on, but never more than `catch_up_s` seconds of
    it: after a long silence the sender goes on at its rate instead of flooding a cluster that has just come back.
    """

    def __init__(self, rate: float | None, start_s: float, *, catch_up_s: float = 1.0) -> None:
        self._rate, self._catch_up_s = rate, catch_up_s
        self._origin_s, self._sent = start_s, 0

    def due(self, now_s: float, limit: int) -> int:
        """How many records to send now, at most `limit`."""
        if self._rate is None:
            return limit
        owed = int((now_s - self._origin_s) * self._rate) - self._sent
        most = max(1, int(self._rate * self._catch_up_s))
        if owed > most:
            self._origin_s += (owed - most) / self._rate
            owed = most
        return max(0, min(owed, limit))

    def sent(self, count: int) -> None:
        self._sent += count

    def wait_s(self, now_s: float) -> float:
        """Seconds until the next record falls due; 0 when one is due or there is no rate."""
        if self._rate is None:
            return 0.0
        return max(0.0, self._origin_s + (self._sent + 1) / self._rate - now_s)
