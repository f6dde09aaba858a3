"""What a kept try depends on: code, not sentences; its own race, not another."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import fingerprint
from harness.fingerprint import code_only, key_of
from harness.races import find_race

SOURCE = '''
"""A module."""
class A:
    """A class."""
    x = 1  # a comment
async def f():
    """A function."""
def g():
    """Another."""
    return "text"
'''


def test_sentences_do_not_count_and_code_does() -> None:
    other = SOURCE.replace("A module", "What it is").replace("A function", "What it does").replace("# a comment", "")
    assert code_only(other) == code_only(SOURCE)
    assert code_only(SOURCE.replace("x = 1", "x = 2")) != code_only(SOURCE)
    assert code_only(SOURCE.replace('"text"', '"words"')) != code_only(SOURCE)


def key(name: str = "kafka-14139", system: str = "kafka:3.4.1", **parameters: object) -> str:
    return key_of(find_race(name), system=system, metadata_version=None, parameters=parameters)


def test_race_system_and_parameters_make_the_key() -> None:
    assert key() == key()
    assert len({key(), key("recreated-topic"), key(system="kafka:3.9.2"), key(records=1)}) == 4


@pytest.mark.parametrize(
    ("touched", "changes"),
    [
        ("nodes/cluster.py", True),
        ("nemesis/races/stage.py", True),
        ("harness/checker/loss.py", True),
        ("nemesis/races/stale_alter_partition.py", True),
        ("nemesis/races/recreated_topic.py", False),
        ("reports/page.py", False),
        ("harness/cli.py", False),
    ],
)
def test_what_could_change_the_outcome_changes_the_key(
    monkeypatch: pytest.MonkeyPatch, touched: str, changes: bool
) -> None:
    before, file = key(), fingerprint._file

    def touch(path: Path) -> str:
        return file(path) + "touched" * (path == Path(fingerprint.__file__).parents[1] / touched)

    monkeypatch.setattr(fingerprint, "_file", touch)
    fingerprint._common.cache_clear()
    try:
        assert (key() != before) is changes
    finally:
        fingerprint._common.cache_clear()
