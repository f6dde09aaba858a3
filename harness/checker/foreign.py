"""Histories of other tools, judged: from a path to an answer, in a plain process, and many paths in one Spark job.

    judge_path(Path("etcd_000.log"), Request())
    ->  {"path": "etcd_000.log", "model": "cas-register", "verdict": "invalid", "engine": "frontier", "ops": 85,
         "anomalies": [{"type": "nonlinearizable", "count": 1, "sentence": "...", "ops": ["84: process 10 read -> ok 1 (line 170)"]}],
         "seconds": 0.012, "reason": null, "error": null}

`verdict` is valid, invalid, unknown, or error: the file is no history, or nobody can say of what. A history goes to one
worker whole: what takes long with large files is reading them, which no key can be known before; once read, a worker
judges millions of ops a second. Largest files first, each a task of its own as long as there are few, so that one
huge file among a thousand small ones does not wait for them.

Histories of Kafka are the exception: workers only read them, and all of them are judged together by the checks of our own
runs (foreign_kafka.py).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.checker.models.bad_history import BAD_HISTORY, of_problems
from harness.checker.models.kafka import KAFKA
from harness.checker.models.model import ABSENT, Found, Judgement, Question
from harness.checker.models.registry import NoModel, model_for, model_named
from harness.checker.models.values import shown
from harness.history.errors import HistoryError
from harness.history.formats.edn import EdnError, Reader
from harness.history.formats.event import Event
from harness.history.formats.pairing import Operation, Paired, pair
from harness.history.formats.reading import Format, read_events
from reports.verdict import Validity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ERROR = "error"
_OPS_SHOWN = 8
_TASKS_PER_CORE = 4
_WITHOUT_SPARK = ""


class BadInitial(ValueError):
    """The initial value is no EDN."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked of all histories of one command, as it travels to workers."""

    model: str | None = None
    initial: str | None = None  # EDN or JSON of one value
    consistency: tuple[str, ...] = ()
    format: str | None = None
    all_keys: bool = False  # go on after the first key that is wrong

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Request:
        return cls(**{**document, "consistency": tuple(document.get("consistency") or ())})

    def question(self) -> Question:
        """BadInitial."""
        initial = ABSENT if self.initial is None else initial_value(self.initial)
        return Question(initial=initial, consistency=self.consistency, find_all=self.all_keys)


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
    """Never raises for what is in the file. A history of Kafka is unknown here: it takes `judge_histories`."""
    return _judge_path(path, request, _WITHOUT_SPARK)[0]


def _judge_path(path: Path, request: Request, run: str) -> tuple[dict[str, Any], bytes]:
    """The answer, and of a history of Kafka its rows, to be judged under the name `run`."""
    began = time.monotonic()
    known: dict[str, Any] = {"path": str(path), "model": request.model, "ops": 0}
    rows = b""
    try:
        history = pair(_events(path, request))
        known["ops"] = len(history.operations)
        answer = _judged(history, request)
        if answer.get("model") == KAFKA.name and run != _WITHOUT_SPARK:
            answer, rows = _kafka_rows(history, run)
    except HistoryError as error:
        answer = _error(f"{error.where}: {error.reason}" if error.where else error.reason)
    except NoModel as error:
        answer = _error(str(error))
    except MemoryError:
        answer = _error("there is not enough memory for this history")
    except Exception as error:  # noqa: BLE001 a defect of a model must not take the other histories with it
        answer = _error(f"a defect in krash itself, please report it: {type(error).__name__}: {error}")
    return {**known, **answer, "seconds": round(time.monotonic() - began, 6)}, rows


def _events(path: Path, request: Request) -> Iterator[Event]:
    return read_events(path, None if request.format is None else Format(request.format))


def _kafka_rows(history: Paired, run: str) -> tuple[dict[str, Any], bytes]:
    from harness.checker.foreign_kafka import rows

    found = rows(history, run)
    if isinstance(found, Judgement):
        return {"model": KAFKA.name, **_answer(found, history)}, b""
    return {"model": KAFKA.name}, found.packed()


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
    return _told(found, {op.index: described(op) for op in history.operations if op.index in wanted})


def _told(found: Found, texts: Mapping[int, str]) -> dict[str, Any]:
    return {
        "type": found.type,
        "count": found.count,
        "violation": found.violation,
        "sentence": found.sentence,
        "ops": [texts[index] for index in found.ops[:_OPS_SHOWN] if index in texts],
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
    """One Spark job, and one more for histories of Kafka; answers in the order of `paths`."""
    tasks = min(len(paths), _TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    largest_first = sorted(range(len(paths)), key=lambda index: -_size(paths[index]))
    hands = [[(index, str(paths[index])) for index in largest_first[first::tasks]] for first in range(tasks)]
    judge = partial(_judge_hand, request=json.dumps(request.as_json()))
    told = spark.sparkContext.parallelize(hands, tasks).flatMap(judge).collect() if hands else []
    answers = {index: json.loads(answer) for index, answer, _ in told}
    _judge_kafka(spark, answers, {index: rows for index, _, rows in told if rows}, request)
    return [answers[index] for index in range(len(paths))]


def _judge_hand(hand: Sequence[tuple[int, str]], request: str) -> list[tuple[int, str, bytes]]:
    asked = Request.from_json(json.loads(request))
    judged = [(index, _judge_path(Path(path), asked, f"h{index}")) for index, path in hand]
    return [(index, json.dumps(answer), rows) for index, (answer, rows) in judged]


def _judge_kafka(
    spark: SparkSession, answers: dict[int, dict[str, Any]], rows: dict[int, bytes], request: Request
) -> None:
    """Complete the answers about histories of Kafka."""
    if not rows:
        return
    from harness.checker.foreign_kafka import judge_rows, unpacked

    began = time.monotonic()
    judged = judge_rows(spark, {str(index): unpacked(f"h{index}", data) for index, data in rows.items()})
    seconds = (time.monotonic() - began) / len(rows)
    told = [index for index in rows if judged[str(index)].found]
    wanted = [
        (index, answers[index]["path"], sorted({op for one in judged[str(index)].found for op in one.ops[:_OPS_SHOWN]}))
        for index in told
    ]
    describe = partial(_described_ops, request=json.dumps(request.as_json()))
    texts = dict(spark.sparkContext.parallelize(wanted, len(wanted)).map(describe).collect()) if wanted else {}
    for index in rows:
        judgement = judged[str(index)]
        answers[index] |= {
            "verdict": judgement.verdict.value,
            "engine": judgement.engine,
            "anomalies": [_told(found, texts[index]) for found in judgement.found],
            "reason": judgement.reason or None,
            "error": None,
            "seconds": round(answers[index]["seconds"] + seconds, 6),
        }


def _described_ops(wanted: tuple[int, str, list[int]], request: str) -> tuple[int, dict[int, str]]:
    """In a Spark worker: the text of some ops of a history."""
    index, path, ops = wanted
    history = pair(_events(Path(path), Request.from_json(json.loads(request))))
    return index, {op.index: described(op) for op in history.operations if op.index in set(ops)}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
