"""A node for clients of others: one process, both roles."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.nodes.reference.process.standing import Standing, standing


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    with standing(tmp_path_factory.mktemp("node")) as node:
        node.until_ready()
        yield node
        assert node.end() == 0, node.said
        assert [line for line in node.said.splitlines() if "Error" in line or "could not be served" in line] == []
