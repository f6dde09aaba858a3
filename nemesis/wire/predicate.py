"""The small language of `Match.where`: a question about a frame's decoded fields.

    newIsr contains 2
    leaderEpoch >= 3 and topic = log
    not (committed = true) or transactionalId in [t1, "t 2"]
    transactions.topics.name = log

    question    = all ("or" all)*
    all         = part ("and" part)*
    part        = "not" part | "(" question ")" | path operator value
    operator    = "=" | "!=" | "<" | "<=" | ">" | ">=" | "contains" | "in"
    path        = name ("." name)*            a list on the way stands for each of its elements
    value       = number | word | "text" | true | false | null | "[" value ("," value)* "]"

`contains` asks a list for an element, or a text for a part of it; `in` asks whether a field is one of several values; `=` with a list
compares without regard to order. What is not there fulfils no comparison; `a != b` is `not a = b`. A frame about several
partitions fulfils a question when one of its partitions does (`apis.Decoded.rows`). Nothing is evaluated as code.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

Question = Callable[[Mapping[str, Any]], bool]

_TOKEN: Final = re.compile(
    r"""\s*(?: (?P<number>-?\d+(?:\.\d+)?)(?![\w.-]) | "(?P<text>[^"]*)" | (?P<sign><=|>=|!=|=|<|>|\(|\)|\[|\]|,)
    | (?P<word>[A-Za-z0-9_][\w.-]*) )""",
    re.VERBOSE,
)
_ORDERS: Final = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_OPERATORS: Final = ("=", "!=", *_ORDERS, "contains", "in")
_CONSTANTS: Final[Mapping[str, Any]] = {"true": True, "false": False, "null": None}
_DEPTH: Final = 50


class BadPredicate(ValueError):
    """Text that is no question; the message says what was expected where."""


def parse(text: str) -> Question:
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(_tokens(text))
        self.at = 0
        self.depth = 0

    def whole(self) -> Question:
        question = self.question()
        if self.at < len(self.tokens):
            raise self.wrong("`and`, `or` or the end")
        return question

    def question(self) -> Question:
        parts = [self.all()]
        while self.take("word", "or"):
            parts.append(self.all())
        return parts[0] if len(parts) == 1 else lambda fields: any(part(fields) for part in parts)

    def all(self) -> Question:
        parts = [self.part()]
        while self.take("word", "and"):
            parts.append(self.part())
        return parts[0] if len(parts) == 1 else lambda fields: all(part(fields) for part in parts)

    def part(self) -> Question:
        self.depth += 1
        if self.depth > _DEPTH:
            raise BadPredicate(f"nested deeper than {_DEPTH}: {self.text[:80]!r}...")
        try:
            if self.take("word", "not"):
                inner = self.part()
                return lambda fields: not inner(fields)
            if self.take("sign", "("):
                inner = self.question()
                self.expect(")")
                return inner
            return self.comparison()
        finally:
            self.depth -= 1

    def comparison(self) -> Question:
        kind, path = self.next("the name of a field")
        if kind != "word":
            raise self.wrong("the name of a field", back=1)
        _, sign = self.next(f"one of {' '.join(_OPERATORS)}")
        if sign not in _OPERATORS:
            raise self.wrong(f"one of {' '.join(_OPERATORS)}", back=1)
        value = self.value()
        if sign == "in" and not isinstance(value, list):
            raise self.wrong("a list, [a, b]", back=1)
        return _comparison(path.split("."), sign, value)

    def value(self) -> Any:
        kind, token = self.next("a value")
        if (kind, token) == ("sign", "["):
            values = [self.value()]
            while self.take("sign", ","):
                values.append(self.value())
            self.expect("]")
            return values
        if kind == "sign":
            raise self.wrong("a value", back=1)
        if kind == "number":
            return float(token) if "." in token else int(token)
        return _CONSTANTS.get(token, token) if kind == "word" else token

    def next(self, expected: str) -> tuple[str, str]:
        if self.at == len(self.tokens):
            raise self.wrong(expected)
        self.at += 1
        return self.tokens[self.at - 1]

    def take(self, kind: str, token: str) -> bool:
        found = self.tokens[self.at : self.at + 1] == [(kind, token)]
        self.at += found
        return found

    def expect(self, sign: str) -> None:
        if not self.take("sign", sign):
            raise self.wrong(f"`{sign}`")

    def wrong(self, expected: str, *, back: int = 0) -> BadPredicate:
        place = self.at - back
        found = f"`{self.tokens[place][1]}`" if place < len(self.tokens) else "the end"
        return BadPredicate(f"{self.text!r}: expected {expected}, found {found}")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            raise BadPredicate(f"{text!r}: cannot read {text[at:].strip()[:20]!r}")
        kind = str(found.lastgroup)
        yield kind, found[kind]
        at = found.end()


def _comparison(path: Sequence[str], sign: str, value: Any) -> Question:
    match sign:
        case "=":
            return lambda fields: any(_equal(found, value) for found in _found(fields, path))
        case "!=":
            return lambda fields: not any(_equal(found, value) for found in _found(fields, path))
        case "in":
            return lambda fields: any(_equal(found, one) for found in _found(fields, path) for one in value)
        case "contains":
            return lambda fields: any(_contains(found, value) for found in _found(fields, path))
    order = _ORDERS[sign]
    return lambda fields: any(_comparable(found, value) and order(found, value) for found in _found(fields, path))


def _found(value: Any, path: Sequence[str]) -> Iterator[Any]:
    """What is at the end of a path; of lists on the way, at the ends of all of them."""
    if isinstance(value, list) and path:
        for item in value:
            yield from _found(item, path)
    elif not path:
        yield value
    elif isinstance(value, Mapping) and path[0] in value:
        yield from _found(value[path[0]], path[1:])


def _equal(found: Any, value: Any) -> bool:
    if isinstance(found, list) and isinstance(value, list):
        return sorted(map(repr, found)) == sorted(map(repr, value))
    if isinstance(found, list):
        return any(_equal(item, value) for item in found)
    if isinstance(found, bool) or isinstance(value, bool):
        return found is value
    if isinstance(found, str) and isinstance(value, int | float):
        return found == str(value)
    return bool(found == value)


def _contains(found: Any, value: Any) -> bool:
    if isinstance(found, list):
        return any(_equal(item, value) for item in found)
    return isinstance(found, str) and isinstance(value, str) and value in found


def _comparable(found: Any, value: Any) -> bool:
    if isinstance(found, bool) or isinstance(value, bool):
        return False
    numbers = isinstance(found, int | float) and isinstance(value, int | float)
    return numbers or (isinstance(found, str) and isinstance(value, str))
