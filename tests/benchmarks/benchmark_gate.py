"""What the wire gate costs: frames per second of one core, and how much later a frame arrives.

Two nodes of the local backend speak Kafka's framing to each other, once directly and once through the gate, in turns. Frames per second are
counted per second of the gate's own CPU time, which says what one core can do whatever else the machine is doing; the latency is the
difference of the medians with one request in flight.

    python -m pytest -s tests/benchmarks/benchmark_gate.py

`test_what_a_run_loses` runs the same spec on Kafka with the gate off, on, and on with the connections of clients.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness.run import prepare
from harness.spec_file import load_spec
from harness.supervisor import Supervisor, stage_command
from nemesis.wire.driver import GateProcess
from nodes.backends.local import LocalBackend
from nodes.node import Command, Node, NodeRequest, Role
from tests.nodes.contracts.stage import until

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
TOY = "tests.nemesis.wire.toy"
ROUNDS = 5
FRAMES_PER_SECOND, ADDED_MS, LESS = 30_000, 0.3, 0.25
LOADS = {"one in flight": (1, 1), "8 connections, one in flight": (8, 1), "8 connections, 20 in flight": (8, 20)}
DIRECT, THROUGH = 9095, 9092  # the gate knows nothing of the first


async def measure(home: Path) -> None:
    (home / "journal").mkdir()
    backend = LocalBackend()
    await backend.open(run="benchmark", home=home)
    caller, server = [await backend.add(NodeRequest(name=name, role=Role.CLIENT)) for name in ("b1", "b2")]
    gate = await GateProcess.open(
        backend.network,
        [caller, server],
        [],
        with_clients=False,
        command=(sys.executable, "-m", "harness.gate"),
        about={"run": "benchmark", "clock": "host", "writer": 0, "journal": str(home / "journal")},
        log=home / "gate.log",
    )
    script = " & ".join(f"{server.python[0]} -m {TOY} serve {server.address} {port}" for port in (DIRECT, THROUGH))
    await server.start(Command(argv=("sh", "-c", f"{script} & wait"), env={"PYTHONPATH": str(ROOT)}))
    await until(server, "serving", nth=2)
    found: dict[str, dict[str, list[float]]] = {}
    for name, load in LOADS.items():
        figures = found.setdefault(name, {"frames_per_core": [], "direct_us": [], "through_us": []})
        for _ in range(ROUNDS):
            direct = await drive(caller, server, DIRECT, load)
            before = cpu_seconds(gate.pid)
            through = await drive(caller, server, THROUGH, load)
            used = cpu_seconds(gate.pid) - before
            figures["frames_per_core"].append(2 * through["answers"] / used)
            figures["direct_us"].append(direct["p50_us"])
            figures["through_us"].append(through["p50_us"])
    await gate.end()
    await backend.close()
    medians = {name: {key: statistics.median(each) for key, each in one.items()} for name, one in found.items()}
    (home / "found.json").write_text(json.dumps(medians))


async def drive(caller: Node, server: Node, port: int, load: tuple[int, int]) -> dict[str, float]:
    connections, in_flight = load
    options = ("--connections", str(connections), "--in-flight", str(in_flight), "--seconds", "2")
    argv = ("env", f"PYTHONPATH={ROOT}", *caller.python, "-m", TOY, "drive", server.address, str(port), *options)
    done = await caller.run(argv, timeout=60)
    assert done.code == 0, done.stderr.decode()
    return dict(json.loads(done.stdout))


def cpu_seconds(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def test_frames_per_core_and_latency(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "tests.benchmarks.benchmark_gate", str(tmp_path)]
    subprocess.run(LocalBackend.enclose(argv), cwd=ROOT, check=True, timeout=300)
    found = json.loads((tmp_path / "found.json").read_text())
    for name, one in found.items():
        added_ms = (one["through_us"] - one["direct_us"]) / 1000
        print(
            f"\n{name}: {one['frames_per_core']:,.0f} frames/s of one core; round trip +{added_ms:.3f} ms at p50",
            end="",
        )
    assert found["8 connections, 20 in flight"]["frames_per_core"] >= FRAMES_PER_SECOND
    assert found["one in flight"]["through_us"] - found["one in flight"]["direct_us"] <= 1000 * ADDED_MS


SPEC = ROOT / "examples" / "healthy.yaml"
WIRES: dict[str, dict[str, Any]] = {"off": {"wire": "off"}, "on": {"wire": "on"}, "clients": {"wire_clients": True}}
RUN_ROUNDS = 3


class Counting:
    """Listens to a stage: records acknowledged, and when the clients' first and last counters of the workload came."""

    def __init__(self) -> None:
        self.counted: list[tuple[float, int]] = []
        self.phase = ""

    def heard(self, message: dict[str, Any]) -> None:
        if message["type"] == "phase":
            self.phase = message["name"]
        elif message["type"] == "progress" and self.phase == "workload":
            self.counted.append((time.monotonic(), message["counters"].get("acknowledged", 0)))

    def interrupted(self, times: int) -> None:
        pass

    def rate(self) -> float:
        """Per second, without the first seconds, when everything is new."""
        late = [one for one in self.counted if one[0] > self.counted[0][0] + 3]
        return (late[-1][1] - late[0][1]) / (late[-1][0] - late[0][0])


@pytest.mark.kafka
def test_what_a_run_loses(tmp_path: Path) -> None:
    """In turns, several times, because the machine changes more between two minutes than the gate costs."""
    rates: dict[str, list[float]] = {name: [] for name in WIRES}
    for _ in range(RUN_ROUNDS):
        for name, wire in WIRES.items():
            rates[name].append(acknowledged_per_second(tmp_path / name, wire))
            print(f"\ngate {name}: {rates[name][-1]:,.0f} records/s", end="", flush=True)
    medians = {name: statistics.median(each) for name, each in rates.items()}
    print("\nmedians: " + "; ".join(f"gate {name} {rate:,.0f}" for name, rate in medians.items()))
    assert medians["on"] >= (1 - LESS) * medians["off"]


def acknowledged_per_second(out: Path, wire: dict[str, Any]) -> float:
    """Of one run at full speed, without judging it."""
    spec = load_spec(SPEC, settings={"system": "kafka", "rate": None, "time_limit": "13s", **wire})
    prepared = prepare(spec, Console(quiet=True), out=out, quiet=True, replayed=None)
    listener = Counting()
    supervisor = Supervisor(
        stage=stage_command(prepared.directory),
        enclose=prepared.backend.enclose,
        log=prepared.directory / "stage.log",
        listener=listener,
        limit=300,
    )
    ending = asyncio.run(supervisor.run())
    assert ending.status == "completed", (prepared.directory / "stage.log").read_text()
    return listener.rate()


if __name__ == "__main__":
    asyncio.run(measure(Path(sys.argv[1])))
