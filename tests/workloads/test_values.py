import pytest

from workloads.values import padded, recorded


def test_padding_repeats_the_identity():
    assert padded("log/0/3/12", 25) == "log/0/3/12 log/0/3/12 log"
    assert padded("log/0/3/12", 4) == "log/0/3/12"


@pytest.mark.parametrize("size", [0, 10, 11, 12, 25, 1000])
def test_an_intact_value_is_recorded_as_its_identity(size):
    assert recorded(padded("log/0/3/12", size).encode(), size) == "log/0/3/12"


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-1],
        lambda text: text + "x",
        lambda text: text[:20] + "?" + text[21:],
        lambda text: text[:11] + "log/1/4/99 " + text[22:],
    ],
)
def test_a_damaged_value_is_recorded_whole(damage):
    text = damage(padded("log/0/3/12", 40))
    assert recorded(text.encode(), 40) == text


def test_foreign_values_are_recorded_as_they_are():
    assert recorded(b"\xff\xfe", 0) == "\\xff\\xfe"
    assert recorded(b"hello world", 0) == "hello world"
    assert recorded(b"", 0) == ""
    assert recorded(None, 0) is None
