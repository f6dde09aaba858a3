"""Tokens of EDN that are no collections: numbers, strings, keywords, symbols, characters, and the prefixes `#tag` and `#_`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from harness.history.formats.edn_values import Character, Unreadable, shortened

MAX_DIGITS = 4000  # of one number
_KEPT_ATOMS = 100_000  # atoms that are remembered, so that the same keyword is not looked at a million times
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


class Mark:
    """`#tag` or `#_`, in the list of its collection, until the form that it belongs to has come."""

    __slots__ = ("tag",)

    def __init__(self, tag: str | None) -> None:
        self.tag = tag  # None: discard

    def __str__(self) -> str:
        return "#_" if self.tag is None else f"#{self.tag}"


class Atoms(dict[str, Any]):
    """Token -> value of everything that is not a collection."""

    def __init__(self, keyword: Callable[[str], Any], symbol: Callable[[str], Any]) -> None:
        super().__init__(_CONSTANTS)
        self._keyword, self._symbol = keyword, symbol

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
            value = _number(token) if _LIKE_NUMBER.match(token) else self._read_symbol(token)
        if len(self) < _KEPT_ATOMS:
            self[token] = value
        return value

    def _read_keyword(self, token: str) -> Any:
        found = _KEYWORD.fullmatch(token)
        if not found:
            raise Unreadable(f"{shortened(token)} is not a keyword")
        return self._keyword(found[1])

    def _read_symbol(self, token: str) -> Any:
        if not _NAME.fullmatch(token):
            raise Unreadable(f"{shortened(token)} is not EDN")
        return self._symbol(token)


def _string(token: str) -> str:
    text = token[1:-1]
    return _paired(_ESCAPE.sub(_escaped, text)) if "\\" in text else text


def _paired(text: str) -> str:
    """Halves of characters beyond the first 65,536, as Java writes them, put together."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise Unreadable("half a character (an unpaired surrogate) in a string") from None


def _escaped(found: re.Match[str]) -> str:
    escape = found[1]
    if escape in _ESCAPES:
        return _ESCAPES[escape]
    if escape[0] == "u" and len(escape) == 5:
        return chr(int(escape[1:], 16))
    if escape.isdecimal() and int(escape, 8) <= 0o377:
        return chr(int(escape, 8))
    raise Unreadable(f"\\{escape} is not an escape in a string")


def _integer(token: str) -> int:
    if len(token) > MAX_DIGITS:
        raise Unreadable(f"a number of more than {MAX_DIGITS} digits")
    return int(token.rstrip("N"))


def _number(token: str) -> Any:
    if len(token) > MAX_DIGITS:
        raise Unreadable(f"a number of more than {MAX_DIGITS} digits")
    ratio = _RATIO.fullmatch(token)
    if ratio:
        found = Fraction(int(ratio[1]), int(ratio[2]))
        return found.numerator if found.denominator == 1 else found
    if not _FLOAT.fullmatch(token):
        raise Unreadable(f"{shortened(token)} is not a number")
    if token.endswith("M"):
        return _decimal(token[:-1])
    number = float(token)
    if math.isinf(number):
        raise Unreadable(f"{shortened(token)} is too large for a floating-point number")
    return number


def _decimal(digits: str) -> Decimal:
    number = Decimal(digits)
    if not -MAX_DIGITS <= number.adjusted() <= MAX_DIGITS:  # its hash, or a comparison, would take for ever
        raise Unreadable(f"{shortened(digits)}M is out of range")
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
    raise Unreadable(f"\\{shortened(name)} is not a character")


def _prefixed(word: str) -> Any:
    if word in _SPECIAL:
        return _SPECIAL[word]
    if word == "#_":
        return Mark(None)
    if len(word) > 1 and word[1].isalpha() and _NAME.fullmatch(word[1:]):
        return Mark(word[1:])
    raise Unreadable(f"{shortened(word)} is not a tag")
