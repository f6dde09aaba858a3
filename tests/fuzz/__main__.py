"""The reference node's decoders and a whole node under arbitrary bytes, for as long as one likes (`tox run -e slow-fuzz -- --minutes 30`).

    python -m tests.fuzz [--minutes 10] [--only request,batch,metadata,server] [--directory .fuzz] [--defect]

Each target gets an equal share of the minutes. Decoders (`decoders.py`) are fuzzed with coverage by atheris, which is libFuzzer for Python:
whatever reaches a new line is kept in `DIRECTORY/<target>/corpus`, and the next run goes on from there. The server (`server.py`) is one
process with both roles that Hypothesis sends connections full of nearly valid requests. An input that brings one of them down is a file in
`DIRECTORY/<target>/failures`, and the exit code is 1.

`--defect`: without the check that a request keeps within its frame (`bounds.py`), and then the exit code is 1 if nothing is found.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz import server
from tests.fuzz.seeds import write_seeds

DECODERS = ("request", "batch", "metadata")
TARGETS = (*DECODERS, "server")
REMEDY = "atheris is missing: uv pip install atheris==3.0.0 (it has wheels for Linux and Python 3.11 to 3.13), or --only server"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="of all targets together")
    parser.add_argument("--only", default=",".join(TARGETS), help="targets, comma-separated")
    parser.add_argument("--directory", type=Path, default=Path(".fuzz"), help="of what was found, good and bad")
    parser.add_argument("--defect", action="store_true", help="a decoder with a defect, which must be found")
    chosen = parser.parse_args(arguments)
    targets = ["request"] if chosen.defect else chosen.only.split(",")
    if unknown := set(targets) - set(TARGETS):
        parser.error(f"{', '.join(sorted(unknown))}: there are {', '.join(TARGETS)}")
    if set(targets) & set(DECODERS) and importlib.util.find_spec("atheris") is None:
        print(REMEDY, file=sys.stderr)
        return 2
    seconds = 60 * chosen.minutes / len(targets)
    failed = [target for target in targets if not _sound(target, chosen.directory, seconds, defect=chosen.defect)]
    for target in targets:
        print(f"{target}: {'FAILED, see ' + str(chosen.directory / target) if target in failed else 'nothing found'}")
    return int(bool(failed) != chosen.defect)


def _sound(target: str, directory: Path, seconds: float, *, defect: bool) -> bool:
    began = time.monotonic()
    where = directory / (f"{target}-with-defect" if defect else target)
    corpus, failures = where / "corpus", where / "failures"
    for each in (corpus, failures):
        each.mkdir(parents=True, exist_ok=True)
    if target == "server":
        return server.run(seconds, where)
    write_seeds(target, corpus)
    before = len(list(corpus.iterdir()))
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.decoders",
        target,
        *(["--defect"] if defect else []),
        "--",
        str(corpus),
    ]
    flags = [f"-max_total_time={max(1, round(seconds))}", f"-artifact_prefix={failures}/", "-max_len=4096"]
    limits = ["-rss_limit_mb=2048", "-timeout=20", "-print_final_stats=1"]
    ended = subprocess.run([*command, *flags, *limits], check=False).returncode
    print(f"{target}: {time.monotonic() - began:.0f} s, corpus {before} -> {len(list(corpus.iterdir()))}, exit {ended}")
    return ended == 0


if __name__ == "__main__":
    sys.exit(main())
