"""The plan: every fault of a run with all its choices, made before the run as plain data.

Why before: the same seed gives the same plan whatever the cluster does, a plan can be recorded and taken again (`krash run --replay`), and
a shorter one can be tried. What cannot be known before (who leads then) is a rule and a number that decides ties; what it came to is
recorded beside it. Each fault draws from a substream of its own, ("nemesis", i), so that leaving one out changes no other.

    PlannedFault(fault=2, kind="partition", rule="leader of a random partition", draw=3735928559,
                 settings={"shape": "isolate", "action": "drop", ...}, at_s=19.4, duration_s=3.1, slot_s=8.0, ...)

The life of a planned fault is in `nemesis/runner.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from nemesis.kinds import find
from nemesis.settings import FaultChoice, Mix, NemesisSettings, Step
from nemesis.targets import UnknownRule, client_names, parse, validate
from nemesis.when import When, parts_of
from nodes.backend import Capability
from nodes.topology import Topology

Stream = Callable[[str, int], random.Random]  # (actor, index) -> a random source of its own

SCRIPT_SLOT_S = 10.0


class ImpossiblePlan(ValueError):
    """The settings ask for something that this topology or backend does not have; the message says what and where."""


@dataclass(frozen=True, kw_only=True)
class PlannedFault:
    fault: int
    kind: str
    rule: str
    draw: int  # decides ties when the rule is resolved
    settings: dict[str, Any]  # of the kind, nothing left to chance
    at_s: float | None = None  # from the start of the faults; None: `when` says
    when: dict[str, Any] | None = None  # nemesis.when.When
    delay_s: float = 0.0  # after `when` held
    duration_s: float | None = None  # None: until `until` holds, or the end
    until: dict[str, Any] | None = None
    slot_s: float = SCRIPT_SLOT_S  # a refused fault may be tried again for so long
    label: str | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def from_json(rows: Iterable[dict[str, Any]]) -> list[PlannedFault]:
    """A recorded plan. TypeError when a row is not one."""
    return [PlannedFault(**row) for row in rows]


def make_plan(settings: NemesisSettings, topology: Topology, stream: Stream, time_limit_s: float) -> list[PlannedFault]:
    """All faults that fit into the fault phase. ImpossiblePlan names the entry that asks for what is not there."""
    if settings.mix is not None:
        return _mix(settings.mix, topology, stream, time_limit_s)
    return [
        _step(number, step, settings.steps, topology, stream("nemesis", number))
        for number, step in enumerate(settings.steps)
    ]


def lacking(plan: Sequence[PlannedFault], capabilities: frozenset[Capability]) -> list[str]:
    """One line for each kind of fault that a backend with these capabilities cannot do."""
    kinds = {planned.kind: find(planned.kind).needs - capabilities for planned in plan}
    return [
        f"{kind} needs {', '.join(sorted(needs))}, which this backend lacks"
        for kind, needs in sorted(kinds.items())
        if needs
    ]


def _mix(mix: Mix, topology: Topology, stream: Stream, time_limit_s: float) -> list[PlannedFault]:
    plan: list[PlannedFault] = []
    order: list[int] = []  # of every fault of the mix, once per round
    at_s = mix.start_after
    while True:
        number = len(plan)
        rounds, place = divmod(number, len(mix.faults))
        if place == 0:
            order = stream("nemesis-order", rounds).sample(range(len(mix.faults)), len(mix.faults))
        rng = stream("nemesis", number)
        gap, duration_s = mix.interval * rng.uniform(0.5, 1.5), rng.uniform(*mix.duration)
        if at_s + duration_s > time_limit_s:
            return plan
        where = f"mix.faults.{order[place]}"
        chosen = _chosen(number, mix.faults[order[place]], where, topology, rng)
        plan.append(replace(chosen, at_s=round(at_s, 3), duration_s=round(duration_s, 3), slot_s=mix.interval))
        at_s += gap if mix.overlap else max(gap, duration_s + mix.quiet)


def _step(number: int, step: Step, steps: Sequence[Step], topology: Topology, rng: random.Random) -> PlannedFault:
    where = f"step {number}"
    return replace(
        _chosen(number, step, where, topology, rng),
        at_s=step.at,
        when=_condition(step.when, steps, f"{where}, when", topology),
        delay_s=step.delay,
        duration_s=step.for_,
        until=_condition(step.until, steps, f"{where}, until", topology),
        label=step.as_,
    )


def _condition(when: When | None, steps: Sequence[Step], where: str, topology: Topology) -> dict[str, Any] | None:
    if when is None:
        return None
    written = when.plain()
    names = [step.as_ for step in steps]
    for part in parts_of(written):
        assert isinstance(part, dict)
        part.update({key: names.index(part[key]) for key in ("after", "healed") if isinstance(part.get(key), str)})
        _check(part, where, topology)
    return written


def _chosen(number: int, choice: FaultChoice, where: str, topology: Topology, rng: random.Random) -> PlannedFault:
    """Everything but its moment. Draws the same numbers whatever the choice says, so that saying more shifts nothing."""
    kind = find(choice.fault)
    settled = kind.settle(kind.Settings.model_validate(choice.settings), topology, rng)
    rules = kind.rules(settled, topology)
    drawn = rules[rng.randrange(len(rules))]
    rule = choice.target or drawn
    try:
        validate(parse(rule), topology)
    except UnknownRule as unknown:
        raise ImpossiblePlan(f"nemesis {where}: {unknown}") from None
    settings = settled.model_dump(mode="json")
    return PlannedFault(fault=number, kind=choice.fault, rule=rule, draw=rng.getrandbits(32), settings=settings)


def _check(when: Mapping[str, Any], where: str, topology: Topology) -> None:
    """What one part of a trigger names is there."""
    brokers = [node.name for node in topology.brokers]
    named = [when[key] for key in ("fenced", "unfenced", "contains") if key in when]
    named += when["is"] if isinstance(when.get("is"), list) else []
    for name in named:
        if name not in brokers:
            raise ImpossiblePlan(f"nemesis {where}: {name!r} is no broker here; there are {', '.join(brokers)}")
    servers = [node.name for node in topology.nodes]
    if "log" in when and when["log"]["node"] not in servers:
        raise ImpossiblePlan(
            f"nemesis {where}: {when['log']['node']!r} is no server here; there are {', '.join(servers)}"
        )
    for key in ("source", "destination"):
        pattern = when.get("message", {}).get(key)
        known = [*servers, *(client_names(topology) if key == "source" else ())]
        if pattern is not None and not any(fnmatchcase(name, pattern) for name in known):
            raise ImpossiblePlan(f"nemesis {where}: {key} {pattern!r} is nobody here; there are {', '.join(known)}")
    for partition in (when.get("leader_changed"), when.get("isr_of"), when.get("high_watermark", {}).get("of")):
        if partition is not None:
            try:
                validate(parse(f"leader of {partition}"), topology)
            except UnknownRule as unknown:
                raise ImpossiblePlan(f"nemesis {where}: {unknown}") from None
