"""What a race is expected to show, stated beforehand as data, per variant, version and metadata.version.

    EXPECTS = (
        Expectation(outcome="valid", where={"variant": "nothing-held"}, because="nothing is late"),
        Expectation(outcome="lost-write", metadata="<= 3.5-IV0", because="no broker epoch in AlterPartition"),
        Expectation(outcome="valid", because="KIP-903"),
    )

The first that fits decides. `krash race run` says afterwards whether it came so, the track record and CI count on it, and
what differs is a finding. The verdict never depends on it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from nodes.kafka.version import METADATA_LEVELS, metadata_level, release

VALID: Final = "valid"
UNAVAILABLE: Final = "unavailable"  # nothing lost, but a partition that nobody could read or write to the end
CLIENT_ERROR: Final = "client-error"  # the anomaly may be there, but the client was told of an error
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}
_TERM = re.compile(r"(<=|>=|<|>|=)\s*(\S+)")


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """One line of a race's table. What is left empty fits everything.

    versions, metadata: comparisons, all of which must hold: ">= 3.3, < 3.5"; a release is compared to as many places as
    are written ("<= 3.4" holds for 3.4.1). where: parameter -> value, or a tuple of possible values.
    """

    outcome: str  # an anomaly type ("lost-write", "torn-transaction", ...), or VALID, UNAVAILABLE, CLIENT_ERROR
    versions: str = ""
    metadata: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    because: str = ""


def expected(
    table: Sequence[Expectation], *, version: str, metadata_version: str | None, parameters: Mapping[str, Any]
) -> Expectation | None:
    """The line that fits; None where nothing was stated. `metadata_version` None: the release's own."""
    level = level_of(metadata_version or version)
    return next((line for line in table if _fits(line, release(version), level, parameters)), None)


def level_of(name: str) -> int:
    """A metadata.version by name or release; a release that this table does not know is older or newer than all of it."""
    try:
        return metadata_level(name)
    except ValueError:
        oldest = min(release(known) for known in METADATA_LEVELS)
        return 0 if release(name) < oldest else max(METADATA_LEVELS.values()) + 1


def _fits(line: Expectation, version: tuple[int, ...], level: int, parameters: Mapping[str, Any]) -> bool:
    for compare, wanted in _terms(line.versions):
        places = tuple(int(place) for place in wanted.split("."))
        if not compare(version[: len(places)], places):
            return False
    if not all(compare(level, level_of(wanted)) for compare, wanted in _terms(line.metadata)):
        return False
    return all(_is(parameters.get(name), value) for name, value in line.where.items())


def _is(given: Any, value: Any) -> bool:
    return given in value if isinstance(value, tuple) else bool(given == value)


def _terms(text: str) -> list[tuple[Callable[[Any, Any], bool], str]]:
    """ ">= 3.3, < 3.5" -> [(ge, "3.3"), (lt, "3.5")]. ValueError for what is no comparison."""
    found = []
    for term in filter(None, (part.strip() for part in text.split(","))):
        match = _TERM.fullmatch(term)
        if match is None:
            raise ValueError(f"{term!r} is no comparison; write for example '<= 3.5-IV0' or '>= 3.3, < 3.5'")
        found.append((_COMPARE[match[1]], match[2]))
    return found
