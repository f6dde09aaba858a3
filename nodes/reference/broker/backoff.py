"""How long to wait before asking again: longer each time, and not at the same moment as everybody else (KIP-580).

backoff = Backoff(environment.random, 100 * MILLISECOND, 3 * SECOND)
backoff.next()        about 100 ms; then about 200 ms, 400 ms ...; never more than 3 s
backoff.reset()       it has worked
"""

from __future__ import annotations

from random import Random
from typing import Final

_JITTER: Final = 5  # up to a fifth is taken off


class Backoff:
    """Times in ns."""

    def __init__(self, random: Random, first: int, most: int) -> None:
        self._random = random
        self._first = first
        self._most = most
        self._tries = 0

    def next(self) -> int:
        longest = min(self._first << self._tries, self._most)
        self._tries += longest < self._most
        return longest - self._random.randint(0, longest // _JITTER)

    def reset(self) -> None:
        self._tries = 0
