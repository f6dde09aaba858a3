"""Stories with one defect, and their lawful neighbours: collected by decorator, judged in one job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.harness.checker.stories import Story

Make = Callable[[str], Story]


@dataclass
class Registry:
    defects: dict[str, tuple[Make, dict[str, int]]] = field(default_factory=dict)
    fine: dict[str, Make] = field(default_factory=dict)

    def defect(self, **expected: int) -> Callable[[Make], Make]:
        """Anomaly type (underscores for hyphens) -> how many violations."""

        def register(make: Make) -> Make:
            self.defects[make.__name__] = (make, {name.replace("_", "-"): count for name, count in expected.items()})
            return make

        return register

    def lawful(self, make: Make) -> Make:
        self.fine[make.__name__] = make
        return make

    def stories(self) -> list[Story]:
        """Each as a run of its own, named after its function."""
        made = {name: make for name, (make, _) in self.defects.items()} | self.fine
        return [make(name) for name, make in made.items()]
