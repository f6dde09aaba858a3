"""A race: a scripted interleaving with a name, which shows one bug on the versions that have it and its absence elsewhere.

    @race(
        "slow-disk",
        cluster=lambda given: cluster(given, brokers=2, topics=[topic("t", [1, 2], min_isr=1)]),
        affected="up to 3.4",
        fixed="3.5 (KIP-903)",
        expects=(Expectation(outcome="lost-write", metadata="<= 3.5-IV0"), Expectation(outcome="valid")),
    )
    async def slow_disk(on: Stage, records: int = 200, variant: Literal["kill", "elect"] = "kill") -> None:
        '''A slow disk loses every acknowledged record.

        The rest of the docstring is the story: the bug, the KIP that prevents it, what a reader will see.
        '''
        await on.produce("t", 0, records)
        ...

The parameters of the script are the race's: typed, with a default each, refused when they do not fit. `variant`, where there
is one, is a Literal. The script acts and waits (nemesis/races/stage.py is its whole vocabulary); it never judges.
Registered as `krash.races` entry points; a file with one race in it works too: `krash race run ./my_race.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from nemesis.races.cells import Cell
from nemesis.races.expectation import Expectation
from nodes.topology import NodePlan, QuorumKind, ServerRole, Topic, Topology

if TYPE_CHECKING:
    pass

Script = Callable[..., Awaitable[None]]
VARIANT: Final = "variant"

# What every race starts from; its own configuration comes on top. Research: short sessions, and nothing that moves by itself.
CONFIG: Final[Mapping[str, str]] = {
    "broker.session.timeout.ms": "2500",
    "broker.heartbeat.interval.ms": "300",
    "replica.lag.time.max.ms": "30000",  # a follower leaves the ISR because the script stopped it, not because it is slow
    "controller.socket.timeout.ms": "120000",  # a held request is not sent again
    "auto.leader.rebalance.enable": "false",
    "unclean.leader.election.enable": "false",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


# `of_nodes` of a controller that votes, and never stands for election itself.
ONLY_VOTES: Final[Mapping[str, str]] = {
    "controller.quorum.fetch.timeout.ms": "600000",
    "controller.quorum.election.timeout.ms": "600000",
}


class BadRace(ValueError):
    """A race that cannot be: no default for a parameter, a variant without names. The message names race and parameter."""


class BadParameters(ValueError):
    """Parameters that do not fit the race; the message names each, and what it takes."""


@dataclass(frozen=True, kw_only=True)
class Given:
    """What a race's cluster is made for. `parameters` has the script's parameters as attributes."""

    system: str
    version: str
    metadata_version: str | None
    parameters: Any
    config: Mapping[str, str] = field(default_factory=dict)  # --set config.all...: the last word


@dataclass(frozen=True, kw_only=True)
class Race:
    name: str  # [a-z0-9-]
    title: str  # first line of the docstring
    story: str  # the rest of it
    script: Script
    cluster: Callable[[Given], Topology]
    parameters: type[BaseModel]
    affected: str
    fixed: str
    expects: tuple[Expectation, ...]
    references: tuple[str, ...] = ()  # "KAFKA-14139", "KIP-903"
    gate: Callable[[Any], bool] = lambda _: True  # does it need the wire gate, with these parameters?
    client_links: Callable[[Any], bool] = lambda _: False  # does it hold what clients say or hear?
    transactional: bool = False  # the final read is read_committed
    acks: str = "all"  # what its clients ask for, and so what the checker takes as promised
    servers_may_die: bool = False  # by themselves, as part of the story; otherwise that is an error
    recovery_s: float = 60.0  # how long to wait, after the script, for leaders and full ISRs
    limit_s: float = 180.0  # a script that takes longer hangs
    rolls_to: Callable[[Any], Sequence[str]] = lambda _: ()  # other versions that it starts nodes on
    quotes: tuple[str, ...] = ()  # regular expressions (RE2): lines of the nodes' logs that the report quotes
    systems: tuple[str, ...] = ()  # what it is shown on: "kafka:3.4.1", "kafka:4.3.1@3.4"
    also: tuple[Cell, ...] = ()  # further cells of the track record: other parameters than the variant
    samples: tuple[Cell, ...] = ()  # what CI runs; empty: see nemesis/races/cells.py
    tries: int = 5  # of each cell, for the track record

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of the variants, the default first; empty when there is one way only."""
        known = self.parameters.model_fields.get(VARIANT)
        if known is None:
            return ()
        names = get_args(known.annotation)
        return (known.default, *(name for name in names if name != known.default))

    def settle(self, settings: Mapping[str, Any]) -> BaseModel:
        """The parameters, defaults filled in. BadParameters names every one that does not fit."""
        try:
            return self.parameters.model_validate(dict(settings))
        except ValidationError as error:
            known = ", ".join(self.parameters.model_fields) or "none"
            lines = [
                f"{self.name} has no parameter {item['loc'][0]!r}; it has: {known}"
                if item["type"] == "extra_forbidden"
                else f"{'.'.join(map(str, item['loc']))}: {item['msg']} (got {item.get('input')!r})"
                for item in error.errors(include_url=False)
            ]
            raise BadParameters("; ".join(lines)) from None


