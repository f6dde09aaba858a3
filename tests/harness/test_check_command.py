"""`krash check` as a user meets it: runs and histories together, one line per path, the exit code of the worst."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import check_command
from harness.check_command import Where, check_paths
from harness.errors import UsageError
from tests.harness.checker.models.judging import ops
from tests.harness.checker.stories import clean
from tests.harness.krash import krash

ANSWER = {
    "model": "cas-register", "verdict": "valid", "engine": "zones", "anomalies": [], "ops": 2, "seconds": 0.01,
    "reason": None, "error": None,
}  # fmt: skip
KEYS = {"path", "model", "verdict", "engine", "anomalies", "ops", "seconds"}
ANOMALY = {
    "type": "nonlinearizable", "count": 1, "violation": True, "sentence": "read 1 \x1b[31mlies",
    "ops": ["1: process 0 read -> ok 3, line 3 to line 4"], "evidence": 1,
}  # fmt: skip


class Judge:
    """Stands for the process with Spark; answers by file name."""

    answers: dict[str, dict[str, Any]]
    asked: list[Any]
    options: list[str]

    def __init__(self, log: Path, *, cold: bool, options: list[str]) -> None:
        assert cold, "it is asked at once"
        Judge.options = options

    async def judge_histories(self, paths: list[Path], question: dict[str, Any], _: Any) -> dict[Path, dict[str, Any]]:
        Judge.asked.append((paths, question))
        return {path: {**ANSWER, **Judge.answers[path.name]} for path in paths}

    async def judge_elsewhere(self, paths: list[Any], out: Path | None, _: Any) -> dict[Any, dict[str, Any]]:
        Judge.asked.append((paths, out))
        return {path: {"error": "run.json: written in format 99"} for path in paths}

    async def close(self) -> None:
        pass


@pytest.fixture
def answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Path]]:
    """Files whose answers are these."""

    def prepare(*answers: dict[str, Any]) -> list[Path]:
        Judge.answers = {f"{number}.edn": answer for number, answer in enumerate(answers)}
        Judge.asked = []
        monkeypatch.setattr(check_command, "JudgeProcess", Judge)
        paths = [tmp_path / name for name in Judge.answers]
        for path in paths:
            path.write_text("")
        return paths

    return prepare


VALID, UNKNOWN = {}, {"verdict": "unknown", "reason": "the budget of 9 steps is spent"}
INVALID = {"verdict": "invalid", "anomalies": [ANOMALY]}
ERROR = {"verdict": "error", "model": None, "engine": None, "error": "line 3, column 4: not UTF-8"}


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ((VALID, VALID), 0),
        ((VALID, UNKNOWN), 2),
        ((UNKNOWN, ERROR, VALID), 3),
        ((UNKNOWN, ERROR, INVALID), 1),
    ],
)
def test_the_exit_code_is_that_of_the_worst(answered: Any, answers: tuple[dict[str, Any], ...], code: int) -> None:
    assert check_paths(answered(*answers)) == code


def test_one_line_per_path_and_the_evidence_below_it(answered: Any, capsys: pytest.CaptureFixture[str]) -> None:
    paths = answered(VALID, INVALID, UNKNOWN, ERROR)
    check_paths(paths)
    told = capsys.readouterr()
    assert told.out.splitlines() == [
        f"{paths[0]}: valid  cas-register, zones, 2 ops, 0.01 s",
        f"{paths[1]}: invalid  cas-register, zones, 2 ops, 0.01 s",
        "  nonlinearizable × 1: read 1 \\u001b[31mlies",  # noqa: RUF001
        "      1: process 0 read -> ok 3, line 3 to line 4",
        f"{paths[2]}: unknown  cas-register, zones, 2 ops, 0.01 s",
        "  the budget of 9 steps is spent",
    ]
    assert f"krash: {paths[3]}: line 3, column 4: not UTF-8" in told.err


def test_json_is_one_object_per_line_with_the_same_keys_for_all(
    answered: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [*answered(INVALID, ERROR), tmp_path / "nowhere", tmp_path]
    assert check_paths(paths, as_json=True) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["path"] for line in lines] == [str(path) for path in paths]
    assert [line["verdict"] for line in lines] == ["invalid", "error", "error", "error"]
    assert all(line.keys() >= KEYS for line in lines)
    assert lines[0]["anomalies"][0]["count"] == 1
    assert (lines[3]["run_dir"], lines[3]["model"]) == (str(tmp_path), "log")
    assert "format 99" in lines[3]["error"]


def test_options_go_to_the_judge(answered: Any) -> None:
    paths = answered(VALID)
    options = {"model": "register", "initial": "nil", "consistency": ("serializable",), "all_keys": True}
    check_paths(paths, format_name="jsonl", **options)
    assert Judge.asked == [(paths, {**options, "format": "jsonl"})]


def test_a_cluster_judges_runs_and_nothing_else(
    answered: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (history,) = answered(VALID)
    run = tmp_path / "run"
    run.mkdir()
    where = Where(master="spark://127.0.0.1:7077", settings=("spark.executor.memory=1g",), out=tmp_path / "out")
    code = check_paths([str(history), str(run), f"file://{run}", "hdfs://cluster/runs/a"], where=where, as_json=True)
    assert code == 3
    assert Judge.asked == [([run, "hdfs://cluster/runs/a"], tmp_path / "out")]
    assert Judge.options[:4] == ["--master", "spark://127.0.0.1:7077", "--spark-conf", "spark.executor.memory=1g"]
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert answers[0]["error"] == "histories of other tools are judged whole, on this machine: leave out --master"
    assert [answer["path"] for answer in answers[1:]] == [str(run), "hdfs://cluster/runs/a"]
    with pytest.raises(UsageError, match="--spark-conf: expected key=value, found 'x'"):
        check_paths([str(run)], where=Where(settings=("x",)))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"model": "quantum"}, "cas-register"),
        ({"initial": "[1"}, "--initial"),
        ({"format_name": "xml"}, "jepsen-edn"),
        ({"consistency": ["mostly-fine"]}, "read-committed"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_starts(
    answered: Any, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        check_paths(answered(VALID), **options)
    assert Judge.asked == []


def test_what_cannot_be_read_twice_is_refused(
    answered: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answered()
    os.mkfifo(tmp_path / "pipe")
    assert check_paths([tmp_path / "pipe", Path("bad\0name")]) == 3
    assert "read twice" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_runs_and_histories_of_one_command(tmp_path: Path) -> None:
    run = clean("run").save(tmp_path / "run")
    torn = clean("torn").save(tmp_path / "torn")
    table = torn / "history" / "records" / "0.parquet"
    table.write_bytes(table.read_bytes()[:-40])
    odd = clean("odd").save(tmp_path / "odd")
    info = json.loads((odd / "run.json").read_bytes())
    (odd / "run.json").write_text(json.dumps({**info, "format": 99}))
    history = tmp_path / "history.edn"
    history.write_text(ops("0 invoke write 1", "0 ok write 1", "1 invoke read nil", "1 ok read 2"))
    broken = tmp_path / "broken.log"
    broken.write_text("INFO  jepsen.util - 0\t:invoke\t:read\n")
    ran = krash("check", history, run, broken, torn, odd, "--json")
    assert ran.code == 1
    answers = dict(zip(("history", "run", "broken", "torn", "odd"), ran.answers, strict=True))
    assert {name: answer["verdict"] for name, answer in answers.items()} == {
        "history": "invalid", "run": "valid", "broken": "error", "torn": "error", "odd": "error",
    }  # fmt: skip
    assert all(answer.keys() >= KEYS for answer in ran.answers)
    assert (answers["run"]["model"], answers["run"]["ops"] > 0) == ("log", True)
    assert "line 1, column" in answers["broken"]["error"]
    assert "0.parquet" in answers["torn"]["error"]
    assert "99" in answers["odd"]["error"]
