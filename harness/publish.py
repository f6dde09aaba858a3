"""report.html and junit.xml of a judged run. What fails here is told, and never changes a verdict (DESIGN decision 8)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from harness.history.arrow import spare_pandas
from harness.history.rundir import read_run_info, write_whole
from reports.verdict import Verdict


def load() -> None:
    """What reports are drawn with takes seconds to import: while the judge is at work, nobody waits for it."""
    with suppress(ImportError):  # `publish` says what is missing
        import matplotlib.backends.backend_svg
        import matplotlib.figure  # noqa: F401

        from reports import evidence, junit, page  # noqa: F401


def publish(directory: Path, verdict: Verdict) -> list[str]:
    """Write both files; returns one complaint per file that could not be written."""
    spare_pandas()
    complaints = []
    for name, render in (("report.html", _page), ("junit.xml", _junit)):
        try:
            write_whole(directory / name, render(directory, verdict).encode())
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a picture, the verdict stands
            complaints.append(f"{name} could not be written: {type(error).__name__}: {error}")
    return complaints


def _page(directory: Path, verdict: Verdict) -> str:
    from reports import evidence, page

    return page.render(evidence.gather(read_run_info(directory).as_json(), verdict, directory / "history"))


def _junit(directory: Path, verdict: Verdict) -> str:
    from reports import junit

    return junit.render(verdict, read_run_info(directory).as_json())
