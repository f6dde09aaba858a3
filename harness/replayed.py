"""Choices of an earlier run, kept inside the run that takes them again, so that its directory tells the whole story.

<run>/replayed/choices.jsonl    the earlier run's choices.jsonl
"""

from __future__ import annotations

import shutil
from pathlib import Path

from harness.history.errors import HistoryError
from harness.history.plan import CHOICES

REPLAYED = "replayed"


def keep_replayed(directory: Path, earlier: Path) -> None:
    """Copy the choices of the `earlier` run into the new run. HistoryError when it has none."""
    if not (earlier / CHOICES).is_file():
        raise HistoryError(
            earlier / CHOICES, "", "no choices were recorded here; `krash recover` finishes a run that died"
        )
    (directory / REPLAYED).mkdir()
    shutil.copyfile(earlier / CHOICES, directory / REPLAYED / CHOICES)


def replayed(directory: Path) -> Path | None:
    """Where `history.plan.recorded_choices` finds the choices to take again, if there are any."""
    return directory / REPLAYED if (directory / REPLAYED).is_dir() else None
