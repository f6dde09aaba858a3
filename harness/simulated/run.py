"""One simulated run from the first node to its run directory, a minute of it within seconds.

    run_dir = simulate(Plan(mix=Mix(weights={"kill": 3, "pause": 1})), seed=7, out=Path("runs/x-7"))
    verdict = judge(spark, [open_run(run_dir)])[0].verdict

In order, as a real run: deploy, clients begin, faults, heal, drain, and the rows are saved. What the protections should have prevented is
not looked for here: the history is all that the checker gets.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.history.rundir import RunInfo
from harness.simulated.chaos import Faults, Mix
from harness.simulated.client import Client
from harness.simulated.cluster import Shape, SimulatedCluster, partitions_of
from harness.simulated.member import Member, MemberSettings, note_committed
from harness.simulated.member_faults import MemberFaults, MemberMix
from harness.simulated.observer import Observer
from harness.simulated.producer import Producer, ProducerSettings
from harness.simulated.reader import Reader
from harness.simulated.recording import Rows
from harness.simulated.stage import Missed, Script, Stage
from harness.simulated.transactor import TransactionSettings, Transactor
from nodes.reference.environment import SECOND, Environment
from nodes.reference.simulation.world import Machine, Program
from workloads.op import Phase

_SETTLE: Final = 30 * SECOND  # for leaders, full ISRs, and what clients have in flight
_DRAIN: Final = 20 * SECOND
_CLIENTS: Final = ("w1", "w2")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """workload: "log", "transactions" or "groups"."""

    name: str = "simulated"
    shape: Shape = field(default_factory=Shape)
    mix: Mix = field(default_factory=lambda: Mix(weights={"kill": 1}))
    workload: str = "log"
    duration: int = 40 * SECOND
    producer: ProducerSettings = field(default_factory=ProducerSettings)
    transactions: TransactionSettings = field(default_factory=TransactionSettings)
    members: MemberSettings = field(default_factory=MemberSettings)
    member_mix: MemberMix = field(default_factory=lambda: MemberMix(weights={"pause": 2, "kill": 1}))
    checks: Mapping[str, Any] = field(default_factory=dict)  # the `checks:` section of a spec
    script: Script | None = None  # instead of drawn faults


@dataclass(frozen=True, kw_only=True)
class Simulated:
    run_dir: Path
    seconds: float  # of the world
    steps: int
    failures: list[str]  # nodes that ended with an error


def simulate(plan: Plan, *, seed: int, out: Path) -> Simulated:
    """NotReady when the cluster does not come up. FileExistsError: nothing is overwritten."""
    cluster = SimulatedCluster(seed, plan.shape)
    try:
        rows = Rows(out.name, lambda: cluster.world.loop.now)
        observer = Observer(cluster, rows)
        cluster.ready()
        observer.begin()
        end = cluster.world.loop.now + plan.duration
        members = _members(cluster, rows, plan, end)
        clients = [*_start_clients(cluster, rows, plan, end), *_start(cluster, members)]
        member_faults = MemberFaults(cluster.world, members, plan.member_mix, cluster.world.random("member faults"))
        member_faults.plan(end - SECOND)
        faults = Faults(cluster, rows, plan.mix, cluster.world.random("faults"))
        nemesis = cluster.world.machine("nemesis")
        if plan.script is None:
            faults.plan(end - SECOND)
        else:
            cluster.world.start(nemesis, _scripted(cluster, rows, plan.script))
        cluster.world.run_for(plan.duration)
        cluster.world.kill(nemesis)
        faults.heal()
        rows.faults_end()
        member_faults.heal()
        cluster.world.run_for(_SETTLE, stop=lambda: cluster.healed() and not any(one.runs for one in clients))
        _drain(cluster, rows, plan)
        observer.end()
        info = RunInfo(run=out.name, seed=seed, system="reference:simulated", spec=_spec(plan), topics=_topics(plan))
        rows.save(out, info)
        failures = [f"{name}: {error!r}" for name, error in cluster.world.failures]
        return Simulated(
            run_dir=out, seconds=cluster.world.loop.now / SECOND, steps=cluster.world.loop.steps, failures=failures
        )
    finally:
        cluster.world.close()


def _start_clients(cluster: SimulatedCluster, rows: Rows, plan: Plan, end: int) -> list[Machine]:
    """Where they run; a program ends when what it has in flight is known, or given up."""
    places = partitions_of(plan.shape.topics)
    machines: list[Machine] = []

    def program(name: str, begin: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
        async def main(environment: Environment) -> None:
            await begin(Client(environment, name, cluster.bootstrap))

        machines.append(cluster.world.machine(name))
        cluster.world.start(machines[-1], main)

    for node in _CLIENTS:
        if plan.workload != "transactions":
            for number, (topic, partition) in enumerate(places):
                client = f"{node}.p{number}"
                program(client, _producing(rows, topic, partition, plan.producer, end))
        else:
            index = _CLIENTS.index(node)
            program(node, _transacting(rows, f"t{index}-0", places, plan.transactions, end))
        if plan.workload == "groups":
            continue
        committed = plan.workload == "transactions"
        program(f"{node}.c0", _reading(rows, places, end, committed=committed))
    return machines


def _members(cluster: SimulatedCluster, rows: Rows, plan: Plan, end: int) -> dict[str, Program]:
    """Machine -> program, which begins its next life when it is started again. Of static ones several have one instance id."""
    if plan.workload != "groups":
        return {}
    settings, twins = plan.members, plan.members.twins
    names = [f"{node}.m{number}" for node in _CLIENTS for number in range(settings.members)]
    places = partitions_of(plan.shape.topics)

    def member(name: str, instance: str | None) -> Program:
        lives = itertools.count(1)

        async def main(environment: Environment) -> None:
            await Member(environment, rows, name, cluster.bootstrap, places, settings, lives, instance).run(end)

        return main

    if not twins:
        return {name: member(name, None) for name in names}
    return {f"{name}.{twin}": member(f"{name}.{twin}", name) for name in names for twin in range(twins)}


def _start(cluster: SimulatedCluster, programs: Mapping[str, Program]) -> list[Machine]:
    machines = [cluster.world.machine(name) for name in programs]
    for machine, program in zip(machines, programs.values(), strict=True):
        cluster.world.start(machine, program)
    return machines


def _scripted(cluster: SimulatedCluster, rows: Rows, script: Script) -> Program:
    async def main(environment: Environment) -> None:
        with contextlib.suppress(Missed):  # then nothing comes of it, which the table shows
            await script(Stage(cluster, rows, environment))

    return main


def _producing(rows: Rows, topic: str, partition: int, settings: ProducerSettings, end: int) -> Any:
    return lambda client: Producer(client, rows, topic, partition, settings).run(end)


def _transacting(rows: Rows, name: str, places: list[tuple[str, int]], settings: TransactionSettings, end: int) -> Any:
    return lambda client: Transactor(client, rows, name, places, settings).run(end)


def _reading(rows: Rows, places: list[tuple[str, int]], end: int, *, committed: bool) -> Any:
    return lambda client: Reader(client, rows, places, Phase.MAIN, committed=committed).run(end)


def _drain(cluster: SimulatedCluster, rows: Rows, plan: Plan) -> None:
    """A fresh client reads everything; whoever still sends has its time until then."""
    places = partitions_of(plan.shape.topics)
    machine = cluster.world.machine("drain")
    until = cluster.world.loop.now + _DRAIN

    async def main(environment: Environment) -> None:
        client = Client(environment, "w1.d0", cluster.bootstrap)
        await Reader(client, rows, places, Phase.FINAL, committed=plan.workload == "transactions").drain(until)
        if plan.workload == "groups":
            await note_committed(client, rows, plan.members.group, places, _DRAIN)

    cluster.world.start(machine, main)
    cluster.world.run_for(2 * _DRAIN, stop=lambda: machine.process is None)


def _spec(plan: Plan) -> dict[str, Any]:
    """What the checker has to know of it."""
    if plan.workload == "transactions":
        return {"workload": {"name": "transactions", "isolation": "read_committed"}, "checks": dict(plan.checks)}
    return {
        "workload": {
            "name": plan.workload,
            "acks": "all" if plan.producer.acks == -1 else str(plan.producer.acks),
            "idempotence": plan.producer.idempotent,
            "requests_in_flight": 1,
        },
        "checks": dict(plan.checks),
    }


def _topics(plan: Plan) -> list[dict[str, Any]]:
    return [
        {"name": topic.name, "partitions": topic.partitions, "replication": topic.replication, "config": topic.config}
        for topic in plan.shape.topics
    ]
