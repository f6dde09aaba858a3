"""`krash node --config FILE`: one node of the reference cluster, in the foreground, until SIGTERM or Ctrl-C."""

from __future__ import annotations

from pathlib import Path

from harness.errors import UsageError
from nodes.reference.process.configuration import BadConfiguration
from nodes.reference.process.run import run_file


def run_node(config: Path) -> int:
    """0 after a clean stop, 3 if the node is unfit to go on. UsageError names what is wrong with the configuration."""
    try:
        return run_file(config)
    except (BadConfiguration, FileNotFoundError) as error:
        raise UsageError(str(error)) from error
