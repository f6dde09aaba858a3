"""What one look calls plain, beside what the screens of Spark found."""

from __future__ import annotations

import pytest

from harness.checker.conclude import Judged
from tests.harness.checker import test_against_oracle, test_client_defects, test_race_defects, test_seeded_defects
from tests.harness.checker.glance.at_a_glance import TABLES, looked, plain_tables

pytestmark = pytest.mark.spark


def test_no_finding_of_any_story_comes_from_a_plain_table(conclusions: dict[str, Judged]) -> None:
    """All of them are judged in one job, in which no table is plain for all: so the screens decided, and not the look."""
    told = (test_against_oracle, test_client_defects, test_race_defects, test_seeded_defects)
    stories = [story for file in told for story in file.stories()]
    rows = looked(stories)
    seen = set()
    for story in stories:
        tables = plain_tables(story, rows.get(story.run, []))
        for row in conclusions[story.run].anomalies.to_pylist():
            if row["severity"] != "unjudged" and row["type"] in TABLES:
                assert not tables >= TABLES[row["type"]], f"{story.run}: {row['sentence']}"
                seen.add(row["type"])
    assert seen == set(TABLES)
