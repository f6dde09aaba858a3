"""Every backend keeps every contract, and the contracts notice backends that do not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.docker.engine import WITH_ENGINE
from tests.nodes.contracts.report import Result, results_of
from tests.nodes.contracts.run import CONTRACTS, LAST

SSH = "tests.nodes.loopback_ssh:OnLoopback"
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="sshd changes user ids; an ordinary user's namespace has one")
BACKENDS = [
    pytest.param("nodes.backends.local:LocalBackend", id="local", marks=pytest.mark.namespaces),
    pytest.param("nodes.backends.docker:DockerBackend", id="docker", marks=pytest.mark.docker),
    pytest.param(SSH, id="ssh", marks=[pytest.mark.namespaces, NEEDS_ROOT]),
]
THROUGH = {"nodes.backends.docker:DockerBackend": WITH_ENGINE}

# A backend with one promise broken (tests/nodes/broken.py) -> contracts that must notice.
BROKEN = {
    "KillsOnlyTheMainProcess": ["kill_takes_the_children_too", "kill_takes_children_that_outlived_the_main_process"],
    "PausesNothing": ["pause_stops_all_progress_and_resume_continues_it", "states_follow_the_process"],
    "CutsNothing": [
        "a_one_way_cut_stops_one_way",
        "a_dropped_connection_times_out",
        "a_reset_connection_fails_fast_from_both_sides",
        "counters_say_what_was_stopped",
        "half_open_stops_old_connections_and_lets_new_ones_in",
    ],
    "CutsBothWays": ["a_one_way_cut_stops_one_way"],
    "HealsEverything": ["heal_removes_only_what_is_named", "overlapping_cuts_heal_one_by_one"],
    "SwallowsResets": ["a_reset_connection_fails_fast_from_both_sides"],
    "TrustsPaths": ["paths_cannot_leave_the_home"],
    "LosesLines": ["lines_follow_a_growing_file"],
    "GoesOnInAnotherFile": ["tail_tells_what_was_added_since_a_mark"],
}


@pytest.fixture(scope="session")
def results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[dict[str, Result]]]]:
    """Results per backend that has tests now. All backends play their contracts at the same time: most of it is waiting."""
    tests = [item for item in request.session.items if isinstance(item, pytest.Function)]
    wanted = {test.callspec.params["backend"] for test in tests if test.originalname == "test_contract"}
    if os.geteuid() != 0:
        wanted.discard(SSH)
    with ThreadPoolExecutor(len(BACKENDS)) as pool:
        yield {
            backend: pool.submit(
                results_of, backend, tmp_path_factory.mktemp("contracts"), through=THROUGH.get(backend, ())
            )
            for backend in sorted(wanted)
        }


@pytest.mark.timeout(660)  # the first test of a backend waits for all its contracts
@pytest.mark.parametrize("contract", [*CONTRACTS, LAST])
@pytest.mark.parametrize("backend", BACKENDS)
def test_contract(backend: str, contract: str, results: dict[str, Future[dict[str, Result]]]) -> None:
    assert results[backend].result()[contract].problem == ""


@pytest.mark.namespaces
@pytest.mark.parametrize("sabotage", BROKEN)
def test_contracts_notice_a_broken_backend(sabotage: str, tmp_path: Path) -> None:
    found = results_of(f"tests.nodes.broken:{sabotage}", tmp_path, BROKEN[sabotage])
    assert [name for name in BROKEN[sabotage] if not found[name].problem] == []
