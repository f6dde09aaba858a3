"""`krash protections ...`: its commands parse their flags and hand over, as those of harness/cli.py do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.options import Json, words

protections_app = typer.Typer(invoke_without_command=True, no_args_is_help=False)


@protections_app.callback()
def protections(context: typer.Context, as_json: Json = False) -> None:
    """Protections of the reference cluster: what can be switched off, and what goes wrong then.

    Example: `krash protections`
    """
    from harness.protections import list_protections

    if context.invoked_subcommand is None:
        raise typer.Exit(list_protections(as_json=as_json))


@protections_app.command("catch")
def catch_table(
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Runs of each protection, off and on.")] = 10,
    healthy: Annotated[int, typer.Option(min=0, max=10_000, help="Runs with all protections on and every fault.")] = 50,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME,...", help="Only these protections; prints, and writes no table.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where protections.md and protections.json go.")] = Path("docs"),
    runs: Annotated[
        Path, typer.Option(help="Where tries are kept (tries.jsonl), and runs that are worth a look.")
    ] = Path("runs/protections"),
) -> None:
    """Switch off each protection in simulated clusters and see whether the checker notices. Goes on where it was stopped.

    Example: `krash protections catch --only replicate-before-acknowledge --seeds 3`
    """
    from harness.simulated.catch import Flags, catch

    raise typer.Exit(catch(Flags(seeds=seeds, healthy=healthy, only=words(only), out=out, runs=runs)))
