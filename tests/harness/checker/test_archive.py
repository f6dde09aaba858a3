"""The class data archive: used where it may be believed, and a session starts without one that does not fit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.checker import archive
from nodes.kafka.java import find_java


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_an_archive_is_used_when_it_is_there_and_only_then() -> None:
    path = archive.archive_path()
    assert path is not None
    assert archive.flags() == []
    path.touch()
    assert f"-XX:SharedArchiveFile={path}" in archive.flags()


def test_an_archive_that_is_used_outlives_newer_ones_that_are_not() -> None:
    mine = archive.archive_path()
    assert mine is not None
    for age, path in enumerate([*(mine.with_name(f"other{number}.jsa") for number in range(archive.KEPT)), mine]):
        path.touch()
        os.utime(path, (1e9 - age, 1e9 - age))
    archive.flags()
    archive._forget(mine.parent)
    assert sorted(path.name for path in mine.parent.iterdir()) == sorted([mine.name, "other0.jsa", "other1.jsa"])


def test_an_archive_that_others_can_write_is_not_believed() -> None:
    path = archive.archive_path()
    assert path is not None
    path.touch()
    path.parent.chmod(0o777)
    assert archive.flags() == []


def test_other_jars_have_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "pyspark"
    (package / "jars").mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    empty = archive.archive_path()
    (package / "jars" / "spark.jar").write_text("other classes")
    assert None not in (empty, archive.archive_path())
    assert archive.archive_path() != empty


def test_java_starts_without_a_word_where_an_archive_does_not_fit() -> None:
    java, path = find_java(), archive.archive_path()
    assert java is not None
    assert path is not None
    path.write_bytes(b"no archive" * 1000)
    told = subprocess.run([java.path, *archive.flags(), "-version"], capture_output=True, text=True, check=True)
    assert told.stdout == ""
    assert "warning" not in told.stderr.lower()
