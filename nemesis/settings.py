"""The `nemesis:` section of a spec: which faults, on whom, and when. Three forms, of which at most one is written:

    mix:                                  random faults, one at a time, with quiet between them
      faults: [kill, pause, partition-bridge, {fault: wipe, target: leader of log-0, keep_meta: true}]
      interval: 8s                        from the start of one fault to the start of the next; drawn between half and one and a half
      duration: [2s, 6s]                  how long each stays, drawn
      quiet: 5s                           at least so long nothing is broken after each
      start_after: 3s
      overlap: false                      true: faults that take no data may overlap

    script:                               each step at its time, or when something was observed
      - {at: 5s, fault: kill, target: leader of log-0, for: 4s}
      - {when: {leader_changed: log-0}, delay: 1s, fault: pause, target: active controller, for: 3s}

    once: {fault: partition, shape: halves, at: 10s, for: 8s}

A name of a fault is a registered kind (`kill`), or a partition with its shape (`partition-halves`). Whatever else is written beside `fault`
and `target` are settings of that kind. A step that has neither `for` nor `until` stays until the faults end.

What `when` and `until` may say is in nemesis/when.py.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from nemesis.durations import Seconds
from nemesis.kinds import UnknownKind, find
from nemesis.partitions import Shape
from nemesis.targets import UnknownRule, parse
from nemesis.when import Seen, When


def _span(value: object) -> object:
    return [value, value] if isinstance(value, int | float | str) else value


Span = Annotated[tuple[Seconds, Seconds], BeforeValidator(_span)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class FaultChoice(BaseModel):
    """One fault that may happen: its kind, whom it hits, and the kind's own settings."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)

    fault: str = Field(description="a kind of fault, e.g. kill, pause, partition, partition-halves, wipe")
    target: str | None = Field(
        None, description="whom it hits, e.g. b1, random broker, leader of log-0; drawn when left out"
    )

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        given = {"fault": value} if isinstance(value, str) else dict(value)
        name = given.get("fault")
        shape = name.removeprefix("partition-") if isinstance(name, str) else ""
        return {**given, "fault": "partition", "shape": shape} if name != shape and shape in list(Shape) else given

    @model_validator(mode="after")
    def _known(self) -> Self:
        try:
            kind = find(self.fault)
            settled = kind.Settings.model_validate(self.model_extra or {})
            if self.target is not None:
                parse(self.target)
        except UnknownKind as unknown:
            shapes = ", ".join(f"partition-{shape}" for shape in Shape)
            raise ValueError(f"{unknown}, {shapes}") from None
        except UnknownRule as unknown:
            raise ValueError(str(unknown)) from None
        except ValidationError as invalid:
            raise ValueError(_in_words(self.fault, kind.Settings, invalid)) from None
        self.__pydantic_extra__ = settled.model_dump(mode="json", exclude_unset=True)
        return self

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


def _in_words(fault: str, settings: type[BaseModel], invalid: ValidationError) -> str:
    wrong = []
    for error in invalid.errors():
        where = ".".join(str(part) for part in error["loc"])
        if error["type"] == "extra_forbidden":
            wrong.append(f"{fault} has no setting {where!r}; it has {', '.join(settings.model_fields) or 'none'}")
        else:
            wrong.append(f"{where} of {fault} is {error['input']!r}: {error['msg']}")
    return "; ".join(wrong)


class Step(FaultChoice):
    at: Seconds | None = Field(None, description="time from the start of the faults")
    when: When | None = Field(None, description="what must have been observed")
    delay: Seconds = Field(0.0, description="wait so long after `when` held")
    for_: Seconds | None = Field(None, alias="for", description="heal after so long")
    until: When | None = Field(None, description="heal when this was observed")
    as_: str | None = Field(
        None, alias="as", pattern=r"^[a-z][a-z0-9-]*$", description="a name for other steps' `when`"
    )

    @model_validator(mode="after")
    def _timed(self) -> Self:
        if (self.at is None) == (self.when is None):
            raise ValueError("a step takes either `at` (5s) or `when` ({leader_changed: log-0})")
        return self


class Mix(_Section):
    faults: list[FaultChoice] = Field(
        min_length=1, description="each round has every one of them once, in random order"
    )
    interval: Seconds = Field(8.0, gt=0, description="from the start of one fault to the start of the next, on average")
    duration: Span = Field((2.0, 6.0), description="how long a fault stays: shortest and longest")
    quiet: Seconds = Field(5.0, description="nothing is broken for at least so long after each fault")
    start_after: Seconds = Field(3.0, description="nothing is broken before")
    overlap: bool = Field(False, description="faults that take no data may overlap")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.duration[0] > self.duration[1]:
            raise ValueError(f"duration is [shortest, longest], not {list(self.duration)}")
        return self


class NemesisSettings(_Section):
    mix: Mix | None = Field(None, description="random faults, with quiet between them")
    script: list[Step] | None = Field(
        None, description="steps, each at its time or when something was observed; see `once`"
    )
    once: Step | None = Field(None, description="a single step")
    safe: bool = Field(
        True,
        description="take a disk only while every isr without it has min.insync.replicas members and nothing else is broken",
    )
    prove_within: Seconds = Field(20.0, gt=0, description="how long the effect of a fault may take to show")
    recover_within: Seconds = Field(
        120.0, gt=0, description="how long a node may take to be of use again after its fault"
    )

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if sum(form is not None for form in (self.mix, self.script, self.once)) > 1:
            raise ValueError("takes one of mix, script and once")
        self._check_references()
        return self

    def _check_references(self) -> None:
        steps = self.steps
        names = [step.as_ for step in steps if step.as_ is not None]
        if len(set(names)) != len(names):
            raise ValueError(f"two steps have the same `as`: {', '.join(names)}")
        for number, step in enumerate(steps):
            for when in (step.when, step.until):
                references = [name for part in (when.parts() if when else ()) for name in (part.after, part.healed)]
                for reference in references:
                    if reference is not None and reference not in (*names, *range(len(steps))):
                        raise ValueError(
                            f"step {number} waits for step {reference!r}; there are 0 to {len(steps) - 1}"
                            + (f" and {', '.join(names)}" if names else "")
                        )

    @property
    def watched(self) -> list[Seen]:
        """Messages that triggers wait for."""
        whens = [when for step in self.steps for when in (step.when, step.until) if when is not None]
        return [part.message for when in whens for part in when.parts() if part.message is not None]

    @property
    def steps(self) -> list[Step]:
        return [self.once] if self.once else list(self.script or [])


def from_names(names: str) -> NemesisSettings:
    """What `--nemesis kill,partition` means: a mix of these with defaults. "" and "none": nothing is broken.

    Raises pydantic.ValidationError, whose message lists the known names.
    """
    faults = [name.strip() for name in names.split(",") if name.strip()]
    if faults in ([], ["none"]):
        return NemesisSettings()
    return NemesisSettings(mix=Mix.model_validate({"faults": faults}))
