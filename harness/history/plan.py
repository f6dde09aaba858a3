"""The choices of a whole run: `choices.jsonl`, merged from what each process wrote, read again for a replay, compared.

Order: by (actor, index); within one, choices by n, then resolutions by n. So two runs of one seed have the same file as
far as time allows: a client draws for as long as it runs (its actors start with "client/"), so two runs agree on a
common prefix of each of its streams; everybody else's choices are equal entirely. Resolutions are not part of the
plan: which node leads is the cluster's choice.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any

from harness.choices import Choice, Key, unpacked
from harness.history.errors import HistoryError

CHOICES = "choices.jsonl"
CLIENT = "client/"


def client_actor(client: str, phase: str, actor: str) -> str:
    """Actors of client processes: apart for every client and phase, whatever names the workload gives them."""
    return f"{CLIENT}{client}/{phase}/{actor}"


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two plans part; None: that plan had ended there."""

    a: Choice | None
    b: Choice | None

    def __str__(self) -> str:
        at = self.a or self.b
        assert at is not None
        says = [f"{choice.what}: {_shown(choice.value)}" if choice else "nothing more" for choice in (self.a, self.b)]
        return f"choice {at.n} of {at.actor} {at.index} is {says[0]} in one, {says[1]} in the other"


def _shown(value: Any) -> str:
    text = str(_plain(value))
    return text if len(text) <= 60 else f"{text[:60]}…"


def recorded_choices(run_dir: Path, actors: str = "") -> dict[Key, list[Choice]]:
    """What a run chose, for `Choices(recorded=...)`; only actors that start with `actors`."""
    found: dict[Key, list[Choice]] = {}
    for choice in read_choices(run_dir / CHOICES):
        if choice.actor.startswith(actors):
            found.setdefault((choice.actor, choice.index), []).append(choice)
    return found


def read_choices(path: Path) -> Iterator[Choice]:
    """Choices (not resolutions) of a merged file, in order. HistoryError names the line that cannot be read."""
    if not path.is_file():
        raise HistoryError(path, "", "no choices were recorded here (a run that is not finished? try `krash recover`)")
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            line = _parsed(path, number, raw)
            if "resolved" not in line:
                yield Choice(line["actor"], line["index"], line["n"], line["what"], line["value"])


def first_difference(a: Path, b: Path) -> Difference | None:
    """None when two run directories have the same plan; otherwise the first place where they differ."""
    streams_a, streams_b = _streams(a), _streams(b)
    next_a, next_b = next(streams_a, None), next(streams_b, None)
    while next_a or next_b:
        if next_b is None or (next_a is not None and next_a[0] < next_b[0]):
            assert next_a is not None
            if not next_a[0][0].startswith(CLIENT):
                return Difference(next(next_a[1]), None)
            next_a = next(streams_a, None)
        elif next_a is None or next_b[0] < next_a[0]:
            if not next_b[0][0].startswith(CLIENT):
                return Difference(None, next(next_b[1]))
            next_b = next(streams_b, None)
        else:
            if difference := _parting(next_a[1], next_b[1]):
                return difference
            next_a, next_b = next(streams_a, None), next(streams_b, None)
    return None


def merge_choices(files: Iterable[Path], to: Path) -> int:
    """Write what all processes of a run chose in order; returns the bytes of torn last lines that were left out.

    Keeps the offset of each line in memory, not the lines.
    """
    torn = 0
    places: dict[tuple[str, int, bool], array[int]] = {}
    with ExitStack() as stack, to.open("wb") as merged:
        sources = [(path, stack.enter_context(path.open("rb"))) for path in sorted(files)]
        for place, (path, source) in enumerate(sources):
            offset = 0
            for number, raw in enumerate(source, start=1):
                if raw.endswith(b"\n"):
                    line = _parsed(path, number, raw)
                    key = (line["actor"], line["index"], "resolved" in line)
                    places.setdefault(key, array("q")).extend((place, offset))
                else:
                    torn += len(raw)
                offset += len(raw)
        for _, where in sorted(places.items()):
            for place, offset in zip(where[::2], where[1::2], strict=True):
                source = sources[place][1]
                source.seek(offset)
                merged.write(source.readline())
    return torn


def _streams(run_dir: Path) -> Iterator[tuple[Key, Iterator[Choice]]]:
    return groupby(read_choices(run_dir / CHOICES), key=lambda choice: (choice.actor, choice.index))


def _parting(a: Iterator[Choice], b: Iterator[Choice]) -> Difference | None:
    for one, other in zip_longest(a, b):
        if one is None or other is None:
            at = one or other
            return None if at.actor.startswith(CLIENT) else Difference(one, other)
        if (one.n, one.what, _plain(one.value)) != (other.n, other.what, _plain(other.value)):
            return Difference(one, other)
    return None


def _plain(value: Any) -> Any:
    """Packed lists may differ in bytes and be equal (another zlib)."""
    places = unpacked(value)
    return value if places is None else places


def _parsed(path: Path, number: int, raw: bytes) -> Mapping[str, Any]:
    try:
        line = json.loads(raw)
        needed = {"actor": str, "index": int, "n": int, "resolved" if "resolved" in line else "what": str}
        if all(isinstance(line.get(key), kind) for key, kind in needed.items()) and "value" in line:
            return dict(line)
    except (ValueError, TypeError, AttributeError):
        pass
    raise HistoryError(path, f"line {number}", "not a choice: expected JSON with actor, index, n, what and value")
