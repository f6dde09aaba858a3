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


SEEDS, HEALTHY = 10, 50
RUNS = Path("runs/protections")


@protections_app.command("catch")
def catch_table(
    seeds: Annotated[
        int | None, typer.Option(min=1, max=1000, help=f"Runs of each protection, off and on. [default: {SEEDS}]")
    ] = None,
    healthy: Annotated[
        int | None,
        typer.Option(min=0, max=10_000, help=f"Runs with all protections on and every fault. [default: {HEALTHY}]"),
    ] = None,
    real: Annotated[
        bool,
        typer.Option("--real", help="On clusters of real processes, one run at a time; needs what `krash run` needs."),
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,...", help="Only these protections; rows of the table are replaced by those of as many runs."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where protections.md and protections.json go.")] = Path("docs"),
    runs: Annotated[
        Path | None,
        typer.Option(help=f"Where tries are kept (tries.jsonl), and runs that are worth a look. [default: {RUNS}]"),
    ] = None,
) -> None:
    """Switch off each protection in simulated clusters (or real ones) and see whether the checker notices. Goes on where it was stopped.

    Example: `krash protections catch --only replicate-before-acknowledge --seeds 3`
    """
    if real:
        from harness.errors import UsageError
        from harness.real.catch import Flags as RealFlags
        from harness.real.catch import catch_really

        if seeds is not None or healthy is not None:
            raise UsageError("--real makes one run off and one on, and takes neither --seeds nor --healthy")
        raise typer.Exit(catch_really(RealFlags(only=words(only), out=out, runs=runs or RUNS / "real")))
    from harness.simulated.catch import Flags, catch

    flags = Flags(
        seeds=SEEDS if seeds is None else seeds,
        healthy=HEALTHY if healthy is None else healthy,
        only=words(only),
        out=out,
        runs=runs or RUNS,
    )
    raise typer.Exit(catch(flags))
