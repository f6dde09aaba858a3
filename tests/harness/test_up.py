"""Which of the words of `krash up` are the spec and which the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.up import attach_lines, split_command


@pytest.mark.parametrize(
    ("argv", "arguments", "spec", "command"),
    [
        (["krash", "up"], [], None, []),
        (["krash", "up", "s.yaml"], ["s.yaml"], Path("s.yaml"), []),
        (["krash", "up", "--", "ls", "-l"], ["ls", "-l"], None, ["ls", "-l"]),
        (["krash", "up", "s.yaml", "--", "ls"], ["s.yaml", "ls"], Path("s.yaml"), ["ls"]),
        (["krash", "up", "--", "sh", "-c", "a -- b"], ["sh", "-c", "a -- b"], None, ["sh", "-c", "a -- b"]),
    ],
)
def test_the_command_follows_two_dashes(
    argv: list[str], arguments: list[str], spec: Path | None, command: list[str]
) -> None:
    assert split_command(arguments, argv) == (spec, command)


def test_a_command_without_dashes_is_explained() -> None:
    with pytest.raises(UsageError, match="put -- before the command"):
        split_command(["s.yaml", "ls"], ["krash", "up", "s.yaml", "ls"])


def test_how_to_attach_names_a_process_and_the_bootstrap() -> None:
    lines = attach_lines({"bootstrap": "10.77.0.12:9092"}, 4711)
    assert any("nsenter -t 4711" in line and "KRASH_BOOTSTRAP=10.77.0.12:9092" in line for line in lines)
