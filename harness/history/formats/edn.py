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
import operator
import re
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

from harness.history.formats.edn_atoms import Atoms, Mark
from harness.history.formats.edn_values import Keyword, Symbol, Tagged, Unreadable, map_of, set_of

MAX_DEPTH = 200
_QUOTE = '"'


class EdnError(ValueError):
    """The text is not EDN. `line` and `column` count from 1, columns in characters."""

    def __init__(self, reason: str, line: int, column: int) -> None:
        self.reason, self.line, self.column = reason, line, column
        super().__init__(f"line {line}, column {column}: {reason}")


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
_OPENERS = {"[": "]", "(": ")", "{": "}", "#{": "#}"}
_STRUCTURE = frozenset("[](){}") | {"#{"}
_CLOSERS: dict[str, Callable[[list[Any]], Any]] = {"]": tuple, ")": tuple, "}": map_of, "#}": set_of}


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
    `keyword`, `symbol`, `tagged`: what becomes of keywords and symbols (name) and of tagged values (tag, value).
    Pieces may be cut between tokens and within strings: cut after line feeds.
    """

    def __init__(
        self,
        *,
        unwrap: bool = False,
        keyword: Callable[[str], Any] = Keyword,
        symbol: Callable[[str], Any] = Symbol,
        tagged: Callable[[str, Any], Any] = Tagged,
    ) -> None:
        self._atoms = Atoms(keyword, symbol)
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
        except Unreadable as error:
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
                if token == _QUOTE:
                    self._closer, self._items = closer, items
                    return False
                value = atoms[token]
                if value.__class__ is Mark:
                    marked.add(len(frames))
                append(value)
            elif token in _OPENERS:
                if len(frames) >= MAX_DEPTH:
                    raise Unreadable(f"nested deeper than {MAX_DEPTH}")
                frames.append((closer, items))
                closer, items = _OPENERS[token], []
                append = items.append
            else:
                if token != closer[-1:]:
                    raise Unreadable(f"{token} where {closer[-1]} is due" if closer else f"{token} closes nothing")
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
            raise Unreadable(f"nothing follows {open_marks[-1]}")
        return forms

    def _marks_applied(self, items: list[Any]) -> tuple[list[Any], list[Mark]]:
        """`#a #_ 1 2` is the second form, tagged: a mark takes the next form that is not discarded."""
        forms: list[Any] = []
        waiting: list[Mark] = []
        for item in items:
            if item.__class__ is Mark:
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
