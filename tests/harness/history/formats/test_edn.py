"""EDN as its specification has it, strictly: every form, every error with its place, and no input that does worse."""

from __future__ import annotations

import math
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.history.formats.edn import MAX_DEPTH, EdnError, Reader, read_all
from harness.history.formats.edn_values import Character, FrozenMap, Keyword, Symbol, Tagged
from harness.history.formats.edn_writer import write

A, B = Keyword("a"), Keyword("b")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("true", True),
        ("-17", -17),
        ("123456789012345678901234567890N", 123456789012345678901234567890),
        ("1.5e3", 1500.0),
        ("1.50M", Decimal("1.50")),
        ("-1/2", Fraction(-1, 2)),
        ("##-Inf", -math.inf),
        ('"a\\n\\"\\u00e9\\ud83d\\ude00"', 'a\n"é😀'),
        ("\\newline", Character("\n")),
        ("\\u0041", Character("A")),
        ("\\(", Character("(")),
        (":jepsen.tests/f-1?", Keyword("jepsen.tests/f-1?")),
        ("a.b/c*", Symbol("a.b/c*")),
        ("[1 (2, 3) []]", (1, (2, 3), ())),
        ("#{1 [2] {:a []}}", frozenset({1, (2,), FrozenMap({A: ()})})),
        ("{[1 {:a 2}] #{} :b nil}", {(1, FrozenMap({A: 2})): frozenset(), B: None}),
        ('#inst "2026-01-02"', Tagged("inst", "2026-01-02")),
        ("#jepsen.history.Op{:a 1}", Tagged("jepsen.history.Op", {A: 1})),
        ("[1 ; ] comment\n 2 #_ 3 #_ #_ 4 5]", (1, 2)),
        ("#a #_ 1 #b 2", Tagged("a", Tagged("b", 2))),
        ("{:a #_ 1 2 #_ :b}", {A: 2}),
    ],
)
def test_forms(text: str, value: Any) -> None:
    assert read_all(text) == [value]


def test_not_a_number_is_one() -> None:
    assert math.isnan(read_all("##NaN")[0])


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ("[1\n  2x]", 2, 3, "2x is not a number"),
        ("[1\n 2)", 2, 3, ") where ] is due"),
        ("1 }", 1, 3, "} closes nothing"),
        ("{:a 1\n :a 2}", 2, 6, "twice"),
        ("{:a}", 1, 4, "no value"),
        ("#{1 1}", 1, 6, "1 twice"),
        ("#{1 true}", 1, 9, "1 and True"),
        ("{1 :a 1.0 :b}", 1, 13, "1 and 1.0"),
        ("[1 2", 1, 5, "] is missing"),
        ("#{1", 1, 4, "} is missing"),
        ('[1 "ab', 1, 4, "a string that does not end"),
        ("[#_]", 1, 4, "nothing follows #_"),
        ("#inst", 1, 6, "nothing follows #inst"),
        ("007", 1, 1, "not a number"),
        (".5", 1, 1, "not a number"),
        ("1/0", 1, 1, "not a number"),
        ("1e400", 1, 1, "too large"),
        ("9" * 5000, 1, 1, "digits"),
        ("1e999999999M", 1, 1, "out of range"),
        ('"\\q"', 1, 1, "not an escape"),
        ('"\\ud800"', 1, 1, "half a character"),
        ("\\nope", 1, 1, "not a character"),
        (":", 1, 1, "not a keyword"),
        ("::a", 1, 1, "not a keyword"),
        ("a/b/c", 1, 1, "not EDN"),
        ("'a", 1, 1, "not EDN"),
        ('#"a"', 1, 1, "not a tag"),
        ("#{" * 3 + "[" * 100_000, 1, MAX_DEPTH + 4, "nested deeper"),
        ("#a " * 1000, 1, 3001, "nothing follows #a"),
    ],
)
def test_errors_have_a_place(text: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(EdnError) as caught:
        read_all(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert reason in caught.value.reason


def test_the_deepest_that_is_allowed() -> None:
    (value,) = read_all("#{" + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1) + "}")
    assert len(value) == 1


names = st.from_regex(r"[a-z][a-z0-9*!?-]{0,5}(/[a-z]{1,3})?", fullmatch=True).filter(
    lambda n: n not in ("nil", "true", "false")
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.fractions().filter(lambda f: f.denominator > 1),
    st.decimals(allow_nan=False, allow_infinity=False, places=3),
    texts,
    names.map(Keyword),
    names.map(Symbol),
    st.characters(exclude_categories=["Cs", "Cc", "Z"], max_codepoint=0xFFFF).map(Character),
)


def collections(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.one_of(texts, names.map(Keyword), st.tuples(st.integers(), texts))
    return st.one_of(
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
        st.frozensets(keys, max_size=4),
        st.builds(Tagged, names, inner),
    )


values = st.recursive(scalars, collections, max_leaves=25)


@settings(max_examples=300, deadline=None)
@given(values)
def test_what_is_written_is_read(value: Any) -> None:
    (again,) = read_all(write(value))
    assert again == value
    assert write(again) == write(value)


@settings(max_examples=500, deadline=None)
@given(
    st.text(st.sampled_from('[](){}#_"\\;:/ \n,+-.0123456789eMNabnil\u00e9\x00'), max_size=60) | st.text(max_size=40)
)
def test_garbage_has_one_error(text: str) -> None:
    lines = text.split("\n")
    with suppress(EdnError):
        read_all(text)
        return
    with pytest.raises(EdnError) as caught:
        read_all(text)
    error = caught.value
    assert 1 <= error.line <= len(lines)
    assert 1 <= error.column <= len(lines[error.line - 1]) + 1


@settings(max_examples=200, deadline=None)
@given(st.lists(values, min_size=1, max_size=4), st.data())
def test_pieces_are_read_like_the_whole(forms: list[Any], data: st.DataObject) -> None:
    """Cut after line feeds: as a bare sequence, and as the elements of one vector with tags and discarded forms."""
    for opening, closing in ("", ""), ("[\n", "\n]"), ("(", ")\n; end"):
        lines = (opening + "\n#_ 0\n".join(write(form) for form in forms) + closing).splitlines(keepends=True)
        cuts = sorted(data.draw(st.sets(st.integers(0, len(lines)))))
        reader = Reader(unwrap=bool(opening))
        found: list[Any] = []
        for start, end in zip([0, *cuts], [*cuts, len(lines)], strict=True):
            found += reader.feed("".join(lines[start:end]))
        found += reader.close()
        assert found == forms


def test_a_string_may_be_cut() -> None:
    reader = Reader()
    assert [*reader.feed('["a\n'), *reader.feed("b\n"), *reader.feed('c" 1'), *reader.feed("]"), *reader.close()] == [
        ("a\nb\nc", 1)
    ]


def test_the_outermost_vector_is_given_piece_by_piece() -> None:
    reader = Reader(unwrap=True)
    assert list(reader.feed("[1 2\n")) == [1, 2]
    assert list(reader.feed("#a\n")) == []
    assert list(reader.feed("3 [4\n")) == [Tagged("a", 3)]
    assert list(reader.feed("5]]\n")) == [(4, 5)]
    with pytest.raises(EdnError, match="something follows"):
        list(reader.feed("6\n"))


def test_a_vector_that_does_not_end_is_an_error_after_its_elements() -> None:
    reader = Reader(unwrap=True)
    assert list(reader.feed("[1 2")) == [1, 2]
    with pytest.raises(EdnError, match="] is missing"):
        list(reader.close())
