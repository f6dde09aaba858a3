"""Histories of other tools, judged: from a path to an answer, in a plain process, and many paths in one Spark job.

    judge_path(Path("etcd_000.log"), Request())
    ->  {"path": "etcd_000.log", "model": "cas-register", "verdict": "invalid", "engine": "frontier", "ops": 85,
         "anomalies": [{"type": "nonlinearizable", "count": 1, "sentence": "...", "ops": ["84: process 10 read -> ok 1 (line 170)"]}],
         "seconds": 0.012, "reason": null, "error": null}

`verdict` is valid, invalid, unknown, or error: the file is no history, or nobody can say of what. A history goes to one
worker whole: what takes long with large files is reading them, which no key can be known before; once read, a worker
judges millions of ops a second. Largest files first, each a task of its own as long as there are few, so that one
huge file among a thousand small ones does not wait for them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.checker.models.bad_history import BAD_HISTORY, of_problems
from harness.checker.models.model import ABSENT, Found, Judgement, Question
from harness.checker.models.registry import NoModel, model_for, model_named
from harness.checker.models.values import shown
from harness.history.errors import HistoryError
from harness.history.formats.edn import EdnError, Reader
from harness.history.formats.pairing import Operation, Paired, pair
from harness.history.formats.reading import Format, read_events
from reports.verdict import Validity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ERROR = "error"
_OPS_SHOWN = 8
_TASKS_PER_CORE = 4


class BadInitial(ValueError):
    """The initial value is no EDN."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked of all histories of one command, as it travels to workers."""

    model: str | None = None
    initial: str | None = None  # EDN or JSON of one value
    consistency: tuple[str, ...] = ()
    format: str | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Request:
        return cls(**{**document, "consistency": tuple(document.get("consistency") or ())})

    def question(self) -> Question:
        """BadInitial."""
        initial = ABSENT if self.initial is None else initial_value(self.initial)
        return Question(initial=initial, consistency=self.consistency)


def initial_value(text: str) -> Any:
    """`nil` and `null` are None, `""` and nothing at all the empty string, names stand for themselves. BadInitial."""
    if not text.strip():
        return ""
    reader = Reader(keyword=str, symbol=str)
    try:
        forms = [*reader.feed(text), *reader.close()]
    except EdnError as error:
        raise BadInitial(f"{text!r} is no value: {error.reason}") from None
    if len(forms) != 1:
        raise BadInitial(f"expected one value, found {len(forms)} in {text!r}")
    return None if forms[0] == "null" else forms[0]


def judge_path(path: Path, request: Request) -> dict[str, Any]:
    """Never raises for what is in the file."""
    began = time.monotonic()
    known: dict[str, Any] = {"path": str(path), "model": request.model, "ops": 0}
    try:
        events = read_events(path, None if request.format is None else Format(request.format))
        history = pair(events)
        known["ops"] = len(history.operations)
        answer = _judged(history, request)
    except HistoryError as error:
        answer = _error(f"{error.where}: {error.reason}" if error.where else error.reason)
    except NoModel as error:
        answer = _error(str(error))
    except MemoryError:
        answer = _error("there is not enough memory for this history")
    except Exception as error:  # noqa: BLE001 a defect of a model must not take the other histories with it
        answer = _error(f"a defect in krash itself, please report it: {type(error).__name__}: {error}")
    return {**known, **answer, "seconds": round(time.monotonic() - began, 6)}


def _judged(history: Paired, request: Request) -> dict[str, Any]:
    if history.problems:
        return _answer(of_problems(history.problems), history)
    if not history.operations:
        reason = "it has no op of any client"
        return _answer(Judgement(verdict=Validity.UNKNOWN, engine="none", reason=reason), history)
    model = model_for(history) if request.model is None else model_named(request.model)
    judgement = _settled(model.judge(history, request.question()))
    return {"model": model.name, **_answer(judgement, history)}


def _settled(judgement: Judgement) -> Judgement:
    """A history that nobody can have recorded is no evidence against the system."""
    if judgement.verdict == Validity.INVALID and {one.type for one in judgement.found if one.violation} <= {
        BAD_HISTORY
    }:
        return replace(judgement, verdict=Validity.UNKNOWN)
    return judgement


def _answer(judgement: Judgement, history: Paired) -> dict[str, Any]:
    return {
        "verdict": judgement.verdict.value,
        "engine": judgement.engine,
        "anomalies": [_anomaly(found, history) for found in judgement.found],
        "reason": judgement.reason or None,
        "error": None,
    }


def _error(sentence: str) -> dict[str, Any]:
    return {"verdict": ERROR, "engine": None, "anomalies": [], "reason": None, "error": sentence}


def _anomaly(found: Found, history: Paired) -> dict[str, Any]:
    wanted = set(found.ops[:_OPS_SHOWN])
    by_index = {operation.index: operation for operation in history.operations if operation.index in wanted}
    return {
        "type": found.type,
        "count": found.count,
        "violation": found.violation,
        "sentence": found.sentence,
        "ops": [described(by_index[index]) for index in found.ops[:_OPS_SHOWN] if index in by_index],
        "evidence": len(found.ops),
    }


def described(operation: Operation) -> str:
    """`84: process 10 read -> ok 1 (line 169 to line 170)`."""
    key = "" if operation.key is None else f" key {shown(operation.key)}"
    value = "" if operation.value is None else f" {shown(operation.value)}"
    answered = operation.result is not None and operation.result != operation.value
    result = f" {shown(operation.result)}" if answered else " nil" if _found_nothing(operation) else ""
    error = "" if operation.error is None else f" ({shown(operation.error)})"
    places = [event.place for event in (operation.invocation, operation.completion) if event is not None]
    outcome = "never completed" if operation.completion is None else operation.outcome.value
    process = "" if operation.process is None else f"process {operation.process} "
    return f"{operation.index}: {process}{operation.f}{key}{value} -> {outcome}{result}{error}, {' to '.join(places)}"


def _found_nothing(operation: Operation) -> bool:
    return operation.value is None and operation.result is None and operation.f in ("read", "get", "dequeue")


def judge_histories(spark: SparkSession, paths: Sequence[Path], request: Request) -> list[dict[str, Any]]:
    """One Spark job; answers in the order of `paths`."""
    tasks = min(len(paths), _TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    largest_first = sorted(range(len(paths)), key=lambda index: -_size(paths[index]))
    hands = [[(index, str(paths[index])) for index in largest_first[first::tasks]] for first in range(tasks)]
    judge = partial(_judge_hand, request=json.dumps(request.as_json()))
    told = spark.sparkContext.parallelize(hands, tasks).flatMap(judge).collect() if hands else []
    answers = {index: json.loads(answer) for index, answer in told}
    return [answers[index] for index in range(len(paths))]


def _judge_hand(hand: Sequence[tuple[int, str]], request: str) -> list[tuple[int, str]]:
    asked = Request.from_json(json.loads(request))
    return [(index, json.dumps(judge_path(Path(path), asked))) for index, path in hand]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
