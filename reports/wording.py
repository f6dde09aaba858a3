"""How numbers, times and foreign text are written, on the page, in junit.xml and on the terminal alike.

Why one place: whatever comes out of a history is hostile until shown otherwise. A value may hold `<script>`, a
terminal escape, a right-to-left override that makes `41` read as `14`, half a surrogate pair that no encoder accepts,
or a megabyte of `A`. Escaping markup is the template's work (autoescape); making the text *visible and finite* is
done here, before that:

    visible("a\\x00b")             -> 'a\\\\u0000b'
    clip("x" * 5000, 10)          -> 'xxxxxxxxxx… (clipped, 5,000 characters)'

Times are shown in seconds since the start of the run: nobody can compare `CLOCK_MONOTONIC` readings by eye.
"""

from __future__ import annotations

import unicodedata

VALUE_LIMIT = 160  # characters of a record's value
SENTENCE_LIMIT = 600
TEXT_LIMIT = 4_000  # any other text

PROCESS_MASK = (1 << 40) - 1  # above it stands the number of the client's writer, which only makes it unique in the run

_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_COMBINING_LIMIT = 4  # accents in a row; more would climb over the lines above


def visible(text: str) -> str:
    """`text` with every character that cannot be seen, encoded or trusted written as its code point; newlines and
    tabs stay.
    """
    if text.isascii() and text.isprintable():
        return text
    shown: list[str] = []
    accents = 0
    for character in text:
        accents = accents + 1 if unicodedata.combining(character) else 0
        hidden = unicodedata.category(character) in _HIDDEN_CATEGORIES and character not in "\n\t"
        shown.append(_code_point(character) if hidden or accents > _COMBINING_LIMIT else character)
    return "".join(shown)


def _code_point(character: str) -> str:
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"


class Clipped(str):
    """Text that was made visible and finite already, to a limit of its own."""


def clip(text: str, limit: int = TEXT_LIMIT, length: int | None = None) -> Clipped:
    """The visible start of `text`, with a note where it was cut. `length`: of the whole, when `text` was cut before."""
    if isinstance(text, Clipped):
        return text
    whole = len(text) if length is None else length
    shown = visible(text[:limit])
    if whole <= limit and len(shown) <= 2 * limit:
        return Clipped(shown)
    return Clipped(f"{shown[:limit]}… (clipped, {whole:,} characters)")


def one_line(text: str, limit: int = SENTENCE_LIMIT) -> str:
    return " ".join(clip(text, limit).split())


def process_name(client: str, process: int) -> str:
    """ "w1.p0 process 34": a process as people know it, numbered within its client."""
    return f"{client} process {process & PROCESS_MASK if process >= 0 else process}"


def at(ns: int | None, zero_ns: int) -> str:
    """A moment as seconds since the start of the run: "12.345 s"; "never" for None."""
    return "never" if ns is None else f"{(ns - zero_ns) / 1e9:.3f} s"


def duration(seconds: float) -> str:
    """ "850 µs", "12 ms", "3.2 s", "4 min 05 s"."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def number(value: float) -> str:
    """Thousands grouped: "20,431"; "12.5" only where a fraction is told."""
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:,.1f}"


def plural(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
