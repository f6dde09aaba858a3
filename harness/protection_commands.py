"""`krash protections ...`: its commands parse their flags and hand over, as those of harness/cli.py do."""

from __future__ import annotations

import typer

from harness.options import Json

protections_app = typer.Typer(invoke_without_command=True, no_args_is_help=False)


@protections_app.callback()
def protections(context: typer.Context, as_json: Json = False) -> None:
    """Protections of the reference cluster: what can be switched off, and what goes wrong then.

    Example: `krash protections`
    """
    from harness.protections import list_protections

    if context.invoked_subcommand is None:
        raise typer.Exit(list_protections(as_json=as_json))
