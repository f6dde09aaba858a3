"""Values of a history as numbers, which is all that engines see, and numbers as values again, for people.

    values = Values();  values.number(None) -> -1 (nil);  values.number("a") -> 0;  values.value(0) -> "a"

Two values are one number iff they are equal in the tool that wrote them: 1 and 1.0 are, 1 and true are not (Python
would have it otherwise); NaN is itself; vectors are equal to vectors, sets to sets, maps to maps, by what they hold.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from harness.checker.linearizability.operations import NIL
from harness.history.formats.edn_values import Tagged
from harness.history.formats.edn_writer import write

_SHOWN = 60  # characters of one value


class Values:
    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._values: list[Any] = []

    def number(self, value: Any) -> int:
        if value is None:
            return NIL
        key = value if type(value) in (int, str) else comparable(value)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._values)
            self._values.append(value)
        return found

    def value(self, number: int) -> Any:
        """None for nil, and for numbers that stand for no value of the history."""
        return self._values[number] if 0 <= number < len(self._values) else None

    def knows(self, number: int) -> bool:
        return number == NIL or 0 <= number < len(self._values)


def comparable(value: Any) -> Hashable:
    """Equal and hashable iff the values are the same to the tool that wrote them."""
    if isinstance(value, bool):
        return bool, value
    if isinstance(value, float) and value != value:
        return float, "nan"
    if isinstance(value, (tuple, list)):
        return tuple, tuple(comparable(item) for item in value)
    if isinstance(value, (set, frozenset)):
        return frozenset, frozenset(comparable(item) for item in value)
    if isinstance(value, dict):
        return dict, frozenset((comparable(key), comparable(item)) for key, item in value.items())
    if isinstance(value, Tagged):
        return Tagged, value.tag, comparable(value.value)
    found: Hashable = value
    return found


def shown(value: Any) -> str:
    """For people: as EDN, but names without quotes, and cut where it would be long."""
    text = value if isinstance(value, str) and value else write(_beginning(value))
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def shown_all(values: Iterable[Any]) -> str:
    return " or ".join(dict.fromkeys(map(shown, values)))


def _beginning(value: Any) -> Any:
    """Enough of a collection to be shown."""
    return value[:_SHOWN] if isinstance(value, (tuple, list, str)) else value
