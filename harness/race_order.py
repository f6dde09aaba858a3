"""One race, settled: which race, on what, with which parameters. What `krash race run` makes and run.json keeps.

order = settle("kafka-14139", system="kafka:3.4.1", metadata_version=None, settings={"records": 50}, ...)
order.spec(...)     the spec of the run: a race's run is a run like any other, to the checker and to the report
order.topology()    what is deployed
run.json: {"purpose": "race", "race": {"name", "source", "variant", "parameters", "expected", ...}}
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from harness import plugins
from harness.errors import UsageError
from harness.plugins import Group
from harness.races import find_race, is_file
from harness.spec import Spec
from nemesis.races.expectation import CLIENT_ERROR, UNAVAILABLE, VALID, Expectation, expected
from nemesis.races.race import VARIANT, BadParameters, Given, Race
from nodes.topology import ServerRole, Topology
from reports.verdict import Severity, Status, Validity, Verdict

# settings of the spec that a race leaves to whoever runs it
OPEN = ("config.all.", "limits.", "checks.", "recovery_limit", "drain_limit", "image")
METADATA_VERSION = "metadata_version"


@dataclass(frozen=True, kw_only=True)
class Order:
    race: Race
    source: str  # name, or absolute path of its file
    parameters: BaseModel
    system: str  # "kafka:3.4.1"
    metadata_version: str | None
    config: Mapping[str, str]  # for every node, on top of the race's

    @property
    def variant(self) -> str | None:
        value = getattr(self.parameters, VARIANT, None)
        return None if value is None else str(value)

    @property
    def version(self) -> str:
        return self.system.partition(":")[2]

    @property
    def needs_gate(self) -> bool:
        return self.race.gate(self.parameters)

    @property
    def needs_client_links(self) -> bool:
        return self.race.client_links(self.parameters)

    @property
    def expected(self) -> Expectation | None:
        """None: nothing was stated for this, or nobody can compare the versions of this system."""
        if self.system.partition(":")[0] != "kafka" or "/" in self.version:
            return None
        return expected(
            self.race.expects,
            version=self.version,
            metadata_version=self.metadata_version,
            parameters=self.parameters.model_dump(),
        )

    @property
    def shows(self) -> frozenset[str]:
        """Anomaly types that its table names."""
        return frozenset(line.outcome for line in self.race.expects) - {VALID, UNAVAILABLE, CLIENT_ERROR}

    def topology(self) -> Topology:
        given = Given(
            system=self.system.partition(":")[0],
            version=self.version,
            metadata_version=self.metadata_version,
            parameters=self.parameters,
            config=self.config,
        )
        return self.race.cluster(given)

    def as_json(self) -> dict[str, Any]:
        line = self.expected
        return {
            "name": self.race.name,
            "title": self.race.title,
            "source": self.source,
            "variant": self.variant,
            "parameters": self.parameters.model_dump(mode="json"),
            "config": dict(self.config),
            "expected": None if line is None else {"outcome": line.outcome, "because": line.because},
            "affected": self.race.affected,
            "fixed": self.race.fixed,
            "references": list(self.race.references),
            "quotes": list(self.race.quotes),
            "story": self.race.story,
        }

    @classmethod
    def of_run(cls, spec: Spec, kept: Mapping[str, Any]) -> Order:
        """The order of a run, from run.json."""
        race = find_race(kept["source"])
        return cls(
            race=race,
            source=kept["source"],
            parameters=race.settle(kept["parameters"]),
            system=spec.system,
            metadata_version=spec.metadata_version,
            config=kept["config"],
        )


def settle(name: str, *, system: str, variant: str | None, settings: Mapping[str, Any]) -> tuple[Order, dict[str, Any]]:
    """An order, and the settings of the spec that were put on top. `system`: NAME:VERSION, with @METADATA_VERSION if wanted.

    UsageError names what does not fit.
    """
    race = find_race(name)
    system, _, metadata_version = system.partition("@")
    own: dict[str, Any] = {} if variant is None else {VARIANT: variant}
    spec: dict[str, Any] = {}
    for key, value in settings.items():
        if key == METADATA_VERSION:
            metadata_version = str(value)
        elif key.startswith(OPEN) and key not in race.parameters.model_fields:
            spec[key] = value
        else:
            own[key] = value
    try:
        parameters = race.settle(own)
    except BadParameters as error:
        raise UsageError(f"{error} (and metadata_version, {', '.join(OPEN)})") from None
    order = Order(
        race=race,
        source=str(Path(name).resolve()) if is_file(name) else name,
        parameters=parameters,
        system=_with_version(system),
        metadata_version=metadata_version or None,
        config={
            key.removeprefix("config.all."): str(spec.pop(key)) for key in list(spec) if key.startswith("config.all.")
        },
    )
    return order, spec


def _with_version(system: str) -> str:
    name, _, version = system.partition(":")
    return f"{name}:{version or plugins.load(Group.SYSTEMS, name).default_version()}"


def spec_of(order: Order, *, backend: str, seed: int | None, settings: Mapping[str, Any]) -> Spec:
    """The spec of a race's run: its cluster as a person would write it, and how its final read is done."""
    from harness.spec_file import load_spec  # the stage has a spec that was read, and goes without a parser of YAML

    topology, race = order.topology(), order.race
    combined = any(len(plan.roles) > 1 for plan in topology.nodes)
    configs = {plan.name: dict(plan.config) for plan in topology.nodes}
    common = dict(set.intersection(*(set(config.items()) for config in configs.values())))
    return load_spec(
        None,
        settings={
            "name": race.name,
            "system": order.system,
            "metadata_version": order.metadata_version,
            "features": dict(topology.features),
            "quorum": str(topology.quorum),
            "controllers": len(topology.controllers),
            "brokers": len([plan for plan in topology.nodes if ServerRole.BROKER in plan.roles]),
            "combined": combined,
            "config": {
                "all": common,
                "nodes": {name: left for name, config in configs.items() if (left := _without(config, common))},
            },
            "topics": [_topic(topic) for topic in topology.topics] or [{"name": "none", "replication": 1}],
            "workload": {
                "name": "log",
                "clients": topology.clients,
                "producers": 1,
                "consumers": 0,
                "acks": race.acks,
                "idempotence": race.acks == "all",
                "isolation": "read_committed" if race.transactional else "read_uncommitted",
            },
            "rate": None,
            "time_limit": race.limit_s,
            "recovery_limit": race.recovery_s,
            "drain_limit": 30,
            "backend": backend,
            "seed": seed,
            **_wire(order),
            **settings,
        },
    )


