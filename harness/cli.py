"""The `krash` command. Each command parses its flags, imports what it needs and hands over; nothing heavy is imported before that.

Exit codes (DESIGN decision 8): 0 valid, 1 invalid, 2 unknown (also no-data and not-reached), 3 harness error, hang or any exception, 64 bad
usage, 130 interrupted. Over several paths: invalid > error > unknown > valid.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from harness.options import Backend, Json, Out, RunDirectory, Seed, Set, SpecFile, System, words
from harness.protection_commands import protections_app
from harness.race_commands import race_app, track_record

EXIT_ERROR = 3
EXIT_USAGE = 64
EXIT_INTERRUPTED = 130

# typer 0.29 brought its own copy of click; its public exceptions lead to the base classes whichever copy is in use.
_UsageError = typer.BadParameter.__bases__[0]
_AnyError = _UsageError.__bases__[0]

app = typer.Typer(
    name="krash",
    help="Break a Kafka cluster on purpose and prove what it lost.\n\n"
    "`krash run` deploys a cluster, breaks it while clients write and read, and gives a verdict with a report.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
kafka_app = typer.Typer(
    help="Versions of Apache Kafka: which are known, which are on this machine, fetch one.", no_args_is_help=True
)
spec_app = typer.Typer(help="Specs: their JSON schema, and a spec with all defaults filled in.", no_args_is_help=True)
app.add_typer(kafka_app, name="kafka")
app.add_typer(race_app, name="race")
app.add_typer(protections_app, name="protections")
app.add_typer(spec_app, name="spec")


@app.command()
def run(
    spec: SpecFile = None,
    system: System = None,
    backend: Backend = None,
    seed: Seed = None,
    time_limit: Annotated[str | None, typer.Option(help="Length of the fault phase, e.g. 60s or 5m.")] = None,
    nemesis: Annotated[
        str | None, typer.Option(help="Faults to mix, e.g. kill,partition,pause,wipe; `none` for no faults.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option(help="Records per second over all clients; `max` for as fast as it goes.")
    ] = None,
    settings: Set = None,
    out: Out = Path("runs"),
    replay: Annotated[
        Path | None, typer.Option(metavar="RUN_DIR", help="Take spec, seed and recorded choices of an earlier run.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Deploy a cluster, break it while clients write and read, judge what they saw.

    Without SPEC: three brokers, one controller, a mix of kills, pauses and partitions for a minute. Without --system, and where SPEC names
    none: krash's own reference cluster, which needs no download; `--system kafka` is Apache Kafka.

    Example: `krash run examples/chaos.yaml --system kafka:3.9.2 --seed 7 --time-limit 30s`
    """
    from harness.run import Flags, run_spec

    flags = Flags(
        system=system,
        backend=backend,
        seed=seed,
        time_limit=time_limit,
        nemesis=nemesis,
        rate=rate,
        settings=tuple(settings or ()),
    )
    raise typer.Exit(run_spec(spec, flags, out=out, replay=replay, as_json=as_json))


@app.command()
def up(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[SPEC] [-- COMMAND...]", help="A spec, then a command.")
    ] = None,
    system: System = None,
    backend: Backend = None,
    settings: Set = None,
    out: Out = Path("runs"),
) -> None:
    """Deploy a cluster and run COMMAND beside it, with KRASH_BOOTSTRAP set; without a command it stays up until Ctrl-C.

    Point any client, tool or test suite at it; the command's exit code is handed through.

    Example: `krash up --system kafka:3.4.1 -- python my_test.py`
    """
    from harness.up import up_spec

    raise typer.Exit(up_spec(arguments or [], system=system, backend=backend, settings=tuple(settings or ()), out=out))


