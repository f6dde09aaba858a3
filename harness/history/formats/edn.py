"""A strict EDN reader (https://github.com/edn-format/edn), fast enough for histories of millions of ops.

Why our own: the one kept library on PyPI, edn_format 0.8, reads 2,000 ops a second, turns unknown tags into exceptions of
several types, and takes what is not EDN (`{:a 1 :a 2}`, `#{1 1}`, text after the form) for granted. This one

* reads a text as a flat list of tokens (one regular expression) and builds values with a stack: no recursion, so that
  deep nesting is an error (`MAX_DEPTH`) and never a crash;
* has one error, EdnError, with line and column;
* reads piece by piece: `Reader.feed` gives every form, or every element of the outermost vector, as soon as it is whole.

What becomes what:

    nil true false  None True False     [1 2] (1 2)  tuple       #{1 2}     frozenset
    1 1N            int                 {:a 1}       dict (FrozenMap where it is a key or an element)
    1.5  1/2  1.5M  float Fraction Decimal           ##Inf ##NaN            float
    "a"  \\a        str Character       :a/b  a      Keyword Symbol         #inst "..."  Tagged("inst", "...")

Python cannot hold 1, 1.0 and true apart in one set or as keys of one map: that is an error as well, never a loss.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

MAX_DEPTH = 200
MAX_DIGITS = 4000  # of one number
_KEPT_ATOMS = 100_000  # atoms that are remembered, so that the same keyword is not looked at a million times


class EdnError(ValueError):
    """The text is not EDN. `line` and `column` count from 1, columns in characters."""

    def __init__(self, reason: str, line: int, column: int) -> None:
        self.reason, self.line, self.column = reason, line, column
        super().__init__(f"line {line}, column {column}: {reason}")


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


class _Unreadable(ValueError):
    """The reason without the place, which the reader adds."""


class _Mark:
    """`#tag` or `#_`, in the list of its collection, until the form that it belongs to has come."""

    __slots__ = ("tag",)

    def __init__(self, tag: str | None) -> None:
        self.tag = tag  # None: discard

    def __str__(self) -> str:
        return "#_" if self.tag is None else f"#{self.tag}"


_TOKEN = re.compile(
    r"""[ \t\r\n\f\v,]*(?:;[^\n]*(?:[ \t\r\n\f\v,]+|\Z))*(
      [\[\](){}]
    | [^ \t\r\n\f\v,;"\[\](){}\\#][^ \t\r\n\f\v,;"\[\](){}\\]*
    | "[^"\\]*(?:\\.[^"\\]*)*"
    | \#(?:\{|_|\#?[^ \t\r\n\f\v,;"\[\](){}\\\#_][^ \t\r\n\f\v,;"\[\](){}\\]*)
    | \\[^ \t\r\n\f\v][^ \t\r\n\f\v,;"\[\](){}\\]*
    | .
    | \Z
    )""",
    re.VERBOSE | re.DOTALL,
)
_INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)N?", re.ASCII)
_FLOAT = re.compile(r"[+-]?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?M?", re.ASCII)
_RATIO = re.compile(r"([+-]?(?:0|[1-9][0-9]*))/([1-9][0-9]*)", re.ASCII)
_LIKE_NUMBER = re.compile(r"[+-]?\.?[0-9]")
_PART = r"[^\W\d][\w.*+!\-?$%&=<>'#:|]*|[.*+!\-?$%&=<>|][\w.*+!\-?$%&=<>'#:|]*"
_NAME = re.compile(rf"/|(?:{_PART})(?:/(?:{_PART}|/))?")
_KEYWORD_PART = r"[\w.*+!\-?$%&=<>|'#][\w.*+!\-?$%&=<>'#:|]*"  # Clojure lets a keyword begin with a digit
_KEYWORD = re.compile(rf":({_KEYWORD_PART}(?:/{_KEYWORD_PART})?)")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "b": "\b", "f": "\f"}
_CHARACTERS = {
    "newline": "\n", "return": "\r", "space": " ", "tab": "\t", "formfeed": "\f", "backspace": "\b",
}  # fmt: skip
_CONSTANTS = {"nil": None, "true": True, "false": False}
_SPECIAL = {"##Inf": math.inf, "##-Inf": -math.inf, "##NaN": math.nan}
_OPENERS = {"[": "]", "(": ")", "{": "}", "#{": "#}"}
_STRUCTURE = frozenset("[](){}") | {"#{"}


class _Atoms(dict[str, Any]):
    """Token -> value of everything that is not a collection."""

    def __init__(self, keyword: Callable[[str], Any]) -> None:
        super().__init__(_CONSTANTS)
        self._keyword = keyword

    def __missing__(self, token: str) -> Any:
        first = token[:1]
        if first == ":":
            value = self._read_keyword(token)
        elif first == '"' and len(token) > 1:
            return _string(token)
        elif _INTEGER.fullmatch(token):
            value = _integer(token)
            if len(token) > 4:
                return value
        elif first == "#":
            return _prefixed(token)
        elif first == "\\":
            return _character(token[1:])
        else:
            value = _number_or_symbol(token)
        if len(self) < _KEPT_ATOMS:
            self[token] = value
        return value

    def _read_keyword(self, token: str) -> Any:
        found = _KEYWORD.fullmatch(token)
        if not found:
            raise _Unreadable(f"{_short(token)} is not a keyword")
        return self._keyword(found[1])


def _string(token: str) -> str:
    text = token[1:-1]
    return _paired(_ESCAPE.sub(_escaped, text)) if "\\" in text else text


def _paired(text: str) -> str:
    """Halves of characters beyond the first 65,536, as Java writes them, put together."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise _Unreadable("half a character (an unpaired surrogate) in a string") from None


def _escaped(found: re.Match[str]) -> str:
    escape = found[1]
    if escape in _ESCAPES:
        return _ESCAPES[escape]
    if escape[0] == "u" and len(escape) == 5:
        return chr(int(escape[1:], 16))
    if escape.isdecimal() and int(escape, 8) <= 0o377:
        return chr(int(escape, 8))
    raise _Unreadable(f"\\{escape} is not an escape in a string")


def _integer(token: str) -> int:
    if len(token) > MAX_DIGITS:
        raise _Unreadable(f"a number of more than {MAX_DIGITS} digits")
    return int(token.rstrip("N"))


def _number_or_symbol(token: str) -> Any:
    if not _LIKE_NUMBER.match(token):
        if _NAME.fullmatch(token):
            return Symbol(token)
        raise _Unreadable(f"{_short(token)} is not EDN")
    if len(token) > MAX_DIGITS:
        raise _Unreadable(f"a number of more than {MAX_DIGITS} digits")
    ratio = _RATIO.fullmatch(token)
    if ratio:
        found = Fraction(int(ratio[1]), int(ratio[2]))
        return found.numerator if found.denominator == 1 else found
    if not _FLOAT.fullmatch(token):
        raise _Unreadable(f"{_short(token)} is not a number")
    if token.endswith("M"):
        return _decimal(token[:-1])
    number = float(token)
    if math.isinf(number):
        raise _Unreadable(f"{_short(token)} is too large for a floating-point number")
    return number


def _decimal(digits: str) -> Decimal:
    number = Decimal(digits)
    if not -MAX_DIGITS <= number.adjusted() <= MAX_DIGITS:  # its hash, or a comparison, would take for ever
        raise _Unreadable(f"{_short(digits)}M is out of range")
    return number


def _character(name: str) -> Character:
    if len(name) == 1:
        return Character(name)
    if name in _CHARACTERS:
        return Character(_CHARACTERS[name])
    if re.fullmatch("u[0-9a-fA-F]{4}", name):
        return Character(_paired(chr(int(name[1:], 16))))
    if re.fullmatch("o[0-3]?[0-7]{1,2}", name):
        return Character(chr(int(name[1:], 8)))
    raise _Unreadable(f"\\{_short(name)} is not a character")


def _prefixed(token: str) -> Any:
    if token in _SPECIAL:
        return _SPECIAL[token]
    if token == "#_":
        return _Mark(None)
    if len(token) > 1 and token[1].isalpha() and _NAME.fullmatch(token[1:]):
        return _Mark(token[1:])
    raise _Unreadable(f"{_short(token)} is not a tag")


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def _freeze(value: Any) -> Any:
    """The same value, hashable."""
    if isinstance(value, dict):
        return FrozenMap((_freeze(key), _freeze(item)) for key, item in value.items())
    if isinstance(value, tuple):
        return tuple(_freeze(item) for item in value)
    return Tagged(value.tag, _freeze(value.value)) if isinstance(value, Tagged) else value


def _map(items: list[Any]) -> dict[Any, Any]:
    keys = items[::2]
    if len(items) % 2:
        raise _Unreadable("a map with a key that has no value")
    try:
        made = dict(zip(keys, items[1::2], strict=True))
    except TypeError:
        keys = [_freeze(key) for key in keys]
        made = dict(zip(keys, items[1::2], strict=True))
    if len(made) != len(keys):
        raise _Unreadable(f"a map with the key {_twice(keys)}")
    return made


def _set(items: list[Any]) -> frozenset[Any]:
    try:
        made = frozenset(items)
    except TypeError:
        items = [_freeze(item) for item in items]
        made = frozenset(items)
    if len(made) != len(items):
        raise _Unreadable(f"a set with {_twice(items)}")
    return made


def _twice(items: list[Any]) -> str:
    seen: dict[Any, Any] = {}
    for item in items:
        if item in seen:
            same = type(item) is type(seen[item])
            return f"{_short(repr(item))} twice" if same else f"{_short(repr(seen[item]))} and {_short(repr(item))}"
        seen[item] = item
    raise AssertionError("called without a reason")


_CLOSERS: dict[str, Callable[[list[Any]], Any]] = {"]": tuple, ")": tuple, "}": _map, "#}": _set}


class _Outermost(Enum):
    """The vector whose elements are given one by one."""

    NONE = "none"  # forms are given as they are
    AWAITED = "awaited"
    OPEN = "open"
    CLOSED = "closed"


class Reader:
    """Reads EDN piece by piece. Example, with the outermost vector opened:

    >>> reader = Reader(unwrap=True, keyword=str)
    >>> [*reader.feed("[{:f :read}\\n {:f"), *reader.feed(" :write}]"), *reader.close()]
    [{'f': 'read'}, {'f': 'write'}]

    `unwrap`: when the first form is a vector or a list, its elements are given one by one, and nothing may follow it.
    `keyword`, `tagged`: what becomes of keywords (name) and of tagged values (tag, value).
    Pieces may be cut between tokens and within strings: cut after line feeds.
    """

    def __init__(
        self,
        *,
        unwrap: bool = False,
        keyword: Callable[[str], Any] = Keyword,
        tagged: Callable[[str, Any], Any] = Tagged,
    ) -> None:
        self._atoms = _Atoms(keyword)
        self._tagged = tagged
        self._outermost = _Outermost.AWAITED if unwrap else _Outermost.NONE
        self._frames: list[tuple[str, list[Any]]] = []  # around the innermost: what closes each, and its items so far
        self._closer, self._items = "", list[Any]()  # of the innermost collection; "": the top level
        self._marked: set[int] = set()  # depths with a #tag or #_ among their items
        self._line = self._column = 1
        self._rest: list[str] = []  # of a string that was cut

    def feed(self, text: str) -> Iterator[Any]:
        """The forms that `text` made whole. EdnError."""
        if self._rest and '"' not in text:
            self._rest.append(text)
            return
        text = "".join([*self._rest, text])
        self._rest = []
        tokens = _TOKEN.findall(text)
        remaining = iter(tokens)
        try:
            complete = self._build(remaining)
        except _Unreadable as error:
            self._advance(text[: _start(text, len(tokens) - operator.length_hint(remaining) - 1)])
            raise self._error(str(error)) from None
        if complete:
            self._advance(text)
        else:
            cut = _start(text, len(tokens) - operator.length_hint(remaining) - 1)
            self._advance(text[:cut])
            self._rest = [text[cut:]]
        yield from self._whole()

    def close(self) -> Iterator[Any]:
        """After the last piece: EdnError when something is still open."""
        if self._rest:
            raise self._error("a string that does not end")
        if self._closer:
            raise self._error(f"the text ends where {self._closer[-1]} is missing")
        yield from self._whole()
        if self._items:
            raise self._error(f"nothing follows {self._items[-1]}")

    def _build(self, tokens: Iterator[str]) -> bool:
        """Take tokens into the open collections. False: stopped at the beginning of a string whose end is not there yet."""
        atoms, frames, marked = self._atoms, self._frames, self._marked
        closer, items = self._closer, self._items
        append = items.append
        for token in tokens:
            if token not in _STRUCTURE:
                if not token:
                    continue
                if token == '"':
                    self._closer, self._items = closer, items
                    return False
                value = atoms[token]
                if value.__class__ is _Mark:
                    marked.add(len(frames))
                append(value)
            elif token in _OPENERS:
                if len(frames) >= MAX_DEPTH:
                    raise _Unreadable(f"nested deeper than {MAX_DEPTH}")
                frames.append((closer, items))
                closer, items = _OPENERS[token], []
                append = items.append
            else:
                if token != closer[-1:]:
                    raise _Unreadable(f"{token} where {closer[-1]} is due" if closer else f"{token} closes nothing")
                if marked and len(frames) in marked:
                    items = self._resolved(items, len(frames))
                value = _CLOSERS[closer](items)
                closer, items = frames.pop()
                append = items.append
                append(value)
        self._closer, self._items = closer, items
        return True

    def _resolved(self, items: list[Any], depth: int) -> list[Any]:
        """The items of a closed collection, tags applied and discarded forms left out."""
        forms, open_marks = self._marks_applied(items)
        self._marked.discard(depth)
        if open_marks:
            raise _Unreadable(f"nothing follows {open_marks[-1]}")
        return forms

    def _marks_applied(self, items: list[Any]) -> tuple[list[Any], list[_Mark]]:
        """`#a #_ 1 2` is the second form, tagged: a mark takes the next form that is not discarded."""
        forms: list[Any] = []
        waiting: list[_Mark] = []
        for item in items:
            if item.__class__ is _Mark:
                waiting.append(item)
                continue
            form = item
            while waiting:
                mark = waiting.pop()
                if mark.tag is None:
                    break
                form = self._tagged(mark.tag, form)
            else:
                forms.append(form)
        return forms, waiting

    def _whole(self) -> Iterator[Any]:
        """Give away what is whole at the top, or within the outermost vector."""
        levels = [*self._frames, (self._closer, self._items)]
        for form in self._take(levels, 0):
            if self._outermost is _Outermost.CLOSED:
                raise self._error("something follows the vector of ops")
            if self._outermost is not _Outermost.NONE and isinstance(form, tuple):
                self._outermost = _Outermost.CLOSED
                yield from form
            else:
                self._outermost = _Outermost.NONE
                yield form
        if len(levels) == 1 or self._outermost is _Outermost.NONE:
            return
        if self._outermost is _Outermost.CLOSED:
            raise self._error("something follows the vector of ops")
        closer, _ = levels[1]
        if closer in ("]", ")") and not self._marked & {0}:
            self._outermost = _Outermost.OPEN
            yield from self._take(levels, 1)

    def _take(self, levels: list[tuple[str, list[Any]]], depth: int) -> list[Any]:
        items = levels[depth][1]
        if depth in self._marked:
            forms, waiting = self._marks_applied(items)
            if not waiting:
                self._marked.discard(depth)
        else:
            forms, waiting = items.copy(), []
        items[:] = waiting
        return forms

    def _advance(self, text: str) -> None:
        lines = text.count("\n")
        self._line += lines
        self._column = len(text) - text.rfind("\n") if lines else self._column + len(text)

    def _error(self, reason: str) -> EdnError:
        return EdnError(reason, self._line, self._column)


def _start(text: str, number: int) -> int:
    """Where token `number` begins."""
    return next(itertools.islice(_TOKEN.finditer(text), number, None)).start(1)


def read_all(text: str) -> list[Any]:
    """All forms of a text. EdnError.

    >>> read_all("#{1 2} [nil #_ 3 :a/b]")
    [frozenset({1, 2}), (None, Keyword(name='a/b'))]
    """
    reader = Reader()
    return [*reader.feed(text), *reader.close()]
