from collections.abc import Iterator

import pytest

from tests.workloads.mock_cluster import MockCluster


@pytest.fixture
def mock() -> Iterator[MockCluster]:
    cluster = MockCluster()
    try:
        yield cluster
    finally:
        cluster.close()
