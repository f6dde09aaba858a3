"""Which tables are plain in all logs, once it is known how each of them ended (LOGS, facts.py): plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from harness.checker.facts import Ending

Row = Mapping[str, Any]


class Plain(StrEnum):
    """A table of searches in which nothing is suspect."""

    OFFSETS = "offsets"
    VALUES = "values"
    STEPS = "steps"
    SKIPS = "skips"
    OVERTAKEN = "overtaken"
    INVERSIONS = "inversions"
    EARLY_ENDS = "early_ends"
    OVERLAPS = "overlaps"


def plain(looked: Iterable[Row], logs: Iterable[Row], *, foreign: bool) -> frozenset[Plain]:
    """`looked`: LOOKED rows; `logs`: LOGS rows of the same logs."""
    ends = {(row["run"], row["topic"], row["partition"]): row for row in logs}
    found = set(Plain)
    for row in looked:
        found -= _doubtful(row, ends[row["run"], row["topic"], row["partition"]], foreign=foreign)
        if not found:
            break
    return frozenset(found)


_LOST = frozenset({Plain.OFFSETS, Plain.OVERTAKEN, Plain.INVERSIONS})  # the last two leave out what was lost
_DOUBTFUL: Mapping[str, frozenset[Plain]] = {  # where a flag of LOOKED is set
    "two_values": _LOST,
    "strange": frozenset({Plain.VALUES, Plain.INVERSIONS}),
    "back": frozenset({Plain.STEPS}),
    "over": frozenset({Plain.SKIPS}),
    "overtaken": frozenset({Plain.OVERTAKEN}),
    "inverted": frozenset({Plain.INVERSIONS}),
    "early_end": frozenset({Plain.EARLY_ENDS}),
    "deposed": frozenset({Plain.OVERLAPS}),
}


def _doubtful(row: Row, end: Row, *, foreign: bool) -> frozenset[Plain]:
    lost = frozenset() if _stands(row, end, foreign=foreign) else _LOST
    return lost.union(*(tables for flag, tables in _DOUBTFUL.items() if row[flag]))


def _stands(row: Row, end: Row, *, foreign: bool) -> bool:
    """Whether all that was acknowledged or read is there in the end, as far as anybody looked (loss.how, unseen.CHECK)."""
    log_start, log_end, complete_to = end["log_start"], end["log_end"], end["complete_to"]
    if row["first_place"] is None:
        return True
    if row["unread"]:
        return False
    if end["ending"] == Ending.DELETED:
        return True
    if end["ending"] == Ending.GONE:
        return False
    if not foreign and row["first_final"] != row["last_final"]:
        return False  # it was read several times, and the last reading counts
    if log_end is not None and row["last_place"] >= log_end:
        return False
    if log_start is not None and row["first_place"] < log_start:
        return False
    return complete_to is None or row["first_missing"] is None or bool(row["first_missing"] >= complete_to)
