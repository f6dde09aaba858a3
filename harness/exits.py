"""Exit codes (DESIGN decision 8). One number for one run, or for many: invalid > error > unknown > valid."""

from __future__ import annotations

from collections.abc import Iterable

from reports.verdict import Validity, Verdict

VALID, INVALID, UNKNOWN, ERROR, USAGE, INTERRUPTED = 0, 1, 2, 3, 64, 130
_BROKEN = {"harness-error", "hang"}


def exit_code(judged: Iterable[tuple[Verdict | None, str]]) -> int:
    """From (verdict, status of the run) pairs; a verdict of None is an error. An interrupted run is 130, unless it is found invalid.

    Evidence outweighs everything: a run that lost data is invalid even if the harness broke later.
    """
    return worst(_one(verdict, status) for verdict, status in judged)


def worst(codes: Iterable[int]) -> int:
    """The one exit code of many."""
    found = set(codes)
    for code in (INVALID, ERROR, INTERRUPTED, UNKNOWN):
        if code in found:
            return code
    return VALID


def _one(verdict: Verdict | None, status: str) -> int:
    if verdict is None:
        return ERROR
    if verdict.verdict == Validity.INVALID:
        return INVALID
    if status in _BROKEN or verdict.status in _BROKEN:
        return ERROR
    if status == "interrupted":
        return INTERRUPTED
    return VALID if verdict.verdict == Validity.VALID else UNKNOWN
