"""The `checks:` section of a spec: what is looked for, and what is accepted."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator

from harness.checker.anomalies import BY_NAME, TYPES

DEFAULT = [kind.name for kind in TYPES if kind.by_default]


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: list[str] | None = Field(
        None,
        description="Anomaly types to look for; null: all but those that Kafka does not promise, or that only histories of other "
        "tools can have, also when a newer krash that knows more of them judges the run again.",
    )
    tolerate: list[str] = Field(
        default_factory=list, description="Anomaly types that are shown but do not make a run invalid."
    )
    unavailable_bound: float | None = Field(
        None, gt=0, description="Seconds within which every partition must take writes after a fault; null: no bound."
    )

    two_controllers_bound: float = Field(
        5.0,
        gt=0,
        description="Seconds for which a controller may go on claiming to be the active one after another has. With "
        "check-quorum it resigns within 1.5 fetch timeouts (3 s), after which nobody can have been elected for more than 1 s; "
        "the rest is for a busy machine.",
    )
    rejoin_bound: float = Field(
        20.0,
        gt=0,
        description="Seconds within which every replica must be back in its ISR, once all brokers are up and left alone.",
    )

    @field_validator("enabled", "tolerate")
    @classmethod
    def _known(cls, names: list[str] | None) -> list[str] | None:
        for name in names or ():
            if name not in BY_NAME:
                raise ValueError(f"{name!r} is no anomaly type; there are {', '.join(BY_NAME)}")
        return names

    @property
    def wanted(self) -> list[str]:
        """`enabled`, or what is looked for unless a spec says otherwise."""
        return DEFAULT if self.enabled is None else self.enabled
