"""`krash race ...` and `krash track-record`: their commands parse their flags and hand over, as those of harness/cli.py do."""

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
    from harness.race_listing import list_races

    raise typer.Exit(list_races(as_json=as_json))


@race_app.command("show")
def race_show(race: RaceName, as_json: Json = False) -> None:
    """The story of a race: the bug, who has it, its parameters, and what is expected of which version.

    Example: `krash race show kafka-14139`
    """
    from harness.race_listing import show_race

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


def track_record(
    times: Annotated[
        int | None,
        typer.Option(min=0, max=1000, help="Tries of each cell; default: as its race says. 0 only writes the tables."),
    ] = None,
    only: Annotated[list[str] | None, typer.Option(metavar="RACE[/VARIANT],...", help="Only these races.")] = None,
    systems: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN,...", help="Only these systems, e.g. 'kafka:3.4.1,kafka:4.*'.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where track-record.md and track-record.json go.")] = Path("docs"),
    runs: Annotated[
        Path, typer.Option(help="Where tries are kept (tries.jsonl), and runs that are worth a look.")
    ] = Path("runs/track-record"),
    earlier: Annotated[
        bool, typer.Option("--earlier", help="Count tries of sources that have changed since as well.")
    ] = False,
    carry: Annotated[
        Path | None,
        typer.Option(
            "--continue",
            metavar="FILE",
            help="Go on from a track-record.json of another machine: its tries count, beside those of --runs.",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Exit code 1 when a cell differs from what was stated, 2 when one says nothing."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Run every race where it must come and where it must not, and write the table of what came. Goes on where it was stopped.

    Example: `krash track-record --only kafka-14139 --times 20`

    In a fresh checkout, on top of what its table counts: `krash track-record --continue docs/track-record.json --earlier --times 20`
    """
    from harness.track_record import Flags
    from harness.track_record import track_record as record

    flags = Flags(
        times=times,
        only=words(only),
        systems=words(systems),
        out=out,
        runs=runs,
        earlier=earlier,
        carry=carry,
        check=check,
        as_json=as_json,
    )
    raise typer.Exit(record(flags))
