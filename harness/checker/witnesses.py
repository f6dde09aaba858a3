"""Which faults were at work when something went wrong: active at some time of the interval in which it happened, or
over for less than a minute.

The interval of a lost write reaches from when the record was last known to be there to when it was found missing;
faults that began first in it come first, because what happened right after an acknowledgement is more telling than what
happened a minute later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

AFTERMATH_NS = 60_000_000_000
MOST = 8  # faults named per anomaly
_OPEN = np.iinfo(np.int64).max


class Windows:
    """When each fault of one run was active. `faults`: FAULTS rows."""

    def __init__(self, faults: Sequence[Mapping[str, Any]]) -> None:
        struck = sorted(
            (row for row in faults if row["injecting_ns"] is not None),
            key=lambda row: (row["injecting_ns"], row["fault"]),
        )
        self._names = {row["fault"]: f"{row['name']} of {', '.join(row['targets'])}" for row in struck}
        self._ids = np.array([row["fault"] for row in struck], np.int64)
        self._begin = np.array([row["injecting_ns"] for row in struck], np.int64)
        self._end = np.array([_OPEN if row["healed_ns"] is None else row["healed_ns"] for row in struck], np.int64)

    def around(self, since: int | None, until: int | None) -> list[int]:
        """Ids of the faults at work between two times in ns, the most telling first; None: from the start, to the end."""
        first = 0 if since is None else since
        last = _OPEN if until is None else max(until, first)
        active = (self._begin <= last) & (self._end >= first)
        before = (self._end < first) & (self._end >= first - AFTERMATH_NS)
        found = [*self._ids[active].tolist(), *self._ids[before].tolist()[::-1]]
        return found[:MOST]

    def told(self, faults: Sequence[int]) -> str:
        """ " Faults at work: wipe of b1 (fault 4); kill of b2 (fault 5)."; empty for none."""
        if not faults:
            return ""
        names = "; ".join(f"{self._names[fault]} (fault {fault})" for fault in faults[:3])
        more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
        return f" Faults at work: {names}{more}."
