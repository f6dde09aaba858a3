"""From exceptions to what a person reads and a script gets.

Known ones are told in one sentence; others with their traceback, as our fault.
"""

from __future__ import annotations

import sys
import traceback

EXIT_ERROR = 3
EXIT_USAGE = 64


class UsageError(Exception):
    """The command line asks for something that does not exist or does not fit; the message says what would."""


class CommandError(Exception):
    """The command cannot be carried out; the message says why and what to do."""


def explain(error: Exception) -> int:
    """Print an exception to standard error; returns the exit code it stands for."""
    from harness.history.errors import HistoryError
    from harness.judge_process import JudgeError
    from harness.plugins import PluginError
    from harness.spec_file import SpecError
    from nodes.node import NodeError
    from nodes.system import SystemUnavailable

    if isinstance(error, (UsageError, SpecError, PluginError)):
        print(f"krash: {error}", file=sys.stderr)
        return EXIT_USAGE
    if isinstance(error, (CommandError, HistoryError, JudgeError, NodeError, SystemUnavailable)):
        print(f"krash: {error}", file=sys.stderr)
        return EXIT_ERROR
    traceback.print_exception(error)
    print("krash: this is a defect in krash itself; please report it with the lines above.", file=sys.stderr)
    return EXIT_ERROR
