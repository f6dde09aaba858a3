"""A class data archive for the judge's JVM (AppCDS): classes are mapped from one file instead of being parsed from 280 jars.

    $XDG_CACHE_HOME/krash/spark/17.0.15-1c9f0e5d3a7b-5be0c2a4d1f7.jsa        180 MB; named by the Java and by the jars

    python -m harness.checker.archive      made once, at set-up: some 20 s and 50 s of processor time

Half of what judging a small run cost was loading classes: 22 s of the JVM's processor time without an archive, 12 s with one.

An archive is believed, so it is used only from a directory that nobody else can write. It holds what a session loads that
judges a sample, once interpreted and once with generated code. It fits one Java and one set of jars: the name says which, and
the JVM itself checks every jar, and starts without it and without a word where it does not fit. Nothing waits for one: a
session without starts as it always did.

`-XX:ArchiveClassesAtExit` refuses directories with files on the class path. Spark's only one is its settings' directory, so
that is one that cannot exist (`NO_DIRECTORY`).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

from harness.checker.own_directory import own_directory
from nodes.kafka.java import archive_flags, find_java

NO_DIRECTORY = "/dev/null/krash"
KEPT = 3  # archives: of virtual environments that are used in turns


def archive_path() -> Path | None:
    """Where the archive of this Java and this PySpark is, or would be. None: one of them is missing, or no directory is ours alone."""
    java = find_java()
    pyspark = importlib.util.find_spec("pyspark")
    directory = own_directory("spark")
    if java is None or pyspark is None or pyspark.origin is None or directory is None:
        return None
    digest = hashlib.sha256()
    for jar in sorted((Path(pyspark.origin).parent / "jars").glob("*.jar")):
        found = jar.stat()
        digest.update(f"{jar} {found.st_size} {found.st_mtime_ns}\n".encode())
    return directory / f"{java.key}-{digest.hexdigest()[:12]}.jsa"


def flags() -> list[str]:
    """What makes a session's JVM use the archive; empty where there is none."""
    path = archive_path()
    if path is None or not path.is_file():
        return []
    with contextlib.suppress(OSError):
        os.utime(path)  # those that are not used go first
    return archive_flags(str(path))


def make_archive() -> bool:
    """Make the archive unless it is there; whether it is there afterwards. SparkFailed when Spark does not even start."""
    path = archive_path()
    if path is None:
        return False
    if path.is_file():
        return True
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".train-") as scratch:
        made = Path(scratch) / "archive.jsa"
        _train(made, Path(scratch) / "sample")
        if not made.is_file():
            return False
        made.rename(path)
    _forget(path.parent)
    return True


def _forget(directory: Path) -> None:
    """All archives but the KEPT that were used last."""
    used = sorted(directory.glob("*.jsa"), key=lambda one: one.stat().st_mtime, reverse=True)
    for old in used[KEPT:]:
        with contextlib.suppress(OSError):
            old.unlink()


def _train(made: Path, run_dir: Path) -> None:
    """Judge a sample as a small history and as a large one, in a JVM that writes the archive when it exits."""
    from harness.checker.history import SMALL_ROWS, opened
    from harness.checker.judge import judge_history
    from harness.checker.sample import save_sample
    from harness.checker.session import spark_session
    from harness.history.reading import open_run

    stored = [open_run(save_sample(run_dir, lost=True))]
    with spark_session(archive=made) as spark:
        for rows in (0, SMALL_ROWS):
            with opened(spark, stored, rows=rows) as history:
                judge_history(history)


def main() -> int:
    if importlib.util.find_spec("pyspark") is None:
        return 0
    why = "the JVM wrote none"
    try:
        made = make_archive()
    except Exception as error:  # noqa: BLE001 it only saves time: whatever went wrong must not stop a set-up
        made, why = False, f"{type(error).__name__}: {error}"
    if not made:
        print(f"no class data archive, so the judge will start more slowly: {why}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
