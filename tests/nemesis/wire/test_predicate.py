"""The language of `where`, and what it refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemesis.wire.predicate import BadPredicate, parse

FIELDS = {
    "newIsr": [1, 2],
    "leaderEpoch": 3,
    "topic": "log",
    "committed": True,
    "rack": None,
    "listeners": [{"name": "A", "port": 9092}, {"name": "B", "port": 9093}],
    "deep": {"er": {"est": 7}},
}


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("newIsr contains 2", True),
        ("newIsr contains 3", False),
        ("newIsr = [2, 1]", True),
        ("newIsr = [1]", False),
        ("newIsr = 1", True),
        ("topic contains lo", True),
        ('topic = "log"', True),
        ("topic in [a, log]", True),
        ("leaderEpoch in [1, 2]", False),
        ("leaderEpoch >= 3 and topic = log", True),
        ("leaderEpoch > 3 or topic = log", True),
        ("leaderEpoch > 3 or topic = log and leaderEpoch < 3", False),
        ("(leaderEpoch > 3 or topic = log) and leaderEpoch <= 3", True),
        ("not leaderEpoch = 3", False),
        ("not not leaderEpoch = 3", True),
        ("leaderEpoch != 3", False),
        ("leaderEpoch != 4", True),
        ("leaderEpoch = 3.0", True),
        ("committed = true", True),
        ("committed = 1", False),
        ("committed > 0", False),
        ("rack = null", True),
        ("listeners.port = 9093", True),
        ("listeners.port > 9093", False),
        ("listeners.name in [B]", True),
        ("deep.er.est = 7", True),
        ("missing = 1", False),
        ("missing != 1", True),
        ("missing.too contains x", False),
        ("leaderEpoch < log", False),
        ("topic < 3", False),
        ("leaderEpoch > -4", True),
    ],
)
def test_answers(question: str, answer: bool) -> None:
    assert parse(question)(FIELDS) is answer


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("", "the name of a field, found the end"),
        ("newIsr", "one of = "),
        ("newIsr has 2", "found `has`"),
        ("newIsr contains", "a value, found the end"),
        ("newIsr contains 2 3", "`and`, `or` or the end, found `3`"),
        ("newIsr in 2", r"a list, \[a, b\]"),
        ("(a = 1", "`\\)`"),
        ("a = [1", "`\\]`"),
        ("3 = a", "the name of a field, found `3`"),
        ("a = 1 and", "the name of a field"),
        ("a = )", "a value, found `\\)`"),
        ("a = 'x'", "cannot read"),
        ("__import__('os')", "cannot read"),
        ("(" * 200 + "a = 1" + ")" * 200, "nested deeper"),
    ],
)
def test_what_is_no_question_is_refused_with_its_place(question: str, expected: str) -> None:
    with pytest.raises(BadPredicate, match=expected):
        parse(question)


@given(st.text(alphabet="ab 12=<>!()[],\"'.andorticns", max_size=40))
def test_any_text_is_a_question_or_refused(text: str) -> None:
    try:
        question = parse(text)
    except BadPredicate:
        return
    assert question(FIELDS) in (True, False)
