"""Exit codes: one run, many runs, and who outweighs whom."""

from __future__ import annotations

import pytest

from harness.exits import exit_code
from reports.verdict import Verdict


def verdict(validity: str, status: str = "judged") -> Verdict:
    return Verdict(run="r", verdict=validity, status=status, reason=None)


@pytest.mark.parametrize(
    ("validity", "status", "run_status", "code"),
    [
        ("valid", "judged", "completed", 0),
        ("invalid", "judged", "completed", 1),
        ("unknown", "judged", "completed", 2),
        ("unknown", "no-data", "completed", 2),
        ("unknown", "not-reached", "completed", 2),
        ("valid", "judged", "harness-error", 3),
        ("unknown", "no-data", "hang", 3),
        ("valid", "judged", "interrupted", 130),
        ("invalid", "judged", "interrupted", 1),
        ("invalid", "judged", "harness-error", 1),
    ],
)
def test_one_run(validity: str, status: str, run_status: str, code: int) -> None:
    assert exit_code([(verdict(validity, status), run_status)]) == code


def test_over_several_invalid_outweighs_error_outweighs_unknown_outweighs_valid() -> None:
    valid, unknown, error, invalid = (
        (verdict("valid"), "completed"),
        (verdict("unknown"), "completed"),
        (None, "harness-error"),
        (verdict("invalid"), "completed"),
    )
    assert exit_code([valid, unknown, error, invalid]) == 1
    assert exit_code([valid, unknown, error]) == 3
    assert exit_code([valid, unknown]) == 2
    assert exit_code([valid]) == 0
    assert exit_code([]) == 0
