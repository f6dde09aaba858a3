"""Does a run need the wire gate, and do its clients' connections go through it, too? Decided from the spec, before anything starts."""

from __future__ import annotations

from fnmatch import fnmatchcase

from harness.spec import Spec
from nemesis.kinds import find
from nodes.backend import Capability


def wants_gate(spec: Spec) -> bool:
    """`auto`: when a fault, or somebody who says `wire_clients`, needs it."""
    return spec.wire == "on" or (
        spec.wire == "auto" and (spec.wire_clients or bool(_wire_faults(spec) or spec.nemesis.watched))
    )


def wants_clients(spec: Spec) -> bool:
    clients = [f"w{number}" for number in range(1, spec.workload.clients + 1)]
    watched = [seen.source for seen in spec.nemesis.watched if seen.source is not None]
    return (
        spec.wire_clients
        or any(settings.get("clients") for _, settings in _wire_faults(spec))
        or any(fnmatchcase(name, source) for name in clients for source in watched if source != "*")
    )


def refusal(spec: Spec, capabilities: frozenset[Capability]) -> str | None:
    """Why this run cannot have what it asks of the gate; None when it can."""
    names = sorted({name for name, _ in _wire_faults(spec)} | ({"a trigger"} if spec.nemesis.watched else set()))
    if spec.wire == "off" and names:
        return f"wire: off, but {', '.join(names)} need{'s' if len(names) == 1 else ''} the wire gate; leave `wire` out"
    if wants_gate(spec) and Capability.WIRE not in capabilities:
        return (
            f"the {spec.backend} backend cannot lead connections through the wire gate; use --backend local or docker"
        )
    return None


def _wire_faults(spec: Spec) -> list[tuple[str, dict[str, object]]]:
    """Names and settings of the spec's faults that need the gate."""
    settings = spec.nemesis
    choices = [*(settings.mix.faults if settings.mix else ()), *settings.steps]
    return [(each.fault, each.settings) for each in choices if Capability.WIRE in find(each.fault).needs]
