"""`krash race show`: a race as a page for the terminal, as wide as that is.

A story is a docstring: paragraphs, and lists of indented lines (`  name   what it is`, continued below the text). Its lines
end where the source's did, so it is taken apart and set anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args, get_origin

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from nemesis.races.expectation import Expectation
from nemesis.races.race import Race

_ITEM = re.compile(r" {2,6}(\S+(?: \S+)*?) {2,}(\S.*)")
Item = tuple[str, str]


def print_race(console: Console, race: Race, command: str) -> None:
    console.print(Text.assemble((race.name, "bold"), f": {race.title}\n"))
    for block in _blocks(race.story):
        console.print(_columns(block) if isinstance(block, list) else Text(block))
    facts = [("affected", race.affected), ("fixed", race.fixed), ("see", ", ".join(race.references))]
    console.print(_columns([(name, text) for name, text in facts if text], indent=0))
    console.print("\n[bold]parameters[/bold] (--set NAME=VALUE)")
    console.print(_columns([(f"{one['name']} = {one['default']!r}", one["type"]) for one in parameters(race)]))
    console.print("\n[bold]expected[/bold], the first line that fits")
    console.print(_columns([(line.outcome, _expected(line)) for line in race.expects]))
    console.print(f"\n  {command}", markup=False, soft_wrap=True)


def parameters(race: Race) -> list[dict[str, Any]]:
    return [
        {"name": name, "type": _kind(field.annotation), "default": field.default}
        for name, field in race.parameters.model_fields.items()
    ]


def when(line: Expectation) -> str:
    """ "metadata.version <= 3.5-IV0, variant no-gate"."""
    parts = [f"version {line.versions}"] if line.versions else []
    parts += [f"metadata.version {line.metadata}"] if line.metadata else []
    for name, value in line.where.items():
        parts.append(f"{name} {' or '.join(map(str, value)) if isinstance(value, tuple) else value}")
    return ", ".join(parts) or "otherwise"


def _expected(line: Expectation) -> str:
    return f"{when(line)} ({line.because})" if line.because else when(line)


def _blocks(story: str) -> Iterator[str | list[Item]]:
    """Paragraphs, each as one line and followed by an empty one, and lists of (name, text)."""
    for paragraph in story.strip().split("\n\n"):
        words: list[str] = []
        items: list[Item] = []
        for line in paragraph.splitlines():
            if found := _ITEM.fullmatch(line):
                items.append((found[1], found[2]))
            elif items and line.startswith("  "):
                name, text = items.pop()
                items.append((name, f"{text} {line.strip()}"))
            else:
                words.append(line.strip())
        yield " ".join(words) + ("" if items else "\n")
        if items:
            yield items
            yield ""


def _columns(items: Sequence[Item], indent: int = 2) -> RenderableType:
    grid = Table.grid(padding=(0, 3, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in items:
        grid.add_row(Text(" " * indent + name), Text(text))
    return grid


def _kind(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return f"one of {', '.join(map(str, get_args(annotation)))}"
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
