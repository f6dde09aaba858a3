"""What rules that count need beside the ops: when one ended, and how to say that nothing can be concluded."""

from __future__ import annotations

import math

from harness.history.formats.pairing import Operation


class Unjudged(Exception):
    """The rule says neither yes nor no; the message says why."""


def ended_at(operation: Operation) -> float:
    return math.inf if operation.completed is None else operation.completed
