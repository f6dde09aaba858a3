"""`krash heal`: remove what a crashed run left on this machine. Only things that carry a run's label are touched.

On the local backend nothing can be left (its namespaces die with the run); containers and networks of the docker
backend outlive a SIGKILL of krash, and rules on SSH hosts outlive everything.
"""

from __future__ import annotations

import sys
from pathlib import Path

from harness import plugins
from harness.errors import CommandError
from harness.history.rundir import RunState, read_run_info, run_state
from harness.plugins import Group, PluginError


def heal_runs(directory: Path | None) -> int:
    """Sweep one run, or (None) every run of every backend whose krash is gone. Prints what was removed. Refuses a run that lives."""
    removed: list[str] = []
    if directory is not None:
        info = read_run_info(directory)
        if run_state(directory) is RunState.RUNNING:
            raise CommandError(
                f"{directory} is still running and heals itself at its end; Ctrl-C its krash to end it early"
            )
        removed += plugins.load(Group.BACKENDS, info.spec["backend"]).sweep(info.run)
    else:
        for name in plugins.registered(Group.BACKENDS):
            try:
                backend = plugins.load(Group.BACKENDS, name)
            except PluginError as error:
                print(f"krash: backend {name} was left out: {error}", file=sys.stderr)
                continue
            for run in sorted({leftover.run for leftover in backend.leftovers()}):
                removed += backend.sweep(run)
    for what in removed:
        print(f"removed {what}")
    if not removed:
        print("nothing was left to heal")
    return 0
