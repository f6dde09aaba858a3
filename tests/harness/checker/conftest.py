"""One Spark session for all tests of the checker, and one job for all stories that are judged as they are."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.checker.conclude import Judged
from harness.history.reading import open_run
from tests.harness.checker.stories import Story

ALL_STORIES_S = 1200  # a deadline for a slow and busy machine


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.checker)
            if "conclusions" in getattr(item, "fixturenames", ()):  # whichever is first waits for all of them
                item.add_marker(pytest.mark.timeout(ALL_STORIES_S))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from harness.checker.session import spark_session

    with warnings.catch_warnings():
        warnings.simplefilter("default")  # pyspark's own
        with spark_session(heap="1g", cores=2) as session:
            yield session


@pytest.fixture(scope="module")
def small_plans(spark: Any) -> Iterator[None]:
    """Plans are interpreted, in few tasks: that is most of the time otherwise. (`judge` sees to it itself.)"""
    wanted = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    before = {name: spark.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.fixture(scope="session")
def judged(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Judged]]:
    """Judge stories, all in one job: run -> what was concluded."""
    from harness.checker.judge import judge

    def judge_all(*stories: Story) -> dict[str, Judged]:
        folder: Path = tmp_path_factory.mktemp("runs")
        stored = [open_run(story.save(folder / story.run)) for story in stories]
        return {one.run: one for one in judge(spark, stored)}

    return judge_all


@pytest.fixture(scope="session")
def conclusions(judged: Callable[..., dict[str, Judged]]) -> dict[str, Judged]:
    """Of the stories of all these files: a job takes as long for one as for a hundred."""
    from tests.harness.checker import test_against_oracle, test_client_defects, test_race_defects, test_seeded_defects

    told = (test_against_oracle, test_client_defects, test_race_defects, test_seeded_defects)
    stories = [story for file in told for story in file.stories()]
    concluded = judged(*stories)
    assert len(concluded) == len(stories), "two stories have one name"
    return concluded
