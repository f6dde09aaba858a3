"""Histories of other tools: whatever is in a file, there is an answer, with the place of what is wrong; and many in one Spark job."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from harness.checker import foreign
from harness.checker.foreign import BadInitial, Request, initial_value, judge_path
from harness.checker.models.model import Judgement
from tests.harness.checker.models.judging import ops, types
from tests.harness.checker.stories import clean

GOOD = ops("0 invoke write 1", "0 ok write 1", "1 invoke read nil", "1 ok read 1")
WRONG = ops("0 invoke write 1", "0 ok write 1", "1 invoke read nil", "1 ok read 2")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "history"


def judge(path: Path, content: str | bytes, **request: Any) -> dict[str, Any]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return judge_path(path, Request(**request))


def _zip() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("../../history.edn", GOOD)
    return held.getvalue()


def _tar() -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        about = tarfile.TarInfo("/etc/history.edn")
        about.size = len(GOOD)
        archive.addfile(about, io.BytesIO(GOOD.encode()))
    return held.getvalue()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(b"", "empty", id="empty"),
        pytest.param(b" \n\n", "empty", id="blank"),
        pytest.param(b"\x00" * 5000, "none of", id="zeros"),
        pytest.param(GOOD.encode() + b'{:process 1 :f :read :value "\xff"}', "line 5, column 30: not UTF-8", id="utf8"),
        pytest.param(GOOD.encode("utf-16"), "none of", id="utf16"),
        pytest.param(GOOD[:-3], "line 4, column", id="truncated"),
        pytest.param("[" + GOOD, "the text ends where ] is missing", id="open vector"),
        pytest.param("[" + GOOD + "] {:a 1}", "something follows", id="trailing"),
        pytest.param("[" * 100_000, "nested deeper than 200", id="edn bomb"),
        pytest.param("{:a " * 100_000, "nested deeper than 200", id="edn bomb of maps"),
        pytest.param("#a " * 300_000, "line 1", id="tags of nothing"),
        pytest.param('[{"a": ' + "[" * 100_000, "nested deeper than 200", id="json bomb"),
        pytest.param('{"process": 0, "type": "ok", "type": "fail"}', "one key twice", id="json key twice"),
        pytest.param('{"process": 0, "type": "invoke", "f": "read", "value": NaN}', "line 1, column 1", id="json nan"),
        pytest.param("{:process 0 :type :done :f :read}", "line 1, column 1: the type of an op", id="no type"),
        pytest.param(GOOD + "{:process 0 :type :ok}", "line 5, column 1: an op says what it does", id="no f"),
        pytest.param(GOOD + "{:index -7 :type :ok :f :read}", "line 5, column 1: an index", id="negative index"),
        pytest.param("{:process 0 :type :ok :f :read :value " + "9" * 10_000 + "}", "4000 digits", id="long number"),
        pytest.param(
            "INFO  jepsen.util - 0\t:invoke\t:read\tnil\nINFO  jepsen.util - 0\t:ok\t:read\t[1\n", "line 2", id="log"
        ),
        pytest.param(_zip(), "zip archive; unpack", id="zip"),
        pytest.param(_tar(), "tar archive; unpack", id="tar"),
        pytest.param(gzip.compress(GOOD.encode()), "gzip", id="gzip"),
        pytest.param(b"PAR1\x15\x04\x15", "Parquet", id="parquet"),
    ],
)
def test_what_is_no_history_is_an_error_with_its_place(file: Path, content: bytes | str, told: str) -> None:
    answer = judge(file, content)
    assert (answer["verdict"], answer["anomalies"], answer["path"]) == ("error", [], str(file))
    assert told in answer["error"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            ops("0 invoke read nil| :index 4", "0 ok read 1| :index 4", "1 invoke read nil| :index 4"),
            "index 4 is there twice",
        ),
        (ops("0 ok read 1", "1 invoke write 1", "1 ok write 1"), "was not invoked"),
        (ops("0 invoke write 1", "0 ok write 1", "0 ok write 1"), "write by process 0 completes at entry 3"),
        (ops("0 invoke write 1", "0 invoke write 2", "0 ok write 2"), "one process per slot"),
        (ops("0 invoke write 1", "0 ok read 1"), "what is open is write"),
        (ops("0 invoke cas 1", "0 ok cas 1"), "cas at entry 2: a compare-and-set has a value [expected new]"),
    ],
)
def test_what_nobody_can_have_recorded_is_a_bad_history(file: Path, content: str, told: str) -> None:
    answer = judge(file, content)
    assert (answer["verdict"], types(answer)) == ("unknown", ["bad-history"])
    assert told in answer["anomalies"][0]["sentence"]


@pytest.mark.parametrize(
    ("model", "lines", "told"),
    [
        ("counter", ("0 invoke add 9223372036854775808", "0 ok add 9223372036854775808"), "2^62"),
        ("counter", ("0 invoke add 1.5", "0 ok add 1.5"), "whole numbers"),
        ("counter", tuple(f"{n} invoke add 4000000000000000000" for n in range(3)), "beyond 2^62"),
        ("counter", ("0 invoke add 1", "0 ok add 1", "0 invoke read nil", '0 ok read "x"'), "whole numbers"),
        ("set", ("0 invoke read nil", "0 ok read 3"), "finds a set"),
        ("set", ("0 invoke contains 1", "0 ok contains 7"), "true or false"),
        ("kv", ("0 invoke append 3", "0 ok append 3"), "holds strings"),
        ("log", ("0 invoke append 3", "0 ok append [-3 3]"), "is no offset"),
        ("log", ("0 invoke read nil", "0 ok read [[1]]"), "is not [offset value]"),
        ("epoch", ("0 invoke elect -1", "0 ok elect -1"), "an epoch is"),
    ],
)
def test_values_that_a_model_cannot_have_are_told_with_their_place(
    file: Path, model: str, lines: tuple[str, ...], told: str
) -> None:
    answer = judge(file, ops(*lines), model=model)
    assert (answer["verdict"], types(answer)) == ("unknown", ["bad-history"])
    assert told in answer["reason"]
    assert "entry " in answer["reason"]


def test_a_value_of_ten_megabytes_is_judged_and_told_in_a_line(file: Path) -> None:
    value = '"' + "x" * 10_000_000 + '"'
    answer = judge(file, ops(f"0 invoke write {value}", f"0 ok write {value}", "1 invoke read nil", "1 ok read 7"))
    assert answer["verdict"] == "invalid"
    text = judge(file, ops(f"0 invoke append {value}", f"0 ok append {value}", "1 invoke get nil", '1 ok get "y"'))
    assert (text["model"], text["verdict"]) == ("kv", "invalid")
    assert len(json.dumps([answer, text])) < 5_000


def test_a_history_without_ops_of_clients_is_not_valid(file: Path) -> None:
    for content in ("[]", "{:process :nemesis :type :info :f :start}"):
        answer = judge(file, content)
        assert (answer["verdict"], answer["reason"]) == ("unknown", "it has no op of any client")


def test_equal_times_are_concurrent(file: Path) -> None:
    lines = (
        "0 invoke write 1| :time 1",
        "0 ok write 1| :time 5",
        "1 invoke read nil| :time {}",
        "1 ok read nil| :time 9",
    )
    verdicts = [judge(file, ops(*(line.format(when) for line in lines)))["verdict"] for when in (5, 6)]
    assert verdicts == ["valid", "invalid"]


def test_a_defect_of_a_model_takes_only_its_own_history_with_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        name = "register"

        def judge(self, *_: Any) -> Judgement:
            raise ZeroDivisionError("what")

    monkeypatch.setattr(foreign, "model_for", lambda _: Broken())
    answer = judge(file, GOOD)
    assert answer["verdict"] == "error"
    assert "defect in krash" in answer["error"]
    assert "ZeroDivisionError" in answer["error"]


def test_initial_values_are_edn() -> None:
    assert [initial_value(text) for text in ("nil", "null", "0", ' "a" ', ":a", "a", "", "[1 2]")] == [
        *(None, None, 0, "a", "a", "a", "", (1, 2)),
    ]  # fmt: skip
    for text in ("1 2", "[1", "{:a}"):
        with pytest.raises(BadInitial):
            initial_value(text)


def test_reading_time_does_not_explode_with_what_is_discarded(file: Path) -> None:
    began = time.monotonic()
    judge(file, "[" + "#_ {:a 1} " * 200_000 + "]")
    assert time.monotonic() - began < 60


@pytest.mark.spark
def test_many_histories_and_runs_are_asked_for_in_one_process(spark: Any, tmp_path: Path) -> None:
    from harness.checker.process import answers

    texts = {"good.edn": GOOD, "wrong.edn": WRONG, "bad.edn": GOOD[:-3], "large.edn": GOOD * 300}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    paths = [str(tmp_path / name) for name in (*texts, "nowhere")]
    told = [
        answer
        for answer in answers(spark, json.dumps({"histories": paths, "question": {"model": "register"}}))
        if "doing" not in answer
    ]
    assert [answer["path"] for answer in told] == paths
    assert [answer["verdict"] for answer in told] == ["valid", "invalid", "error", "valid", "error"]
    assert told[1]["anomalies"][0]["ops"]
    assert told[2]["error"].startswith("line 4, column ")
    assert [answer["ops"] for answer in told] == [2, 2, 0, 600, 0]

    run = clean("run").save(tmp_path / "run")
    (found,) = answers(spark, json.dumps({"runs": [str(run)]}))
    assert found["verdict"] == "valid"
