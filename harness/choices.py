"""Every random decision of a run, drawn from substreams and written down, so that a run can be compared and repeated.

A substream belongs to (seed, actor, index): one actor's luck does not shift another's, whatever the order in which
they draw. What a draw abstractly chose is one line of `choices.jsonl`; what it resolved to when its time came (which
node led) stands beside it and is not part of the plan:

    {"actor": "nemesis", "index": 0, "n": 0, "what": "choice of 3", "value": 1, "picked": "kill"}
    {"actor": "nemesis", "index": 0, "n": 1, "what": "uniform 1.0 .. 5.0", "value": 3.25}
    {"actor": "client/w1/producer", "index": 0, "n": 0, "what": "choices 1024 of 4", "value": "u1z:eJxjYGRg..."}
    {"actor": "nemesis", "index": 0, "n": 0, "resolved": "leader of log-0", "value": ["b2"]}

Lower floors get a plain `random.Random`; here it is a `RecordedRandom`, which records each call as one choice (a block
of a thousand numbers too: draw in blocks on hot paths). On a replay the recorded value wins over the drawn one as long
as records last and fit what is asked; the draw is made all the same, so that what comes after the records is what the
original run would have drawn.

While a run is live each process has a file of its own, `journal/<writer>.choices`, a write(2) per line;
`history/plan.py` merges and compares them.
"""

from __future__ import annotations

import json
import os
import random
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

_PACKED_FROM = 32
_WIDTHS = {1: "B", 2: "H", 4: "I", 8: "Q"}
T = TypeVar("T")
Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Choice:
    actor: str
    index: int
    n: int  # from 0 within (actor, index)
    what: str
    value: Any


class Choices:
    """The choice sequence of one process. `recorded`: choices to take again, see `history.plan.recorded_choices`."""

    def __init__(
        self, seed: int, recorded: Mapping[Key, Sequence[Choice]] | None = None, *, file: Path | None = None
    ) -> None:
        self.seed = seed
        self.misfits: list[Choice] = []  # recorded choices that did not fit what was asked; drawn instead
        self._recorded = recorded or {}
        self._streams: dict[Key, RecordedRandom] = {}
        self._resolutions: dict[Key, int] = {}
        self._fd: int | None = None
        if file is not None:
            self._fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def stream(self, actor: str, index: int) -> random.Random:
        """The substream of one actor, the same one each time. For one thread at a time."""
        key = (actor, index)
        if key not in self._streams:
            self._streams[key] = RecordedRandom(self, actor, index, self._recorded.get(key, ()))
        return self._streams[key]

    def resolved(self, actor: str, index: int, what: str, value: Any) -> None:
        """What an abstract choice came to, e.g. "leader of log-0" -> ["b2"]; `value` is plain JSON data."""
        n = self._resolutions.get((actor, index), 0)
        self._resolutions[actor, index] = n + 1
        self._write({"actor": actor, "index": index, "n": n, "resolved": what, "value": value})

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._fd is not None:
            data = memoryview(json.dumps(line, separators=(",", ":")).encode() + b"\n")
            while data:
                data = data[os.write(self._fd, data) :]