@app.command()
def check(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Run directories, and histories of other tools.")
    ],
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What a history is of, e.g. cas-register; else seen from its ops."),
    ] = None,
    initial: Annotated[
        str | None, typer.Option(metavar="VALUE|nil", help="What the object held before the first op.")
    ] = None,
    consistency: Annotated[
        list[str] | None,
        typer.Option("--consistency-models", metavar="NAME,...", help="What transactions must keep to."),
    ] = None,
    format_name: Annotated[
        str | None,
        typer.Option("--format", help="jepsen-edn, jepsen-log, jsonl or edn-lines; else seen from the file."),
    ] = None,
    all_keys: Annotated[
        bool, typer.Option("--all-keys", help="Look for every key that is wrong; else the first one ends the search.")
    ] = False,
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Judge runs on a Spark cluster: spark://host:7077, yarn, k8s://https://host:6443."
        ),
    ] = None,
    spark_conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark; may be given several times.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where verdicts of runs go; by default next to their histories.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Judge recorded runs again, with this krash's checker, and histories of other tools: see docs/histories.md.

    Verdicts and reports of runs are rewritten. One line per path; the exit code is that of the worst. Large histories,
    clusters, histories by URI: see docs/performance.md.

    Example: `krash check runs/* etcd_000.log history.edn --model cas-register --initial nil`
    """
    from harness.check_command import Where, check_paths

    raise typer.Exit(
        check_paths(
            paths,
            model=model,
            initial=initial,
            consistency=words(consistency),
            format_name=format_name,
            all_keys=all_keys,
            where=Where(master=master, settings=tuple(spark_conf or ()), out=out),
            as_json=as_json,
        )
    )


@app.command()
def report(run_dir: RunDirectory) -> None:
    """Write report.html and junit.xml of a judged run again.

    Example: `krash report runs/2026-11-21T10-14-03-chaos-1f3a`
    """
    from harness.again import report_run

    raise typer.Exit(report_run(run_dir))


@app.command()
def export(
    run_dir: RunDirectory,
    format_name: Annotated[
        str, typer.Option("--format", help="jepsen-edn (ops of jepsen.tests.kafka, one map per line) or jsonl.")
    ] = "jepsen-edn",
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Instead of standard output.")] = None,
) -> None:
    """Write the history of a run as other checkers read it: Jepsen's, or yours.

    Example: `krash export runs/2026-11-21T10-14-03-chaos-1f3a --format jsonl --output history.jsonl`
    """
    from harness.export import export_run

    raise typer.Exit(export_run(run_dir, format_name=format_name, output=output))


@app.command()
def recover(run_dir: RunDirectory, as_json: Json = False) -> None:
    """Finish a run directory whose writer died: what reached the disk becomes a history that `krash check` judges.

    Example: `krash recover runs/2026-11-21T10-14-03-chaos-1f3a && krash check runs/2026-11-21T10-14-03-chaos-1f3a`
    """
    from harness.again import recover_run

    raise typer.Exit(recover_run(run_dir, as_json=as_json))


@app.command()
def runs(
    out: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where run directories are.")] = Path("runs"),
    as_json: Json = False,
) -> None:
    """List runs, latest first, with their verdicts.

    Example: `krash runs`
    """
    from harness.again import show_runs

    raise typer.Exit(show_runs(out, as_json=as_json))


@app.command()
def wire(
    run_dir: RunDirectory,
    source: Annotated[str | None, typer.Option(help="Node that sent the frame; `*` stands for anything: b*.")] = None,
    destination: Annotated[str | None, typer.Option(help="Node that it was sent to.")] = None,
    api: Annotated[str | None, typer.Option(help="Name or number of the API: AlterPartition, 56, *Quorum*.")] = None,
    action: Annotated[
        str | None,
        typer.Option(help="What the gate did: passed, held, dropped, delayed, duplicated, closed or rewritten."),
    ] = None,
    rule: Annotated[str | None, typer.Option(help="Id of the rule that acted, e.g. fault-3.*.")] = None,
    since: Annotated[str | None, typer.Option(help="Not before, counted from the start of the run: 12s.")] = None,
    until: Annotated[str | None, typer.Option(help="Not after.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Show so many; 0 for all.")] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per frame and line, for scripts.")] = False,
) -> None:
    """Print what nodes said to each other: the frames that passed the wire gate of a run (`wire: on` in its spec).

    Example: `krash wire runs/2026-11-21T10-14-03-chaos-1f3a --source b1 --api AlterPartition --since 10s`
    """
    from harness.wire_command import Filters, show_messages

    filters = Filters(
        source=source, destination=destination, api=api, action=action, rule=rule, since=since, until=until
    )
    raise typer.Exit(show_messages(run_dir, filters, limit=limit, as_json=as_json))


@app.command()
def doctor(as_json: Json = False) -> None:
    """What is on this machine, what each backend and fault needs, and what will and will not work here.

    Example: `krash doctor`
    """
    from harness.doctor import show

    raise typer.Exit(show(as_json=as_json))


@app.command()
def node(
    config: Annotated[Path, typer.Option(metavar="FILE", help="Properties, with Kafka's names.")],
) -> None:
    """Run one node of the reference cluster in the foreground: a controller, a broker, or both (see docs/reference.md).

    Example: `krash node --config node.properties`
    """
    from harness.node_command import run_node

    raise typer.Exit(run_node(config))


@app.command()
def heal(
    run_dir: Annotated[Path | None, typer.Argument(metavar="[RUN_DIR]", help="The crashed run.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Whatever any crashed run left on this machine.")] = False,
) -> None:
    """Undo what a crashed run left: containers, networks, rules. Only what krash itself made is touched.

    Example: `krash heal --all`
    """
    from harness.heal import heal_runs

    if (run_dir is None) == (not everything):
        raise typer.BadParameter("name one RUN_DIR, or say --all")
    raise typer.Exit(heal_runs(run_dir))


@kafka_app.command("versions")
def kafka_versions(as_json: Json = False) -> None:
    """The versions krash was tried with, and which of them (and others) are on this machine.

    Example: `krash kafka versions`
    """
    from harness.versions import show_versions

    raise typer.Exit(show_versions(as_json=as_json))


@kafka_app.command("fetch")
def kafka_fetch(versions: Annotated[list[str], typer.Argument(metavar="VERSION...", help="e.g. 3.4.1")]) -> None:
    """Fetch versions of Apache Kafka into the cache, so that a run needs no network.

    Example: `krash kafka fetch 3.4.1 4.3.1`
    """
    from harness.versions import fetch_versions

    raise typer.Exit(fetch_versions(versions))


app.command("track-record")(track_record)


@spec_app.command("schema")
def spec_schema() -> None:
    """Print the JSON schema of a spec, for editors.

    Example: `krash spec schema > krash.schema.json`
    """
    from harness.spec_show import show_schema

    raise typer.Exit(show_schema())


@spec_app.command("show")
def spec_show(spec: SpecFile = None, settings: Set = None) -> None:
    """Print a spec with all defaults filled in.

    Example: `krash spec show examples/chaos.yaml --set seed=7`
    """
    from harness.spec_show import show_spec

    raise typer.Exit(show_spec(spec, tuple(settings or ())))


def main() -> NoReturn:
    """Entry point of the console script: turns every way to fail into its exit code."""
    sys.exit(_main())


def _main() -> int:
    try:
        result = app(standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - an unexpected exception is exit code 3, never 1
        if isinstance(error, _AnyError):
            error.show()  # type: ignore[attr-defined]  # click's, see above
            return EXIT_USAGE if isinstance(error, _UsageError) else EXIT_ERROR
        return _failed(error)
    return result if isinstance(result, int) else 0


def _failed(error: Exception) -> int:
    try:
        from harness.errors import explain

        return explain(error)
    except Exception:  # noqa: BLE001 - an installation so broken that even this fails still gets its exit code
        traceback.print_exc()
        return EXIT_ERROR


if __name__ == "__main__":
    main()
