"""Every test runs in exactly one tox environment, whatever its markers: nothing is forgotten and nothing runs twice."""

from __future__ import annotations

import configparser
import itertools
import re
import tomllib

import pytest

from tests.setup.checkout import ROOT

CHOOSING = ("checker", "setup", "kafka", "reference", "races", "docker", "browser", "benchmark")


def selections() -> dict[str, str]:
    """Environment -> its marker expression."""
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    found = {}
    for section in tox.sections():
        if match := re.search(r'\[krash\]pytest\} -m (?:"([^"]*)"|(\w+))', tox[section].get("commands", "")):
            found[section.removeprefix("testenv:")] = match[1] or match[2]
    return found


@pytest.mark.parametrize("markers", list(itertools.product([False, True], repeat=len(CHOOSING))), ids=str)
def test_each_set_of_markers_belongs_to_one_environment(markers: tuple[bool, ...]) -> None:
    present = dict(zip(CHOOSING, markers, strict=True))
    chosen = [name for name, expression in selections().items() if eval(expression, {}, present)]
    assert len(chosen) == 1, chosen


def test_the_markers_are_those_that_pytest_knows() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    used = set(re.findall(r"\w+", " ".join(selections().values()))) - {"not", "and", "or"}
    assert used == set(CHOOSING)
    assert used <= {line.partition(":")[0] for line in declared}


def test_all_but_the_slow_ones_run_by_default() -> None:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    listed = {name.strip() for name in tox["tox"]["env_list"].split(",")}
    assert {name for name in selections() if not name.startswith("slow-")} | {"lint", "typing"} == listed
