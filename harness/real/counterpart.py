"""What shows a protection on real processes: an ordinary run, a race, or the reason why there is none.

    Counterpart(protection=Protection.STABLE_OFFSET, anomaly="aborted-read", shown=Run(settings={...}))
    Counterpart(protection=Protection.CHECK_QUORUM, anomaly="two-active-controllers", shown=Played(race="two-controllers"))
    Counterpart(protection=Protection.FSYNC_ON_VOTE, anomaly="two-active-controllers", shown=NotRun(because="..."))

`krash protections catch --real` runs each with the protection off and, as the control, with all of them on. What else a counterpart
switches off (`always_off`) is off in both: a second line of defence is shown without the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from nodes.reference.protections import Protection

RACES: Final = Path(__file__).parent / "races"
PROTECTIONS_OFF: Final = "krash.protections.off"


@dataclass(frozen=True, kw_only=True)
class Run:
    """`settings`: of a spec, as in YAML; `words` say what goes wrong in it."""

    words: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Played:
    """A race: its registered name, or a file of harness/real/races.

    `parameters` are the race's, `config` is for every node, `checks` as in a spec.
    """

    race: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    checks: Mapping[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return str(RACES / self.race) if self.race.endswith(".py") else self.race

    @property
    def words(self) -> str:
        given = [f"{name}={value}" for name, value in self.parameters.items()]
        return f"race {' '.join([self.race.removesuffix('.py').replace('_', '-'), *given])}"


@dataclass(frozen=True, kw_only=True)
class NotRun:
    because: str


@dataclass(frozen=True, kw_only=True)
class Counterpart:
    protection: Protection
    anomaly: str  # type, as in docs/anomalies.md
    shown: Run | Played | NotRun
    always_off: tuple[Protection, ...] = ()

    def off(self, *, off: bool) -> str | None:
        """Value of `krash.protections.off`; None: nothing is off."""
        names = [*self.always_off, *([self.protection] if off else [])]
        return ",".join(one.value for one in names) or None
