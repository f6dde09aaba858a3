"""Every model of an object against brute force, through a file: what is read, paired, interned and judged at once."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.checker.foreign import Request, judge_path
from tests.harness.checker.linearizability.brute_force import Op, linearizable
from tests.harness.checker.models.written import as_edn, entries, failed, spelled, spelled_as_store
from tests.strategies import OBJECTS, random_history

HISTORIES = 250


@pytest.fixture
def judge(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    path = tmp_path / "history.edn"

    def judge_text(text: str, **request: Any) -> dict[str, Any]:
        path.write_text(text)
        return judge_path(path, Request(**request))

    return judge_text


def legal(ops: list[Op], name: str) -> bool:
    return linearizable(ops, OBJECTS[name].initial)


@pytest.mark.parametrize(("all_keys", "wrong"), [(False, 1), (True, 2)])
def test_the_first_wrong_key_ends_the_search_unless_all_are_asked_for(judge: Any, all_keys: bool, wrong: int) -> None:
    read = ("{:process 0 :type :invoke :f :read :key %d}", "{:process 0 :type :ok :f :read :key %d :value 5}")
    text = "\n".join(line % key for key in (1, 2) for line in read)
    answer = judge(text, model="register", all_keys=all_keys)
    assert [anomaly["count"] for anomaly in answer["anomalies"]] == [wrong]


@pytest.mark.parametrize(
    ("shape", "model"),
    [
        ("register", "register"),
        ("unique-register", "register"),
        ("cas-register", "cas-register"),
        ("unique-cas-register", "cas-register"),
        ("counter", "counter"),
        ("unit-counter", "counter"),
        ("sequencer", "counter"),
        ("set", "set"),
        ("grow-only-set", "set"),
        ("queue", "queue"),
        ("unique-queue", "queue"),
        ("text", "kv"),
        ("code", "kv"),
        ("register", "kv"),
    ],
)
def test_verdicts_are_those_of_brute_force(judge: Any, shape: str, model: str) -> None:
    spell = spelled_as_store if model == "kv" else spelled
    seen = {"valid": 0, "invalid": 0}
    for seed in range(HISTORIES):
        rng = random.Random(seed)
        ops = random_history(rng, shape)
        noise = failed(ops, rng, spell) if rng.random() < 0.5 else []
        answer = judge(as_edn(entries(ops, rng, spell=spell), noise), model=model)
        assert answer["verdict"] == ("valid" if legal(ops, shape) else "invalid"), (seed, ops, answer)
        assert bool(answer["anomalies"]) == (answer["verdict"] == "invalid")
        seen[answer["verdict"]] += 1
    assert min(seen.values()) > HISTORIES / 20, "the histories are too much alike"


@pytest.mark.parametrize(("shape", "by_holder"), [("mutex", False), ("held-mutex", False), ("held-mutex", True)])
def test_who_releases_a_lock_does_not_matter(judge: Any, shape: str, by_holder: bool) -> None:
    seen = {"valid": 0, "invalid": 0, "unknown": 0}
    for seed in range(HISTORIES):
        rng = random.Random(seed)
        ops = random_history(rng, shape)
        answer = judge(as_edn(entries(ops, rng, by_holder=by_holder)), model="mutex")
        seen[answer["verdict"]] += 1
        if answer["verdict"] == "unknown":
            assert by_holder
            assert answer["anomalies"][0]["type"] == "bad-history"
            continue
        anybody = [op._replace(argument=1) for op in ops]
        assert answer["verdict"] == ("valid" if linearizable(anybody, None) else "invalid"), (seed, ops, answer)
    assert min(seen["valid"], seen["invalid"]) > HISTORIES / 20


@pytest.mark.parametrize(("shape", "model"), [("cas-register", "cas-register"), ("text", "kv"), ("queue", "queue")])
def test_keys_are_objects_of_their_own(judge: Any, shape: str, model: str) -> None:
    spell = spelled_as_store if model == "kv" else spelled
    for seed in range(HISTORIES // 3):
        rng = random.Random(seed)
        histories = [random_history(rng, shape, most=5) for _ in range(3)]
        parts = [entries(ops, rng, key=key, spell=spell) for key, ops in enumerate(histories, start=1)]
        answer = judge(as_edn(*parts), model=model)
        wrong = [key for key, ops in enumerate(histories, start=1) if not legal(ops, shape)]
        assert answer["verdict"] == ("invalid" if wrong else "valid"), (seed, histories, answer)
        if wrong:
            (anomaly,) = answer["anomalies"]
            assert any(anomaly["sentence"].startswith(f"key {key}: ") for key in wrong)
