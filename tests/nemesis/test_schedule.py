"""Plans: complete before the run, the same for the same seed, plain data."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemesis.kinds import find, known
from nemesis.schedule import ImpossiblePlan, PlannedFault, Stream, from_json, lacking, make_plan
from nemesis.settings import NemesisSettings, from_names
from nodes.backend import Capability
from nodes.topology import Topology
from tests.nemesis.fake import topology

ALL = ",".join(known())


def stream(seed: int) -> Stream:
    """As a run's: asked twice for one substream, it goes on where it was."""
    streams: dict[tuple[str, int], random.Random] = {}
    return lambda actor, index: streams.setdefault((actor, index), random.Random(f"{seed}/{actor}/{index}"))


def plan(
    seed: int, *, names: str = ALL, on: Topology | None = None, limit: float = 120, **mix: Any
) -> list[PlannedFault]:
    settings = from_names(names)
    assert settings.mix is not None
    changed = NemesisSettings(mix=settings.mix.model_copy(update=mix))
    return make_plan(changed, on or topology(), stream(seed), limit)


@given(st.integers(0, 2**32))
def test_the_same_seed_gives_the_same_plan(seed: int) -> None:
    assert plan(seed) == plan(seed)


def test_seeds_differ() -> None:
    assert len({json.dumps([one.as_json() for one in plan(seed)]) for seed in range(20)}) == 20


@given(st.integers(0, 1000))
def test_a_plan_is_plain_data(seed: int) -> None:
    assert from_json(json.loads(json.dumps([one.as_json() for one in plan(seed)]))) == plan(seed)


@given(st.integers(0, 1000))
def test_every_round_has_every_fault_and_leaves_nothing_to_chance(seed: int) -> None:
    planned = plan(seed, limit=400)
    every = len(known())
    assert len(planned) >= 2 * every
    assert all(sorted(one.kind for one in planned[start : start + every]) == known() for start in (0, every))
    assert all(one.settings["shape"] and one.settings["action"] for one in planned if one.kind == "partition")
    assert all(
        None not in (one.settings["keep_meta"], one.settings["keep_directory_id"])
        for one in planned
        if one.kind == "wipe"
    )


@given(st.integers(0, 1000))
def test_faults_of_a_mix_leave_quiet_between_them_and_end_in_time(seed: int) -> None:
    planned = plan(seed, limit=60)
    assert planned[0].at_s == 3
    ends = [one.at_s + one.duration_s for one in planned if one.at_s is not None and one.duration_s is not None]
    starts = [one.at_s for one in planned if one.at_s is not None]
    assert all(start - end >= 5 - 0.01 for start, end in zip(starts[1:], ends, strict=False))
    assert max(ends) <= 60


def test_one_fault_more_or_less_in_time_changes_no_other() -> None:
    assert plan(7, limit=60) == plan(7, limit=120)[: len(plan(7, limit=60))]


def test_a_single_controller_is_not_isolated_by_default() -> None:
    rules = {one.rule for seed in range(30) for one in plan(seed, on=topology(controllers=1))}
    assert "active controller" not in rules
    assert "active controller" in {one.rule for seed in range(30) for one in plan(seed)}


def test_combined_nodes_are_not_cut_from_themselves() -> None:
    shapes = {one.settings.get("shape") for seed in range(40) for one in plan(seed, on=topology(combined=True))}
    assert "controllers-from-brokers" not in shapes
    assert "bridge" in shapes


def test_a_script_keeps_its_order_and_its_references() -> None:
    settings = NemesisSettings.model_validate(
        {
            "script": [
                {"at": 2, "fault": "kill", "target": "followers of log-0", "as": "down", "until": {"after": "last"}},
                {
                    "when": {"after": "down", "isr_of": "log-0", "is": 1},
                    "delay": "2s",
                    "fault": "kill",
                    "as": "last",
                    "for": 3,
                },
            ]
        }
    )
    first, second = make_plan(settings, topology(), stream(1), 60)
    assert first.until == {"after": 1}
    assert second.when == {"after": 0, "isr_of": "log-0", "is": 1}
    assert (second.delay_s, second.duration_s, second.label) == (2, 3, "last")
    assert second.rule in find("kill").rules(None, topology())


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"target": "b7"}, "nemesis step 0: 'b7' is no node here; there are c1"),
        ({"target": "leader of lag-0"}, "nemesis step 0: .*no topic 'lag'; there are log"),
        ({"when": {"fenced": "c1"}}, "nemesis step 0, when: 'c1' is no broker here; there are b1, b2, b3"),
        ({"when": {"isr_of": "log-0", "is": ["b9"]}}, "'b9' is no broker here"),
        ({"when": {"leader_changed": "log-9"}}, "topic 'log' has partitions 0 to 1"),
    ],
)
def test_what_this_topology_lacks_is_named_with_its_place(step: dict[str, Any], said: str) -> None:
    settings = NemesisSettings.model_validate(
        {"script": [{"fault": "kill", **({} if "when" in step else {"at": 1}), **step}]}
    )
    with pytest.raises(ImpossiblePlan, match=said):
        make_plan(settings, topology(), stream(1), 60)


def test_what_a_backend_cannot_do_is_told_before_the_run() -> None:
    told = lacking(plan(1), frozenset({Capability.CUT}))
    assert any("pause needs pause" in line for line in told)
    assert any("wipe needs files" in line for line in told)
    assert not any("partition" in line for line in told)
    assert not lacking(plan(1), frozenset(Capability))


def test_every_registered_kind_is_one() -> None:
    for name in known():
        assert find(name).kind == name
