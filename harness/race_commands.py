"""`krash race ...`: its commands parse their flags and hand over, as those of harness/cli.py do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.options import Json, Out, Seed, System, words

race_app = typer.Typer(
    help="Races: known bugs as scripted interleavings, shown again on the versions that have them.",
    no_args_is_help=True,
)
RaceName = Annotated[
    str, typer.Argument(metavar="RACE", help="A name of `krash race list`, or a file of your own: ./my_race.py.")
]
Variant = Annotated[str | None, typer.Option(help="One of the race's variants; `krash race show RACE` lists them.")]
RaceSet = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the race, or metadata_version; may be repeated."),
]
Times = Annotated[int, typer.Option(min=1, max=1000, help="How often; each try is a run of its own.")]


@race_app.command("list")
def race_list(as_json: Json = False) -> None:
    """The races that have names.

    Example: `krash race list`
    """
    from harness.races import list_races

    raise typer.Exit(list_races(as_json=as_json))


@race_app.command("show")
def race_show(race: RaceName, as_json: Json = False) -> None:
    """The story of a race: the bug, who has it, its parameters, and what is expected of which version.

    Example: `krash race show kafka-14139`
    """
    from harness.races import show_race

    raise typer.Exit(show_race(race, as_json=as_json))


@race_app.command("run")
def race_run(
    race: RaceName,
    system: System = None,
    variant: Variant = None,
    settings: RaceSet = None,
    times: Times = 1,
    backend: Annotated[str, typer.Option(help="Where nodes run: local, docker, ssh.")] = "local",
    seed: Seed = None,
    out: Out = Path("runs"),
    as_json: Json = False,
) -> None:
    """Run a race and judge what its clients saw; the verdict comes from the checker, not from the script.

    Example: `krash race run kafka-14139 --system kafka:4.3.1 --set metadata_version=3.4`
    """
    from harness.race import RaceFlags, run_race

    flags = RaceFlags(variant=variant, settings=tuple(settings or ()), backend=backend, seed=seed, out=out)
    raise typer.Exit(run_race(race, flags, system=system, times=times, as_json=as_json))


@race_app.command("compare")
def race_compare(
    race: RaceName,
    systems: Annotated[
        str,
        typer.Option(metavar="A,B,...", help="NAME:VERSION or NAME:VERSION@METADATA_VERSION; default: the race's own."),
    ] = "",
    variant: Variant = None,
    settings: RaceSet = None,
    times: Times = 1,
    backend: Annotated[str, typer.Option(help="Where nodes run: local, docker, ssh.")] = "local",
    out: Out = Path("runs"),
    as_json: Json = False,
) -> None:
    """One race on several systems, a line each. Exit code 0: each came as the race stated beforehand, lost or not.

    Example: `krash race compare kafka-14139 --systems kafka:3.4.1,kafka:4.3.1,kafka:4.3.1@3.4`
    """
    from harness.race import RaceFlags, compare_races

    flags = RaceFlags(variant=variant, settings=tuple(settings or ()), backend=backend, out=out)
    raise typer.Exit(compare_races(race, flags, systems=words([systems]), times=times, as_json=as_json))
