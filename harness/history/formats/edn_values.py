"""What EDN becomes in Python (see `edn`), and how maps and sets are made of their items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Keyword:
    name: str  # without the colon: "type", "jepsen/op"


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str


@dataclass(frozen=True, slots=True)
class Character:
    character: str


@dataclass(frozen=True, slots=True)
class Tagged:
    """`#tag value`; records of Clojure (`#jepsen.history.Op{...}`) are the same thing with a map."""

    tag: str
    value: Any


class FrozenMap(dict[Any, Any]):
    """A map that is itself a key or an element of a set."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


class Unreadable(ValueError):
    """The reason without the place, which the reader adds."""


def shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def _freeze(value: Any) -> Any:
    """The same value, hashable."""
    if isinstance(value, dict):
        return FrozenMap((_freeze(key), _freeze(item)) for key, item in value.items())
    if isinstance(value, tuple):
        return tuple(_freeze(item) for item in value)
    return Tagged(value.tag, _freeze(value.value)) if isinstance(value, Tagged) else value


def map_of(items: list[Any]) -> dict[Any, Any]:
    keys = items[::2]
    if len(items) % 2:
        raise Unreadable("a map with a key that has no value")
    try:
        made = dict(zip(keys, items[1::2], strict=True))
    except TypeError:
        keys = [_freeze(key) for key in keys]
        made = dict(zip(keys, items[1::2], strict=True))
    if len(made) != len(keys):
        raise Unreadable(f"a map with the key {_twice(keys)}")
    return made


def set_of(items: list[Any]) -> frozenset[Any]:
    try:
        made = frozenset(items)
    except TypeError:
        items = [_freeze(item) for item in items]
        made = frozenset(items)
    if len(made) != len(items):
        raise Unreadable(f"a set with {_twice(items)}")
    return made


def _twice(items: list[Any]) -> str:
    seen: dict[Any, Any] = {}
    for item in items:
        if item in seen:
            same = type(item) is type(seen[item])
            return (
                f"{shortened(repr(item))} twice"
                if same
                else f"{shortened(repr(seen[item]))} and {shortened(repr(item))}"
            )
        seen[item] = item
    raise AssertionError("called without a reason")
