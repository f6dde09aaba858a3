"""Do the locks fit pyproject.toml? `python -m tests.setup.locks` says what does not, and how to put it right.

A lock fits when it pins, by hash and without the address of any index, exactly what pyproject.toml asks for and what that needs in turn,
each within its range, and when all locks agree with each other. Needs everything in the locks to be installed, to know what needs what.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
RUN, TEST, BUILD = "requirements.lock", "requirements-test.lock", "requirements-build.lock"
REMEDY = "Write the locks anew: tox run -e lock"


@dataclass(frozen=True, kw_only=True)
class Pin:
    version: Version
    hashes: int
    here: bool  # its marker holds on this machine


def read_lock(path: Path) -> dict[str, Pin]:
    """Canonical name -> pin."""
    pins = {}
    for entry in re.split(r"\n(?=\S)", path.read_text()):
        if not entry.startswith(("#", "-")) and entry.strip():
            asked = Requirement(re.split(r"\s*\\\n|\s+--hash", entry, maxsplit=1)[0].strip())
            version = Version(str(asked.specifier).removeprefix("=="))
            here = asked.marker is None or asked.marker.evaluate()
            pins[canonicalize_name(asked.name)] = Pin(version=version, hashes=entry.count("--hash=sha256:"), here=here)
    return pins


def asked_for(pyproject: Path) -> dict[str, list[Requirement]]:
    """Lock -> what pyproject.toml wants in it."""
    told = tomllib.loads(pyproject.read_text())
    groups: Mapping[str, list[str]] = told["dependency-groups"]
    runtime = told["project"]["dependencies"]
    wanted = {
        RUN: runtime,
        TEST: [*runtime, *groups["test"], *groups["lint"], *groups["tox"]],
        BUILD: [*groups["build"], *told["build-system"]["requires"]],
    }
    return {lock: [Requirement(line) for line in lines] for lock, lines in wanted.items()}


def needed_by(wanted: Iterable[Requirement]) -> set[str]:
    """Canonical names of what is asked for and of all that needs in turn here, as the installed packages say."""
    seen: set[tuple[str, str]] = set()
    waiting = [(canonicalize_name(asked.name), extra) for asked in wanted for extra in ("", *asked.extras)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for line in requires(name) or ():
            asked = Requirement(line)
            if asked.marker is None or asked.marker.evaluate({"extra": extra}):
                waiting += [(canonicalize_name(asked.name), more) for more in ("", *asked.extras)]
    return {name for name, _ in seen}


def problems(root: Path) -> list[str]:
    asked = asked_for(root / "pyproject.toml")
    locks = {name: read_lock(root / name) for name in asked}
    found = []
    for lock, pins in locks.items():
        found += [f"{lock}: {name} has no hash" for name, pin in pins.items() if not pin.hashes]
        found += [
            f"{lock}: names an index"
            for line in (root / lock).read_text().splitlines()
            if "://" in line or "index" in line
        ]
        found += _outside_of_range(lock, pins, asked[lock])
        found += _not_what_is_needed(lock, pins, asked[lock])
    for name, pin in locks[TEST].items():
        for other in (RUN, BUILD):
            if name in locks[other] and locks[other][name].version != pin.version:
                found.append(f"{name} is {pin.version} in {TEST} and {locks[other][name].version} in {other}")
    return found


def _outside_of_range(lock: str, pins: Mapping[str, Pin], asked: Iterable[Requirement]) -> list[str]:
    found = []
    for wanted in asked:
        pin = pins.get(canonicalize_name(wanted.name))
        if pin is None:
            found.append(f"{lock}: {wanted} is not in it")
        elif pin.version not in wanted.specifier:
            found.append(f"{lock}: {wanted.name} {pin.version} is not {wanted.specifier}")
    return found


def _not_what_is_needed(lock: str, pins: Mapping[str, Pin], asked: Iterable[Requirement]) -> list[str]:
    try:
        needed = needed_by(asked)
    except PackageNotFoundError as error:
        return [f"{lock}: {error.name} is needed and not installed (harness/set-up.sh test)"]
    here = {name for name, pin in pins.items() if pin.here}
    return [f"{lock}: {name} is needed and not in it" for name in sorted(needed - here)] + [
        f"{lock}: nothing needs {name}" for name in sorted(here - needed)
    ]


if __name__ == "__main__":
    if found := problems(ROOT):
        sys.exit("\n".join([*found, REMEDY]))
