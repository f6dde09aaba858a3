"""Every engine against brute force, 10^6 histories each; hours, goes on where it was (`tox run -e slow-brute-force`).

    python -m tests.harness.checker.linearizability.many [--histories 1000000] [--seconds 3600]

How far each engine is, is in docs/brute-force.json; docs/trust.md gets the table. Histories count only for the sources
that decided them: when an engine's files change, it begins again, and what older sources did stays listed as such.
Any disagreement is written down with its seed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.code import code_of
from tests.generated import replace_part
from tests.harness.checker.linearizability.subjects import SUBJECTS, Subject

DOCS = Path(__file__).parents[4] / "docs"
FIRST_SEED = 10**9  # unit tests begin at 0
CHUNK = 1000
BEGIN, END = "<!-- brute force: written by tests/harness/checker/linearizability/many.py -->", "<!-- end -->"


@dataclass(kw_only=True)
class Progress:
    engine: str
    sources: str
    seeds: int = 0  # tried
    histories: int = 0  # decided; the others were refused
    seconds: float = 0.0
    date: str = ""
    disagreements: list[int] = field(default_factory=list)  # seeds


def sources_of(subject: Subject) -> str:
    digest = hashlib.sha256()
    for source in subject.sources:
        digest.update(f"{source.name} {code_of(source.read_text())}\n".encode())
    return digest.hexdigest()[:12]


def load(path: Path) -> list[Progress]:
    return [Progress(**entry) for entry in json.loads(path.read_text())] if path.exists() else []


def save(path: Path, progress: Sequence[Progress]) -> None:
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps([asdict(one) for one in progress], indent=1) + "\n")
    beside.replace(path)


def go_on(subject: Subject, progress: Progress) -> None:
    began = time.process_time()
    for seed in range(FIRST_SEED + progress.seeds, FIRST_SEED + progress.seeds + CHUNK):
        agrees = subject.agrees(random.Random(seed))
        progress.histories += agrees is not None
        if agrees is False:
            progress.disagreements.append(seed)
    progress.seeds += CHUNK
    progress.seconds = round(progress.seconds + time.process_time() - began, 1)
    progress.date = datetime.now(UTC).date().isoformat()


def current(subject: Subject, all_progress: list[Progress]) -> Progress:
    digest = sources_of(subject)
    for one in all_progress:
        if (one.engine, one.sources) == (subject.engine, digest):
            return one
    all_progress.append(Progress(engine=subject.engine, sources=digest))
    return all_progress[-1]


def table(all_progress: Sequence[Progress]) -> str:
    lines = [
        "| engine | histories | disagreements | core seconds | last run | sources |",
        "|---|---:|---:|---:|---|---|",
    ]
    now = {subject.engine: sources_of(subject) for subject in SUBJECTS}
    for one in sorted(all_progress, key=lambda one: (one.engine, one.sources != now.get(one.engine))):
        which = "these" if one.sources == now.get(one.engine) else f"earlier ({one.sources})"
        lines.append(
            f"| {one.engine} | {one.histories:,} | {len(one.disagreements)} | {one.seconds:,.0f} | {one.date} | {which} |"
        )
    return "\n".join(lines)


def write_table(document: Path, all_progress: Sequence[Progress]) -> None:
    replace_part(document, BEGIN, END, table(all_progress))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=10**6, help="decided ones, per engine")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this long, and go on next time")
    parser.add_argument("--docs", type=Path, default=DOCS)
    chosen = parser.parse_args(arguments)
    path, document = chosen.docs / "brute-force.json", chosen.docs / "trust.md"
    all_progress = load(path)
    work = [(subject, current(subject, all_progress)) for subject in SUBJECTS]
    deadline = time.monotonic() + chosen.seconds
    while time.monotonic() < deadline:
        behind = [one for one in work if one[1].histories < chosen.histories]
        if not behind:
            break
        go_on(*min(behind, key=lambda one: one[1].histories))
        save(path, all_progress)
        write_table(document, all_progress)
    write_table(document, all_progress)
    print(table(all_progress))
    return 1 if any(one.disagreements for _, one in work) else 0


if __name__ == "__main__":
    sys.exit(main())
