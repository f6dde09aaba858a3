"""After `ready` no kernel is left to compile for any object."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = """
import json, random
from harness.checker.linearizability import decide, kernel, zones
from harness.checker.linearizability.ready import compile_kernels
from tests.strategies import OBJECTS, encode, initial_code, random_history

def compiled():
    kernels = [value for module in (kernel, zones) for value in vars(module).values() if hasattr(value, "signatures")]
    return sum(len(one.signatures) for one in kernels)

compile_kernels()
before = compiled()
engines = {"text": "text", "code": "text", "mutex": "mutex", "held-mutex": "mutex", "sequencer": "counter"}
for name in OBJECTS:
    engine = next(model for model in sorted(decide.EXACT, key=len, reverse=True) if model in engines.get(name, name))
    for seed in range(20):
        decide.decide(engine, encode(random_history(random.Random(seed), name)), initial_code(name))
print(json.dumps([before, compiled()]))
"""


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="kernels are plain Python here")
def test_one_small_history_per_engine_compiles_everything() -> None:
    root = Path(__file__).parents[4]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        capture_output=True,
        text=True,
        check=True,
        timeout=280,
        env=environment,
        cwd=root,
    )
    before, after = json.loads(done.stdout.splitlines()[-1])
    assert before == after > 0
