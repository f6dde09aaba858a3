"""When a run has a wire gate, and when it is refused before it starts."""

from __future__ import annotations

from typing import Any

import pytest

from harness.spec import Spec
from harness.wiring import refusal, wants_clients, wants_gate
from nodes.backend import Capability
from tests.harness.krash import krash

SLOW = {"once": {"fault": "slow-link", "at": "1s"}}
SLOW_FOR_CLIENTS = {"mix": {"faults": ["kill", {"fault": "slow-link", "clients": True}]}}


@pytest.mark.parametrize(
    ("given", "gate", "clients"),
    [
        ({}, False, False),
        ({"nemesis": {"mix": {"faults": ["kill", "partition"]}}}, False, False),
        ({"wire": "on"}, True, False),
        ({"wire": True}, True, False),  # as some YAML reads it
        ({"wire_clients": True}, True, True),
        ({"nemesis": SLOW}, True, False),
        ({"nemesis": SLOW_FOR_CLIENTS}, True, True),
        ({"wire": "off"}, False, False),
    ],
)
def test_a_gate_is_there_when_something_needs_it(given: dict[str, Any], gate: bool, clients: bool) -> None:
    spec = Spec.model_validate(given)
    assert (wants_gate(spec), wants_clients(spec)) == (gate, clients)
    assert refusal(spec, frozenset(Capability)) is None


def test_what_cannot_be_is_refused_with_the_reason() -> None:
    without = frozenset(Capability) - {Capability.WIRE}
    assert "the local backend cannot" in str(refusal(Spec.model_validate({"wire": "on"}), without))
    assert "the local backend cannot" in str(refusal(Spec.model_validate({"nemesis": SLOW}), without))
    assert refusal(Spec(), without) is None
    off = refusal(Spec.model_validate({"wire": "off", "nemesis": SLOW}), frozenset(Capability))
    assert "slow-link needs the wire gate" in str(off)


def test_a_spec_that_switches_off_what_it_needs_is_bad_usage() -> None:
    ran = krash("run", "--nemesis", "cut-rpc", "--set", "wire=off")
    assert ran.code == 64
    assert "cut-rpc needs the wire gate" in ran.stderr