def race(
    name: str,
    *,
    cluster: Callable[[Given], Topology],
    expects: Sequence[Expectation],
    affected: str,
    fixed: str,
    gate: bool | Callable[[Any], bool] = True,
    client_links: bool | Callable[[Any], bool] = False,
    **more: Any,  # the other fields of Race
) -> Callable[[Script], Race]:
    """Make a Race of a script. `gate` and `client_links` may depend on the parameters."""

    def made(script: Script) -> Race:
        title, _, story = inspect.cleandoc(script.__doc__ or "").partition("\n")
        if not title:
            raise BadRace(f"race {name}: its first docstring line is its title; there is none")
        return Race(
            name=name,
            title=title.rstrip("."),
            story=story.strip(),
            script=script,
            cluster=cluster,
            parameters=_parameters(name, script),
            affected=affected,
            fixed=fixed,
            expects=tuple(expects),
            gate=_when(gate),
            client_links=_when(client_links),
            **more,
        )

    return made


def _when(given: bool | Callable[[Any], bool]) -> Callable[[Any], bool]:
    return given if callable(given) else lambda _: given


def _parameters(name: str, script: Script) -> type[BaseModel]:
    """A model of the script's parameters but the first, which is the stage."""
    _, *rest = inspect.signature(script, eval_str=True).parameters.values()
    fields: dict[str, Any] = {}
    for parameter in rest:
        if parameter.annotation is parameter.empty or parameter.default is parameter.empty:
            raise BadRace(f"race {name}: parameter {parameter.name} needs a type and a default")
        fields[parameter.name] = (parameter.annotation, Field(default=parameter.default, validate_default=True))
    if VARIANT in fields and not all(isinstance(one, str) for one in get_args(fields[VARIANT][0]) or (None,)):
        raise BadRace(f'race {name}: variant must be a Literal of names, as Literal["kill", "elect"]')
    return create_model(f"Parameters of {name}", __config__=ConfigDict(extra="forbid", frozen=True), **fields)


def cluster(
    given: Given,
    *,
    brokers: int,
    controllers: int = 1,
    topics: Sequence[Topic] = (),
    clients: int = 1,
    config: Mapping[str, str] | None = None,
    of_nodes: Mapping[str, Mapping[str, str]] | None = None,
    quorum: QuorumKind = QuorumKind.STATIC,
    features: Mapping[str, int] | None = None,
) -> Topology:
    """Controllers c1.. (ids 101..), brokers b1.. (ids 1..) and clients w1.., with the configuration of races and `config` on top.

    of_nodes: name -> what is different there. features: levels at format time, {"eligible.leader.replicas.version": 0}.
    """
    common, own = {**CONFIG, **(config or {})}, of_nodes or {}
    shapes = [(f"c{n}", 100 + n, ServerRole.CONTROLLER) for n in range(1, controllers + 1)]
    shapes += [(f"b{n}", n, ServerRole.BROKER) for n in range(1, brokers + 1)]
    return Topology(
        system=given.system,
        nodes=tuple(
            NodePlan(
                name=name,
                id=id,
                roles=frozenset({role}),
                version=given.version,
                config={**common, **own.get(name, {}), **given.config},
            )
            for name, id, role in shapes
        ),
        topics=tuple(topics),
        clients=clients,
        metadata_version=given.metadata_version,
        quorum=quorum,
        features=features or {},
    )


def topic(name: str, replicas: Sequence[int] | Sequence[Sequence[int]], *, min_isr: int = 1, **config: str) -> Topic:
    """A topic with its replicas assigned: broker ids, the preferred leader first, of the only partition or of each."""
    each = [tuple(one) if isinstance(one, Sequence) else (one,) for one in replicas]
    if all(isinstance(one, int) for one in replicas):
        each = [tuple(one for one in replicas if isinstance(one, int))]
    return Topic(
        name=name,
        partitions=len(each),
        replication=len(each[0]),
        assignment=dict(enumerate(each)),
        config={"min.insync.replicas": str(min_isr), **config},
    )
