"""Text from a history is shown, never obeyed: visible, finite, and encodable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.wording import at, clip, duration, number, plural, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, Grüße, 日本", "plain text, Grüße, 日本"),
        ("a\x00b", r"a\u0000b"),
        ("\x1b[31mred", r"\u001b[31mred"),
        ("41\u202e14", r"41\u202e14"),
        ("\u2066isolated\u2069", r"\u2066isolated\u2069"),
        ("half \ud83d of a pair", r"half \ud83d of a pair"),
        ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
        ("tag \U000e0041", r"tag \U000e0041"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("line\u2028separator", r"line\u2028separator"),
        ("e\u0301\u0301\u0301\u0301\u0301\u0301", "e\u0301\u0301\u0301\u0301" + r"\u0301\u0301"),
    ],
)
def test_hidden_characters_are_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text(alphabet=st.characters(), max_size=300))
def test_whatever_is_clipped_can_be_encoded_and_is_finite(text: str) -> None:
    shown = clip(text, 50)
    assert shown.encode() is not None
    assert len(shown) <= 150
    assert not set(shown) & {"\x00", "\x1b", "\u202e", "\ufeff"}


def test_clipping_says_how_long_the_whole_was() -> None:
    assert clip("x" * 5_000, 10) == "xxxxxxxxxx… (clipped, 5,000 characters)"
    assert clip("start", 160, length=1_048_576) == "start… (clipped, 1,048,576 characters)"
    assert clip("short", 10) == "short"


def test_what_was_clipped_is_not_clipped_again() -> None:
    once = clip("x" * 5_000, 1_000)
    assert clip(once, 10) == once


def test_times_and_numbers_read_well() -> None:
    assert at(4_312_919_896_000_000, 4_312_907_551_000_000) == "12.345 s"
    assert at(None, 0) == "never"
    assert [duration(s) for s in (8.5e-4, 0.012, 3.21, 245)] == ["850 µs", "12 ms", "3.2 s", "4 min 05 s"]
    assert [number(n) for n in (20431, 12.5, 1234.56, 0)] == ["20,431", "12.5", "1,235", "0"]
    assert [plural(1, "anomaly", "anomalies"), plural(1_200, "anomaly", "anomalies")] == [
        "1 anomaly",
        "1,200 anomalies",
    ]
