"""Histories in a few characters.

together("ax1 ay1", "ax2 rx12", "!ax3", "?ax4 ry")      appends of 1 to x and y; an append of 2 to x and a read of [1 2];
                                                        a failed one; one of unknown outcome, which asked for y
in_turn("wx1", "rx1 ry_")                               registers: a write of 1; a read of 1, and one of nil
"""

from __future__ import annotations

from typing import Any

from harness.history.formats.pairing import Operation, Paired
from tests.harness.checker.serializability.worlds import Micro, operation
from workloads.op import Outcome

_OUTCOMES = {"!": Outcome.FAIL, "?": Outcome.INFO}


def together(*texts: str) -> Paired:
    """All at the same time, each by a process of its own."""
    return Paired(operations=[_one(_write(texts), i, text, i, (i, 1000 + i)) for i, text in enumerate(texts)])


def in_turn(*texts: str, process: int | None = None) -> Paired:
    """One after the other, each by a process of its own or all by one."""
    operations = [
        _one(_write(texts), i, text, i if process is None else process, (2 * i, 2 * i + 1))
        for i, text in enumerate(texts)
    ]
    return Paired(operations=operations)


def one_process(*texts: str) -> Paired:
    """One after the other in one process, of which nobody knows when."""
    operations = [_one(_write(texts), i, text, 0, (i, 1000 + i)) for i, text in enumerate(texts)]
    return Paired(operations=operations)


def _write(texts: tuple[str, ...]) -> str:
    words = " ".join(texts).lstrip("!?").split()
    return "w" if any(word.lstrip("!?")[0] == "w" or word.endswith("_") for word in words) else "append"


def _one(write: str, index: int, text: str, process: int, at: tuple[int, int]) -> Operation:
    outcome = _OUTCOMES.get(text[0], Outcome.OK)
    lists = write == "append"
    micros = tuple(_micro(word, lists) for word in text.lstrip("!?").split())
    ends = None if outcome is Outcome.INFO else at[1]
    return operation(index, micros, process=process, at=(at[0], ends), outcome=outcome)


def _micro(word: str, lists: bool) -> Micro:
    f, key, rest = word[0], word[1], word[2:]
    if f == "a":
        return "append", key, int(rest)
    if f == "w":
        return "w", key, int(rest)
    answer: Any = tuple(int(digit) for digit in rest) if lists else None if rest == "_" else int(rest)
    return "r", key, answer
