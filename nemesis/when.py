"""What a step of a schedule waits for: `when` and `until`, as a person writes them and as a plan keeps them.

    after: followers             the fault of that step (its `as`, or its number from 0) is active
    healed: followers            ... or was healed
    leader_changed: log-0        since just before the fault of `after`, or before the step's own in `until`
    isr_of: log-0, is: 1         so many members; or is: [b1, b2], exactly these; or contains: b2
    fenced: b1                   out of the cluster's metadata
    unfenced: b1
    message: {source: b1, destination: c1, api: AlterPartition, where: newIsr contains 2, nth: 3}
                                 so many frames that match came by, from now on; brings the wire gate with it
    log: {node: b1, matches: Expanding ISR.*}
                                 a line of its log written from now on matches this regular expression
    high_watermark: {of: log-0, passes: 500}
    acknowledged: 500            so many more records were acknowledged
    attempted: 500               so many more operations were begun
    elapsed: 10s                 so long after what stands above held
    all: [...], any: [...], then: [...]
                                 each item is again all of this; at the same time, the first that holds, one after the other

What one mapping names holds in this order, each counted from the moment the one before it held.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from nemesis.durations import Seconds
from nemesis.targets import topic_partition

COMBINED = ("all", "any", "then")
Plain = dict[str, Any]  # a When as a plan keeps it: JSON, steps by number


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Seen(_Section):
    source: str | None = Field(None, description="node that opened the connection, e.g. b1 or b*")
    destination: str | None = Field(None, description="its peer")
    direction: Literal["request", "response"] = Field("request", description="of the connection's two")
    api: str | int | None = Field(None, description="e.g. AlterPartition, or its number")
    client_id: str | None = Field(None, description="of the connection, e.g. broker-2-fetcher-*")
    where: str | None = Field(None, description="what its decoded fields say, e.g. newIsr contains 2")
    nth: int = Field(1, ge=1, description="so many of them")

    @model_validator(mode="after")
    def _readable(self) -> Self:
        from nemesis.wire.apis import KEYS
        from nemesis.wire.predicate import parse

        if isinstance(self.api, str) and self.api not in KEYS:
            near = [name for name in KEYS if self.api.lower() in name.lower()]
            raise ValueError(f"no api {self.api!r}" + (f"; did you mean {', '.join(near)}?" if near else ""))
        if self.where is not None:
            parse(self.where)
        return self


class LogLine(_Section):
    node: str = Field(description="whose log")
    matches: str = Field(description="regular expression, found anywhere in a line")
    file: str = Field("log/server.log", description="which of its files")

    @model_validator(mode="after")
    def _readable(self) -> Self:
        try:
            re.compile(self.matches)
        except re.error as wrong:
            raise ValueError(f"{self.matches!r} is no regular expression: {wrong}") from None
        return self


class HighWatermark(_Section):
    of: str = Field(description="partition, e.g. log-0")
    passes: int = Field(ge=0, description="it is larger than this")


class When(_Section):
    after: int | str | None = Field(None, description="that step's fault is active")
    healed: int | str | None = Field(None, description="that step's fault was healed")
    leader_changed: str | None = Field(None, description="this partition got another leader")
    isr_of: str | None = Field(None, description="this partition's isr is as `is` or `contains` says")
    is_: int | list[str] | None = Field(None, alias="is", description="number of members, or the names of all of them")
    contains: str | None = Field(None, description="a member")
    fenced: str | None = Field(None, description="this broker left the cluster's metadata")
    unfenced: str | None = Field(None, description="this broker is in the cluster's metadata")
    message: Seen | None = Field(None, description="frames between nodes came by, from now on")
    log: LogLine | None = Field(None, description="a line was written to a node's log from now on")
    high_watermark: HighWatermark | None = Field(None, description="a partition's high watermark passed an offset")
    acknowledged: int | None = Field(None, gt=0, description="so many more records were acknowledged")
    attempted: int | None = Field(None, gt=0, description="so many more operations were begun")
    elapsed: Seconds | None = Field(None, description="so long after what stands above held")
    all: list[When] | None = Field(None, min_length=1, description="all of these, in any order")
    any: list[When] | None = Field(None, min_length=1, description="the first of these")
    then: list[When] | None = Field(None, min_length=1, description="these, one after the other")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.isr_of is not None) != ((self.is_ is not None) ^ (self.contains is not None)):
            raise ValueError("isr_of and is (or contains) belong together: {isr_of: log-0, is: 1}")
        if all(getattr(self, name) is None for name in type(self).model_fields):
            raise ValueError(f"names nothing to wait for; there are {', '.join(names_of(type(self)))}")
        watermark = self.high_watermark.of if self.high_watermark else None
        for partition in (self.leader_changed, self.isr_of, watermark):
            if partition is not None:
                topic_partition(partition)
        return self

    def parts(self) -> Iterator[When]:
        """Itself, and all that it combines."""
        yield self
        for part in (*(self.all or ()), *(self.any or ()), *(self.then or ())):
            yield from part.parts()

    def plain(self) -> Plain:
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def parts_of(when: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The same of a plain one."""
    yield when
    for name in COMBINED:
        for part in when.get(name, ()):
            yield from parts_of(part)


def names_of(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]
