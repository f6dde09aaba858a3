"""Files of other tools: seen for what they are, read alike, and told with path, line and column when they are not whole."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.history.errors import HistoryError
from harness.history.formats.edn_writer import write
from harness.history.formats.event import Event
from harness.history.formats.pairing import pair
from harness.history.formats.reading import Format, detect, read_events

EDN = """; a register
{:process 0, :type :invoke, :f :write, :value 1, :index 0, :time 10}
{:process :nemesis, :type :info, :f :start, :value nil, :index 1, :time 11}
{:process 0, :type :info,
 :f :write, :value 1, :error [:timeout "no answer"], :index 2, :time 12}
"""
LOG = (
    "INFO  jepsen.core - Running test\n"
    "INFO  jepsen.util - 0\t:invoke\t:cas\t[3 0]\n"
    "INFO  jepsen.util - :nemesis\t:info\t:start\tnil\n"
    "INFO  jepsen.util - 1\t:invoke\t:read\tnil\n"
    "INFO  jepsen.util - 0\t:info\t:cas\t:timed-out\n"
    "2026-01-02 10:11:12,345{GMT}\tINFO\t[jepsen worker 1] jepsen.util: 1\t:ok\t:read\t3\n"
)
JSONL = '{"process": 0, "type": "invoke", "f": "write", "value": 1}\n\n{"process": 0, "type": "ok", "f": "write", "value": 1}\n'
KEY_VALUE = (
    '{:process 0, :type :invoke, :f :append, :key "0", :value "x 0 \\"y\\""}\n'
    '{:process 0, :type :ok, :f :append, :key "0", :value "x 0 \\"y\\""}\n'
    '{:process 1, :type :invoke, :f :get, :key "0", :value nil}\n'
    '{:process 1, :type :ok, :f :get, :key "0", :value "x 0 \\"y\\""}\n'
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "history"


def events(path: Path, content: str | bytes, format_name: Format | None = None) -> list[Event]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read_events(path, format_name))


def error_of(path: Path, content: str | bytes) -> HistoryError:
    with pytest.raises(HistoryError) as caught:
        events(path, content)
    assert caught.value.path == path
    return caught.value


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (EDN, Format.JEPSEN_EDN),
        ("[" + EDN + "]", Format.JEPSEN_EDN),
        ("(" + EDN + ")", Format.JEPSEN_EDN),
        ("#jepsen.history.Op{:index 0}", Format.JEPSEN_EDN),
        (LOG, Format.JEPSEN_LOG),
        (JSONL, Format.JSONL),
        ("[\n " + JSONL.strip().replace("\n\n", ",") + "]", Format.JSONL),
        ("\ufeff" + JSONL, Format.JSONL),
        ("; elle\n{:process 1 :type :ok :value [[:r x [1 2]]]}", Format.JEPSEN_EDN),
        (KEY_VALUE, Format.EDN_LINES),
    ],
)
def test_detection(file: Path, content: str, expected: Format) -> None:
    file.write_text(content)
    assert detect(file) is expected


def test_edn_of_jepsen(file: Path) -> None:
    for content in (
        EDN,
        f"[{EDN}]",
        f"({EDN})",
        EDN.replace("{:process", "#jepsen.history.Op{:process"),
        "\ufeff" + EDN,
    ):
        write_, nemesis, completion = events(file, content)
        assert (write_.process, write_.type, write_.f, write_.value, write_.index, write_.time) == (
            0,
            "invoke",
            "write",
            1,
            0,
            10,
        )
        assert (nemesis.process, completion.error) == ("nemesis", ("timeout", "no answer"))


def test_the_console(file: Path) -> None:
    found = events(file, LOG)
    assert [(e.process, e.type, e.f, e.value, e.error, e.line) for e in found] == [
        (0, "invoke", "cas", (3, 0), None, 2),
        ("nemesis", "info", "start", None, None, 3),
        (1, "invoke", "read", None, None, 4),
        (0, "info", "cas", None, "timed-out", 5),
        (1, "ok", "read", 3, None, 6),
    ]


def test_json_and_edn_say_the_same(file: Path) -> None:
    entry = {
        "process": 3,
        "type": "ok",
        "f": "txn",
        "value": [["append", 1, 2], ["r", 1, [2]]],
        "index": 0,
        "node": "n1",
    }
    edn = "{:process 3 :type :ok :f :txn :value [[:append 1 2] [:r 1 [2]]] :index 0 :node n1}".replace(" n1", ' "n1"')
    (from_json,) = events(file, json.dumps(entry))
    (from_array,) = events(file, f"[{json.dumps(entry)}]")
    (from_edn,) = events(file, edn)
    assert from_edn == from_array == from_json._replace(line=None)


def test_transactions_as_papers_write_them(file: Path) -> None:
    """Without :f, with symbols for keys, with one index per op: as elle-cli has them."""
    (operation,) = pair(
        events(
            file,
            "{:process 1, :index 5 :type :invoke, :value [[:r x]]} {:process 1 :index 5 :type :ok :value [[:r x []]]}",
        )
    ).operations
    assert (operation.f, operation.value, operation.result) == ("txn", (("r", "x"),), (("r", "x", ()),))


def test_a_key_value_log(file: Path) -> None:
    found = pair(events(file, KEY_VALUE))
    assert found.problems == []
    assert [(o.f, o.key, o.value, o.result) for o in found.operations] == [
        ("append", "0", 'x 0 "y"', 'x 0 "y"'),
        ("get", "0", None, 'x 0 "y"'),
    ]


@pytest.mark.parametrize(
    ("content", "where", "reason"),
    [
        ('[{:process 0\n  :type "ok}]', "line 2, column 9", "string"),
        ("{:process 0 :type :ok :f :read}\n{:process 0 :type", "line 2, column 18", "} is missing"),
        ("[{:process 0 :type :ok :f :read}]\n]", "line 2, column 1", "closes nothing"),
        ("{:process 0 :type :ok :f :read}\n{:process 0 :type :maybe :f :read}\n", "line 2, column 1", "type of an op"),
        ("{:process 0 :type :ok :f :read}\n17", "line 2, column 1", "an op is a map"),
        ("{:process 0 :type :ok :value 3}\n", "line 1, column 1", "what it does"),
        ("{:process 1.5 :type :ok :f :read}\n", "line 1, column 1", "a process is"),
        ("{:process 0 :index -5 :type :ok :f :read}\n", "line 1, column 1", "an index is"),
        ('{"process": 0}\n', "line 1, column 1", "type of an op"),
        (JSONL + '{"process": 0, "ty', "line 4, column 16", "not JSON"),
        (JSONL + '{"a": NaN}', "line 4, column 1", "NaN"),
        (JSONL + '{"a": 1, "a": 2}', "line 4, column 1", "key twice"),
        (JSONL + '{"a": "\\ud800"}', "line 4, column 1", "half a character"),
        (JSONL + '{"a": ' + "[" * 100_000, "line 4, column 1", "nested deeper"),
        (JSONL + '{"a": ' + "[" * 300 + "]" * 300 + "}", "line 4, column 1", "nested deeper"),
        (JSONL + '{"a": ' + "1" * 5000 + "}", "line 4, column 1", "digits"),
        ('[{"process": 0,\n "type": }]', "line 2, column 10", "not JSON"),
        ("{:a " + "[" * 100_000, "line 1, column 204", "nested deeper"),
        (LOG + "INFO  jepsen.util - 10\t:ok\t:re", "line 7, column 27", "expected"),
        (LOG + "INFO  jepsen.util - 10\t:ok\t:read\t[1", "line 7, column 36", "] is missing"),
        (b"{:type :ok :f :a}\n{:b \xff}", "line 2, column 5", "not UTF-8 (byte 0xff)"),
        (JSONL.encode() + b'{"\xc3\xa9\xff": 1}', "line 4, column 4", "not UTF-8"),
        ("", "", "is empty"),
        (" \n", "", "is empty"),
        (b"PK\x03\x04....", "", "zip archive"),
        (b"\x1f\x8b\x08", "", "gzip"),
        (b"\0" * 257 + b"ustar", "", "tar archive"),
        ("hello", "line 1, column 1", "none of jepsen-edn, jepsen-log, jsonl, edn-lines"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named_with_its_place(file: Path, content: str | bytes, where: str, reason: str) -> None:
    error = error_of(file, content)
    assert reason in error.reason
    assert error.where == where


def test_a_missing_file_and_a_directory(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(HistoryError, match="cannot be read"):
            list(read_events(path))


def test_a_large_vector_on_one_line_comes_piece_by_piece(file: Path) -> None:
    entries = [{"process": i % 7, "type": "ok", "f": "read", "value": "é;[ " + "x" * 50} for i in range(20_000)]
    edn = (
        "["
        + " ".join(f"{{:process {e['process']}, :type :ok, :f :read, :value {write(e['value'])}}}" for e in entries)
        + "]"
    )
    file.write_text(edn)
    assert [e.value for e in read_events(file)] == [e["value"] for e in entries]
    stream = read_events(file)
    assert next(stream).process == 0


def test_a_value_of_ten_megabytes(file: Path) -> None:
    value = "line\n" * 2_000_000
    (event,) = events(file, "{:process 0 :type :ok :f :read :value " + write(value).replace("\\n", "\n") + "}\n")
    assert event.value == value


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([EDN, LOG, JSONL, KEY_VALUE]), st.data())
def test_damage_is_an_error_with_a_place_or_no_damage(file: Path, content: str, data: Any) -> None:
    raw = bytearray(content.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        how = data.draw(st.sampled_from(["flip", "cut", "insert"]))
        if how == "flip":
            raw[at] = data.draw(st.integers(0, 255))
        elif how == "cut":
            del raw[at + 1 :]
        else:
            raw[at:at] = data.draw(st.binary(max_size=4))
    with suppress(HistoryError):
        pair(events(file, bytes(raw)))