class RecordedRandom(random.Random):
    """A `random.Random` each of whose calls is one recorded choice. What is not overridden here is made of `random()`
    and `getrandbits()` calls, which are."""

    def __init__(self, choices: Choices, actor: str, index: int, recorded: Sequence[Choice]) -> None:
        super().__init__(0)
        self._choices = choices
        self._actor, self._index, self._n = actor, index, 0
        self._recorded = recorded
        digest = sha256(f"{choices.seed}\0{actor}\0{index}".encode()).digest()
        self._source = random.Random(int.from_bytes(digest))

    def random(self) -> float:
        return float(self._choose("random", self._source.random(), lambda v: _is_number(v) and 0 <= v < 1))

    def getrandbits(self, k: int, /) -> int:
        return int(self._choose(f"{k} bits", self._source.getrandbits(k), lambda v: _is_in(v, range(1 << k))))

    def uniform(self, a: float, b: float) -> float:
        low, high = min(a, b), max(a, b)
        what = f"uniform {a} .. {b}"
        return float(self._choose(what, self._source.uniform(a, b), lambda v: _is_number(v) and low <= v <= high))

    def expovariate(self, lambd: float = 1.0) -> float:
        what = f"exponential {lambd}"
        return float(self._choose(what, self._source.expovariate(lambd), lambda v: _is_number(v) and v >= 0))

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        domain = range(start) if stop is None else range(start, stop, step)
        drawn = domain[self._source.randrange(len(domain))]
        what = f"of {domain.start} .. {domain.stop}" + (f" by {step}" if step != 1 else "")
        return int(self._choose(what, drawn, lambda v: _is_in(v, domain)))

    def randint(self, a: int, b: int) -> int:
        return self.randrange(a, b + 1)

    def choice(self, seq: Sequence[T]) -> T:  # type: ignore[override]  # typeshed's protocol is private
        size = len(seq)
        drawn = self._source.randrange(size)
        place: int = self._choose(f"choice of {size}", drawn, lambda v: _is_in(v, range(size)), picked=seq)
        return seq[place]

    def choices(  # type: ignore[override]  # typeshed's protocol is private
        self,
        population: Sequence[T],
        weights: Sequence[float] | None = None,
        *,
        cum_weights: Sequence[float] | None = None,
        k: int = 1,
    ) -> list[T]:
        size = len(population)
        drawn = self._source.choices(range(size), weights, cum_weights=cum_weights, k=k)
        return [population[i] for i in self._choose_places(f"choices {k} of {size}", drawn, size)]

    def sample(self, population: Sequence[T], k: int, *, counts: Iterable[int] | None = None) -> list[T]:
        if counts is not None:
            population = [item for item, count in zip(population, counts, strict=True) for _ in range(count)]
        size = len(population)
        drawn = self._source.sample(range(size), k)
        return [population[i] for i in self._choose_places(f"sample {k} of {size}", drawn, size, distinct=True)]

    def shuffle(self, x: MutableSequence[T]) -> None:
        size = len(x)
        order = self._source.sample(range(size), size)
        x[:] = [x[i] for i in self._choose_places(f"order of {size}", order, size, distinct=True)]

    def _choose(
        self, what: str, drawn: Any, fits: Callable[[Any], bool], *, picked: Sequence[Any] | None = None
    ) -> Any:
        n, self._n = self._n, self._n + 1
        value = drawn
        if n < len(self._recorded):
            recorded = self._recorded[n]
            if recorded.what == what and fits(recorded.value):
                value = recorded.value
            else:
                self._choices.misfits.append(recorded)
        line = {"actor": self._actor, "index": self._index, "n": n, "what": what, "value": value}
        if picked is not None and isinstance(picked[value], str):
            line["picked"] = picked[value]
        self._choices._write(line)
        return value

    def _choose_places(self, what: str, drawn: list[int], size: int, *, distinct: bool = False) -> list[int]:
        def fits(value: Any) -> bool:
            places = unpacked(value)
            return (
                places is not None
                and len(places) == len(drawn)
                and all(place in range(size) for place in places)
                and (not distinct or len(set(places)) == len(places))
            )

        places = unpacked(self._choose(what, _packed(drawn, size), fits))
        assert places is not None
        return places


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_in(value: object, domain: range) -> bool:
    """`in` alone would look through the whole range for what is no number."""
    return isinstance(value, int) and value in domain


def _packed(places: Sequence[int], size: int) -> list[int] | str:
    """Short lists as they are; long ones as "u<width>z:" and base64 of the zlib-compressed little-endian numbers."""
    if len(places) < _PACKED_FROM:
        return list(places)
    width = next(width for width in _WIDTHS if size <= 1 << 8 * width)
    data = b"".join(place.to_bytes(width, "little") for place in places) if width > 1 else bytes(places)
    return f"u{width}z:{b64encode(zlib.compress(data, 1)).decode()}"


def unpacked(value: Any) -> list[int] | None:
    """None: not a list of places."""
    if isinstance(value, list):
        return value if all(isinstance(place, int) for place in value) else None
    if not isinstance(value, str) or not value.startswith("u"):
        return None
    try:
        width = int(value[1])
        data = zlib.decompress(b64decode(value.removeprefix(f"u{width}z:"), validate=True))
        return [int.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width)]
    except (ValueError, IndexError, zlib.error):
        return None