def _wire(order: Order) -> dict[str, Any]:
    return {"wire": "on", "wire_clients": order.needs_client_links} if order.needs_gate else {}


def _without(config: Mapping[str, str], common: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in config.items() if key not in common}


def _topic(topic: Any) -> dict[str, Any]:
    if topic.assignment is not None:
        places: dict[str, Any] = {"assignment": {number: list(ids) for number, ids in topic.assignment.items()}}
    else:
        places = {"partitions": topic.partitions, "replication": topic.replication}
    return {"name": topic.name, "config": dict(topic.config), **places}


def as_expected(line: Expectation | None, verdict: Verdict, shows: Collection[str] = ()) -> bool | None:
    """Did it come as stated beforehand? None where nothing was stated, or nothing can be said about the system.

    shows: anomaly types that the race's table names (Order.shows). One of them counts although it may be information only, as
    epoch-inflation is, which leaves a run valid.
    """
    if line is None or verdict.status not in (Status.JUDGED, Status.NO_DATA):
        return None
    types = anomaly_types(verdict, shows)
    if line.outcome == CLIENT_ERROR:
        return verdict.verdict in (Validity.VALID, Validity.INVALID)
    if line.outcome == VALID:
        return verdict.verdict == Validity.VALID and not types
    if line.outcome == UNAVAILABLE:
        return verdict.counts is not None and verdict.counts.lost == 0 and verdict.verdict != Validity.VALID
    return verdict.verdict in (Validity.INVALID, Validity.VALID) and line.outcome in types


def anomaly_types(verdict: Verdict, shows: Collection[str] = ()) -> list[str]:
    """Violations, and what is information only among the types that a race is there to show."""
    return [
        found.type
        for found in verdict.anomalies
        if found.severity == Severity.VIOLATION
        or (found.severity == Severity.INFORMATION and found.type in shows and not found.expected)
    ]
