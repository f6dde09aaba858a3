"""The `checks:` section of a spec: what is looked for, and what is accepted."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator

from harness.checker.anomalies import BY_NAME, STALE_END

DEFAULT = [name for name in BY_NAME if name != STALE_END.name]


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: list[str] = Field(DEFAULT, description="Anomaly types to look for; all but stale-end-offset by default.")
    tolerate: list[str] = Field(
        default_factory=list, description="Anomaly types that are shown but do not make a run invalid."
    )
    unavailable_bound: float | None = Field(
        None, gt=0, description="Seconds within which every partition must take writes after a fault; null: no bound."
    )

    @field_validator("enabled", "tolerate")
    @classmethod
    def _known(cls, names: list[str]) -> list[str]:
        for name in names:
            if name not in BY_NAME:
                raise ValueError(f"{name!r} is no anomaly type; there are {', '.join(BY_NAME)}")
        return names
