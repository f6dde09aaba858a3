"""One entry of a foreign history: an op was invoked, or was completed. The same for every format.

    {:index 4, :time 81, :process 2, :type :ok, :f :read, :key 7, :value 3}      EDN
    {"index": 4, "time": 81, "process": 2, "type": "ok", ...}                    JSON
    INFO  jepsen.util - 2   :ok   :read   3                                      console

    ->  Event(number=4, index=4, process=2, type="ok", f="read", value=3, time=81, key=7, error=None, more={}, line=None)

Keywords and symbols are plain strings from here on, so that a history says the same in EDN and in JSON; vectors are tuples.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple


class EventType(StrEnum):
    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Event(NamedTuple):
    number: int  # place among the entries of its file, from 0
    index: int | None  # type: ignore[assignment]  # as the history has it; hides tuple.index, which nobody wants here
    process: int | str | None  # None: the history does not say
    type: str  # EventType
    f: str
    value: Any
    time: int | float | None  # in whatever unit
    key: Any
    error: Any
    more: Mapping[str, Any]  # whatever else the entry had: "rebalance-log", "node", ...
    line: int | None  # where it is, when the format has one entry per line

    @property
    def place(self) -> str:
        """For people: where to look."""
        where = f"line {self.line}" if self.line is not None else f"entry {self.number + 1}"
        return where if self.index is None else f"{where} (index {self.index})"


class NotAnOp(ValueError):
    """The entry is readable, but it is no op; the message says why."""


TIMED_OUT = "timed-out"
_TYPES = frozenset(EventType)
_FIELDS = frozenset({"index", "process", "type", "f", "value", "time", "key", "error"})
_NOTHING: Mapping[str, Any] = {}


def event_of(entry: Any, number: int, line: int | None = None) -> Event:
    """From the map that a file has. NotAnOp."""
    if not isinstance(entry, dict):
        raise NotAnOp(f"an op is a map, not {_short(entry)}")
    kind, f = entry.get("type"), entry.get("f")
    if kind not in _TYPES:
        raise NotAnOp(f"the type of an op is invoke, ok, fail or info, not {_short(kind)}")
    value, error = entry.get("value"), entry.get("error")
    if value == TIMED_OUT and kind in (EventType.FAIL, EventType.INFO):
        value, error = None, TIMED_OUT if error is None else error
    more = (
        {name: item for name, item in entry.items() if name not in _FIELDS} if len(entry.keys() - _FIELDS) else _NOTHING
    )
    return Event(
        number,
        _index(entry.get("index")),
        _process(entry.get("process")),
        kind,
        _function(f, value),
        value,
        _time(entry.get("time")),
        entry.get("key"),
        error,
        more,
        line,
    )


def _index(index: Any) -> int | None:
    if index is None or index == -1:  # Jepsen's "not assigned"
        return None
    if type(index) is not int or index < 0:
        raise NotAnOp(f"an index is a number from 0, not {_short(index)}")
    return index


def _process(process: Any) -> int | str | None:
    if process is None or type(process) in (int, str):
        return process  # type: ignore[no-any-return]
    raise NotAnOp(f"a process is a number or a name, not {_short(process)}")


def _time(time: Any) -> int | float | None:
    if time is None or type(time) is int or (type(time) is float and time == time):
        return time
    raise NotAnOp(f"a time is a number, not {_short(time)}")


def _function(f: Any, value: Any) -> str:
    """Transactions may leave out what they are."""
    if isinstance(f, str) and f:
        return f
    if f is None and isinstance(value, tuple) and all(isinstance(item, tuple) for item in value):
        return "txn"
    raise NotAnOp(f"an op says what it does as a name (f), not {_short(f)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
