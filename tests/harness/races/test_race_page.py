import io

import pytest
from rich.console import Console

from harness.plugins import Group, registered
from harness.race_page import print_race
from harness.races import find_race


def page(name: str, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    print_race(console, find_race(name), "krash race run it")
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_paragraphs_are_set_anew_for_the_terminals_width() -> None:
    told = page("kafka-14139", 70)
    assert "The leader b1 asks the controller to add its follower b2 to the ISR." in told
    assert max(map(len, told.splitlines())) <= 70


def test_what_a_variant_is_goes_on_below_its_text() -> None:
    lines = page("kafka-14139", 60).splitlines()
    at = next(number for number, line in enumerate(lines) if "  stale-fetch " in line)
    column = lines[at].index("a Fetch of b2")
    assert lines[at + 1][:column].isspace()
    assert lines[at + 1][column] != " "


@pytest.mark.parametrize("name", list(registered(Group.RACES)))
def test_every_story_is_told_word_for_word(name: str) -> None:
    race = find_race(name)
    told = page(name, 200).split()
    assert not [word for word in race.story.split() if word not in told]
    assert all(variant in told for variant in race.variants)
