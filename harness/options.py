"""Arguments and options that several commands of `krash` share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

RunDirectory = Annotated[
    Path, typer.Argument(metavar="RUN_DIR", help="A run directory, e.g. runs/2026-11-21T10-14-03-chaos-1f3a.")
]
SpecFile = Annotated[Path | None, typer.Argument(metavar="[SPEC]", help="A YAML spec; see docs/spec.md and examples/.")]
System = Annotated[
    str | None, typer.Option(help="System under test, NAME:VERSION or NAME:/path/to/unpacked, e.g. kafka:3.9.2.")
]
Backend = Annotated[str | None, typer.Option(help="Where nodes run: local (network namespaces), docker, ssh.")]
Seed = Annotated[
    int | None, typer.Option(min=0, help="Decides every random choice; the same seed gives the same plan.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Override one setting of the spec; may be repeated."),
]
Out = Annotated[Path, typer.Option(help="Where run directories go.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts instead of text.")]


def words(texts: Sequence[str] | None) -> tuple[str, ...]:
    """ "a,b" and "c" of an option that was given twice: a, b, c."""
    return tuple(word.strip() for text in texts or () for word in text.split(",") if word.strip())
