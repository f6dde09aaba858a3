"""Does any test notice when the judge is changed? Mutation testing; hours, goes on where it was (`tox run -e slow-mutation`).

    python -m tests.mutation [--only pure|relational] [--mutants 400] [--modules loss,zones] [--seconds 3600] [--again]
                             [--quick 6]

Each mutant that was tried is a line of docs/mutation.jsonl, and docs/trust.md gets the table. A result counts as long as
the code of its module is what it was; then the module's mutants are drawn anew. `--again` tries survivors once more,
after a test was added. Which mutants are drawn is told by a hash of their text, so that a longer run has those of a
shorter one. Survivors are what takes long: `--quick 6` gives each mutant 6 seconds of its tests, the most telling ones
first; who lives until then is undecided (which counts as surviving) until a run without it has tried all tests. Exit
code 1: of those that are not equivalent fewer than 95 % were killed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.code import digest_of
from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.fork import BROKEN, Ended, forked
from tests.mutation.mutants import Mutant
from tests.mutation.results import Result, Results, table, write_table
from tests.mutation.subjects import PURE, RELATIONAL, drawn

ROOT = Path(__file__).parents[2]
BAR = 0.95


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["pure", "relational"])
    parser.add_argument("--mutants", type=int, default=400, help="pure ones; a third as many relational ones")
    parser.add_argument(
        "--modules", default="", help="modules or folders, comma-separated: of the drawn ones, only theirs"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this long, and go on next time")
    parser.add_argument("--again", action="store_true", help="try survivors once more")
    parser.add_argument("--quick", type=float, help="core seconds for each mutant: who lives is undecided")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    chosen = parser.parse_args(arguments)
    results = Results(chosen.docs / "mutation.jsonl")
    deadline = time.monotonic() + chosen.seconds
    names = {name for name in chosen.modules.split(",") if name}
    for group, modules, count in (("pure", PURE, chosen.mutants), ("relational", RELATIONAL, chosen.mutants // 3)):
        if chosen.only in (None, group):
            mutants = [one for one in drawn(ROOT, modules, count, sql=group == "relational") if _named(one, names)]
            _try_all(group, mutants, results, deadline, again=chosen.again, quick=chosen.quick)
    write_table(chosen.docs / "trust.md", results)
    print(table(results))
    return 0 if results.share() >= BAR else 1


def _named(mutant: Mutant, names: set[str]) -> bool:
    path = Path(mutant.module)
    return not names or not names.isdisjoint((path.stem, path.parent.name, f"{path.parent.name}/{path.stem}"))


def _try_all(
    group: str, mutants: Sequence[Mutant], results: Results, deadline: float, *, again: bool, quick: float | None
) -> None:
    sources = {module: (ROOT / module).read_text() for module in {one.module for one in mutants}}
    digests = {module: digest_of(text) for module, text in sources.items()}
    briefly = quick is not None
    waiting = [one for one in mutants if not results.settled(one, digests[one.module], again=again, quick=briefly)]
    if not waiting:
        return
    with ExitStack() as stack:
        if group == "pure":
            os.environ["NUMBA_DISABLE_JIT"] = "1"
            from tests.mutation import pure as way
        else:
            from tests.mutation import relational as way  # type: ignore[no-redef]
        way.prepare(stack, ROOT)
        controlled: set[str] = set()
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="krash-mutation-")))
        for number, mutant in enumerate(waiting, 1):
            if time.monotonic() > deadline:
                print(f"{len(waiting) - number + 1} are left")
                return
            if mutant.module not in controlled:
                controlled.update(_control(way, mutant.module, sources, folder / "log", quick))
            if briefly and mutant.name in EQUIVALENT:
                results.add(Result.of(mutant, digests[mutant.module], "", 0.0, undecided=True))
                continue
            ended = _tried(way, mutant.module, mutant.applied(sources[mutant.module]), folder / "log", quick)
            undecided = ended.how == "out of wall time" or (briefly and not ended.said)
            killed_by = "" if undecided else ended.how if ended.said is None else ended.said
            result = Result.of(mutant, digests[mutant.module], killed_by, ended.seconds, undecided=undecided)
            results.add(result)
            print(f"{number}/{len(waiting)} {result.line_of_text()}", flush=True)


def _control(way: Any, module: str, sources: Mapping[str, str], log: Path, quick: float | None) -> set[str]:
    """Modules of the same folder, after one of them has passed as it is: tests that fail anyway would kill everything."""
    ended = _tried(way, module, sources[module], log, quick)
    if ended.said != "" and (quick is None or ended.how != "out of processor time"):
        raise RuntimeError(f"{module} fails without any change: {ended}\n{log.read_text()[-4000:]}")
    print(f"{module} as it is passes, in {ended.seconds:.0f} core seconds", flush=True)
    return {one for one in sources if Path(one).parent == Path(module).parent}


def _tried(way: Any, module: str, text: str, log: Path, quick: float | None) -> Ended:
    limits = way.LIMITS if quick is None else way.LIMITS | {"processor": quick}
    ended = forked(lambda: str(way.tried(ROOT, module, text)), **limits, log=log)
    way.tidied()
    if (ended.said or ended.how).startswith(BROKEN):
        raise RuntimeError(f"{module}: {ended.said or ended.how}\n{log.read_text()[-4000:]}")
    return ended


if __name__ == "__main__":
    sys.exit(main())
