"""The locks fit pyproject.toml, and the check notices when they do not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.setup.locks import BUILD, ROOT, RUN, TEST, problems


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in ("pyproject.toml", RUN, TEST, BUILD):
        shutil.copy2(ROOT / name, tmp_path / name)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_the_locks_of_this_checkout_fit() -> None:
    assert problems(ROOT) == []


def test_a_range_that_leaves_the_lock_behind_is_found(copy: Path) -> None:
    edit(copy / "pyproject.toml", '"typer>=0.15,<1"', '"typer>=99"')
    assert [line.split(":")[0] for line in problems(copy)] == [RUN, TEST]


def test_a_new_dependency_is_missed(copy: Path) -> None:
    edit(copy / "pyproject.toml", '"typer>=0.15,<1"', '"typer>=0.15,<1", "iniconfig"')
    assert f"{RUN}: iniconfig is not in it" in problems(copy)


def test_a_dependency_that_is_no_longer_wanted_is_found(copy: Path) -> None:
    edit(copy / "pyproject.toml", '"uvloop>=0.21,<1",', "")
    assert problems(copy) == [f"{RUN}: nothing needs uvloop", f"{TEST}: nothing needs uvloop"]


def test_a_pin_without_a_hash_is_found(copy: Path) -> None:
    (copy / BUILD).write_text((copy / BUILD).read_text() + "extra==1.0\n")
    assert f"{BUILD}: extra has no hash" in problems(copy)


def test_locks_that_disagree_are_found(copy: Path) -> None:
    edit(copy / TEST, "\nrich==", "\nrich==1!")
    assert any(line.startswith("rich is 1!") for line in problems(copy))


def test_an_address_of_an_index_is_found(copy: Path) -> None:
    edit(copy / RUN, "\nrich==", "\n--extra-index-url https://example.org/simple\nrich==")
    assert f"{RUN}: names an index" in problems(copy)
