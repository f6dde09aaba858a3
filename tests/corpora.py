"""Labelled histories of other checkers, judged by krash: a table of who agrees. The histories are theirs and not in here.

    $ git clone https://github.com/anishathalye/porcupine; git clone https://github.com/jepsen-io/knossos
    $ git clone https://github.com/ligurio/elle-cli
    $ python -m tests.corpora --porcupine porcupine --knossos knossos --elle-cli elle-cli
    corpus              model         files  agree  seconds
    porcupine/jepsen    cas-register    102    102      0.9
    ...

The labels are those of their authors: Porcupine's test file, directories `good` and `bad` of Knossos, the results that
elle-cli's tests compare with. `--labels FILE` adds any others: `path TAB model TAB valid|invalid`, one per line, paths
relative to the file. Exit code 1 when a verdict is another one than its label.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# TestEtcdJepsenNNN with `true` in porcupine_test.go; in 095 the cluster did not start
_VALID_ETCD = {
    *(2, 5, 7, 18, 25, 31, 38, 45, 48, 49, 51, 53, 56, 67, 75, 76, 80, 87, 92, 98, 100, 101, 102),
}  # fmt: skip
_NOT_STARTED = 95
_KNOSSOS_MODELS = ("register", "cas-register", "mutex")
_ELLE_MODELS = {  # by how the name of a case begins, longest first
    "list-append": "list-append", "paper-example": "list-append", "rw-register": "rw-register", "bank": "bank",
    "counter": "counter-bounds", "long-fork": "long-fork", "set_full": "set-full", "set": "final-set", "etcd": "mutex",
    "hazelcast": "mutex", "bad-analysis": "cas-register", "cas-failure": "cas-register", "mongodb": "cas-register",
    "rethink-fail": "cas-register", "memstress3": "cas-register", "comments": "comments", "sequential": "sequential",
}  # fmt: skip
_CONSISTENCY = {  # elle_cli_test.clj, case-opts; strict-serializable where nothing is said
    "list-append-gh-30": "serializable", "rw-register-process-anomaly": "strong-session-serializable",
    "rw-register-model-serializable": "serializable", "rw-register-model-snapshot-isolation": "snapshot-isolation",
    "rw-register-model-strong-snapshot": "strong-snapshot-isolation",
    "list-append-model-read-uncommitted": "read-uncommitted",
    "list-append-model-snapshot-isolation": "snapshot-isolation", "list-append-model-read-committed": "read-committed",
}  # fmt: skip
_OTHER_OPTIONS = ("keys-", "transaction-order", "partial-info")  # version orders that are assumed by an option


class Case(NamedTuple):
    corpus: str
    path: Path
    model: str
    expected: str
    consistency: str = ""


def porcupine(root: Path) -> Iterator[Case]:
    for path in sorted((root / "test_data" / "jepsen").glob("etcd_*.log")):
        number = int(path.stem.removeprefix("etcd_"))
        if number != _NOT_STARTED:
            yield Case("porcupine/jepsen", path, "cas-register", _word(number in _VALID_ETCD))
    for path in sorted((root / "test_data" / "kv").glob("c*.txt")):
        yield Case("porcupine/kv", path, "kv", _word(path.stem.endswith("ok")))


def knossos(root: Path) -> Iterator[Case]:
    for model in _KNOSSOS_MODELS:
        for path in sorted((root / "data" / model).glob("*/*.edn")):
            yield Case("knossos", path, model, _word(path.parent.name == "good"))


def elle_cli(root: Path) -> Iterator[Case]:
    results = root / "test" / "test-data"
    for result in sorted(results.glob("*-result.json")):
        name = result.name.removesuffix("-result.json")
        model = next(
            (_ELLE_MODELS[start] for start in sorted(_ELLE_MODELS, key=len)[::-1] if name.startswith(start)), None
        )
        path = next((results / (name + end) for end in (".edn", ".json") if (results / (name + end)).exists()), None)
        if model is None or path is None or any(option in name for option in _OTHER_OPTIONS):
            print(f"not asked: {name}, {_why_not(model, path)}", file=sys.stderr)
            continue
        valid = json.loads(result.read_bytes())["valid?"]
        transactional = model in ("list-append", "rw-register")
        consistency = _CONSISTENCY.get(name, "strict-serializable") if transactional else ""
        yield Case("elle-cli", path, model, valid if isinstance(valid, str) else _word(valid), consistency)


def _why_not(model: str | None, path: Path | None) -> str:
    if path is None:
        return "there is no such history"
    return "no model is known for it" if model is None else "its version orders are assumed by an option"


def labelled(file: Path) -> Iterator[Case]:
    for line in file.read_text().splitlines():
        if line.strip():
            path, model, expected = line.split("\t")
            yield Case(file.name, file.parent / path, model, expected)


def _word(valid: bool) -> str:
    return "valid" if valid else "invalid"


def judged(cases: list[Case]) -> Iterator[tuple[Case, dict[str, object]]]:
    """One command per model and consistency."""
    alike: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for case in cases:
        alike[case.model, case.consistency].append(case)
    for (model, consistency), group in alike.items():
        options = ["--model", model, *(["--consistency-models", consistency] if consistency else [])]
        command = [sys.executable, "-m", "harness", "check", "--json", *options, *(str(case.path) for case in group)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        if len(answers) != len(group):
            sys.exit(f"krash check ended with {done.returncode} and {len(answers)} of {len(group)} answers")
        yield from zip(group, answers, strict=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Judge labelled histories of other checkers; see the top of this file."
    )
    for name in ("porcupine", "knossos", "elle-cli"):
        parser.add_argument(f"--{name}", type=Path, metavar="DIR", help=f"a copy of {name}")
    parser.add_argument("--labels", type=Path, metavar="FILE", help="path TAB model TAB valid|invalid")
    options = parser.parse_args(arguments)
    sources = (
        (options.porcupine, porcupine), (options.knossos, knossos), (options.elle_cli, elle_cli),
        (options.labels, labelled),
    )  # fmt: skip
    cases = [case for place, read in sources if place is not None for case in read(place)]
    if not cases:
        parser.error("no labelled history there; name a copy of a corpus")
    files: Counter[tuple[str, str]] = Counter()
    agree: Counter[tuple[str, str]] = Counter()
    seconds: Counter[tuple[str, str]] = Counter()
    different = []
    for case, answer in judged(cases):
        row = case.corpus, case.model
        files[row] += 1
        seconds[row] += float(str(answer["seconds"]))
        agree[row] += answer["verdict"] == case.expected
        if answer["verdict"] != case.expected:
            reason = answer.get("error") or answer.get("reason") or ""
            different.append(f"{case.path}: {answer['verdict']} instead of {case.expected} {reason}")
    print(f"{'corpus':<20}{'model':<14}{'files':>6}{'agree':>7}{'seconds':>9}")
    for corpus, model in files:
        row = corpus, model
        print(f"{corpus:<20}{model:<14}{files[row]:>6}{agree[row]:>7}{seconds[row]:>9.1f}")
    print(*different, sep="\n")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
