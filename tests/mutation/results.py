"""What became of mutants: one JSON line each, and the table made of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from math import sqrt
from pathlib import Path

from tests.code import digest_of
from tests.generated import replace_part
from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.mutants import Mutant
from tests.mutation.subjects import RELATIONAL

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- mutation: written by tests/mutation -->", "<!-- end of mutation -->"


@dataclass(frozen=True, kw_only=True)
class Result:
    name: str
    module: str
    code: str  # digest of the module's code
    line: int
    kind: str
    old: str
    new: str
    killed_by: str  # a test, or how it was ended; empty: it survived
    seconds: float  # processor time
    date: str
    undecided: bool = False  # only its first tests were run, and none of them noticed

    @classmethod
    def of(cls, mutant: Mutant, code: str, killed_by: str, seconds: float, *, undecided: bool = False) -> Result:
        return cls(
            name=mutant.name,
            module=mutant.module,
            code=code,
            line=mutant.line,
            kind=mutant.kind,
            old=mutant.old,
            new=mutant.new,
            killed_by=killed_by,
            seconds=seconds,
            date=datetime.now(UTC).date().isoformat(),
            undecided=undecided,
        )

    def line_of_text(self) -> str:
        what = self.killed_by or ("undecided" if self.undecided else "SURVIVED")
        return f"{self.name} {self.module}:{self.line} {self.old!r} -> {self.new!r}: {what}"


class Results:
    """The last result of each mutant whose module still has the same code."""

    def __init__(self, path: Path, root: Path = ROOT) -> None:
        self.path = path
        self._root = root
        self._codes: dict[str, str] = {}
        lines = path.read_text().splitlines() if path.exists() else []
        self._all = {one.name: one for one in (Result(**json.loads(line)) for line in lines)}

    def add(self, result: Result) -> None:
        self._all[result.name] = result
        with self.path.open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")

    def settled(self, mutant: Mutant, code: str, *, again: bool, quick: bool = False) -> bool:
        """Nothing is left to try; `quick`: but for tests that take long."""
        result = self._all.get(mutant.name)
        if result is None or result.code != code or (result.undecided and not quick):
            return False
        return bool(result.killed_by) or not again or mutant.name in EQUIVALENT

    def current(self) -> list[Result]:
        return [one for one in self._all.values() if one.code == self._code(one.module)]

    def share(self) -> float:
        """Killed of those that can be: equivalent ones apart."""
        return _share(_killable(self.current()))[0]

    def _code(self, module: str) -> str:
        if module not in self._codes:
            path = self._root / module
            self._codes[module] = digest_of(path.read_text()) if path.exists() else ""
        return self._codes[module]


def _share(results: Iterable[Result]) -> tuple[float, float, float]:
    """Killed of them, with Wilson's 95 % interval; undecided ones count as alive."""
    killed = [bool(one.killed_by) for one in results]
    n = len(killed)
    if not n:
        return 0.0, 0.0, 1.0
    share, z = sum(killed) / n, 1.96
    middle, width = share + z * z / (2 * n), z * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return share, (middle - width) / (1 + z * z / n), (middle + width) / (1 + z * z / n)


def table(results: Results) -> str:
    rows = [
        "| modules | mutants | killed | equivalent | undecided | killed of all | of all but equivalent ones | core seconds |"
    ]
    rows.append("|---|---:|---:|---:|---:|---|---|---:|")
    found = results.current()
    groups: dict[str, list[Result]] = {}
    for one in found:
        groups.setdefault(_group(one.module), []).append(one)
    for name in (*sorted(groups), "all"):
        ones = found if name == "all" else groups[name]
        counts = (len(ones), *(sum(map(of, ones)) for of in (_killed, _equivalent, _undecided)))
        shares = (_told(_share(some)) for some in (ones, _killable(ones)))
        row = (name, *map(str, counts), *shares, f"{sum(one.seconds for one in ones):,.0f}")
        rows.append(f"| {' | '.join(row)} |")
    survivors = [one for one in found if not one.killed_by]
    if survivors:
        rows += ["", "Survivors:", ""]
    for one in sorted(survivors, key=lambda one: (one.module, one.line)):
        why = EQUIVALENT.get(
            one.name, "undecided, its first tests do not notice" if one.undecided else "**no test notices**"
        )
        rows.append(f"- `{one.module}:{one.line}` `{_short(one.old)}` becomes `{_short(one.new)}`: {why}")
    return "\n".join(rows)


def _told(share: tuple[float, float, float]) -> str:
    return "{:.1%} ({:.1%} to {:.1%})".format(*share)


def _killed(one: Result) -> bool:
    return bool(one.killed_by)


def _killable(results: Iterable[Result]) -> list[Result]:
    return [one for one in results if not _equivalent(one)]


def _equivalent(one: Result) -> bool:
    return not one.killed_by and one.name in EQUIVALENT


def _undecided(one: Result) -> bool:
    return one.undecided and not _equivalent(one)


def _short(text: str) -> str:
    flat = " ".join(text.split()).replace("`", "'")
    return flat if len(flat) <= 80 else f"{flat[:77]}..."


def _group(module: str) -> str:
    if module in RELATIONAL:
        return "Spark: " + Path(module).stem
    return Path(module).parent.name


def write_table(document: Path, results: Results) -> None:
    replace_part(document, BEGIN, END, table(results))
