"""A toy plug-in package, as anyone would make one: a module and the metadata that registers it."""

from __future__ import annotations

from pathlib import Path

import pytest

WORKLOAD = '''
from workloads.op import OpKind, Outcome, Phase
from workloads.workload import Reads

class Toy:
    """Sends numbers to nobody and hears that all is well."""
    name = "toy"
    Settings = dict

    def run(self, context):
        if context.settings.get("fail"):
            raise RuntimeError("the toy broke")
        recorder, block, sequence = context.recorder, 16, 0
        stream = context.stream("producer", 0)
        process = recorder.new_process()
        while not context.stop.is_set():
            partitions = stream.choices(range(context.topics[0].partitions), k=block)
            numbers = range(sequence, sequence + block)
            ops = recorder.invoke_sends(
                client=context.client + ".p0", phase=Phase.MAIN, topics=["log"] * block, partitions=partitions,
                processes=[process] * block, sequences=numbers, values=[f"{context.client}/{n}" for n in numbers])
            recorder.complete_sends(ops=ops, outcomes=[Outcome.OK] * block, errors=[None] * block,
                                    offsets=numbers, timestamps_ms=[None] * block)
            sequence += block
            context.progress({"attempted": sequence})
            context.stop.wait(0.01)

    def drain(self, context, deadline_s):
        op = context.recorder.invoke(client=context.client + ".d0", kind=OpKind.POLL, phase=Phase.FINAL, process=1)
        context.recorder.complete(op, Outcome.OK, reads=Reads(["log"], [0], [0], ["v"], [None], [None]))
'''


def make_plugin(folder: Path, package: str, points: str) -> None:
    metadata = folder / f"{package}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(points)


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    """A folder to put on the path: package toy, workload "toy"."""
    folder = tmp_path / "plugins"
    make_plugin(folder, "toy", "[krash.workloads]\ntoy = toy_workload:Toy\n")
    (folder / "toy_workload.py").write_text(WORKLOAD)
    return folder
