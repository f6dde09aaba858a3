"""What was found in one history, by type: how often, and the words for one instance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Finding:
    type: str
    sentence: str
    rows: tuple[int, ...]  # of the history
    count: int = 1


@dataclass
class Findings:
    by_type: dict[str, Finding] = field(default_factory=dict)

    def add(self, type_: str, rows: Sequence[int], sentence: str, count: int = 1) -> None:
        found = self.by_type.get(type_)
        if found is None:
            self.by_type[type_] = Finding(type=type_, sentence=sentence, rows=tuple(rows), count=count)
        else:
            found.count += count
