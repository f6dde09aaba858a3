"""Which topic a directory belongs to: another topic's is emptied, one that a crash left without a name is kept."""

from __future__ import annotations

from uuid import UUID

import pytest

from nodes.reference.broker import directories
from nodes.reference.metadata.entities import PartitionId
from tests.nodes.reference.lone_disk import LoneDisk

OLD, NEW = PartitionId(UUID(int=1), 0), PartitionId(UUID(int=2), 0)
LOG = "orders-0/00000000000000000000.log"


@pytest.mark.parametrize(
    ("left", "kept"),
    [(b"version: 0\ntopic_id: " + str(UUID(int=1)).encode() + b"\n", False), (b"", True), (b"vers", True)],
)
def test_what_another_topic_left_goes(left: bytes, kept: bool) -> None:
    disk = LoneDisk(1)
    assert directories.prepare(disk, "orders", OLD) == "orders-0"
    disk.open(LOG).append(b"records")
    disk.replace("orders-0/partition.metadata", left)
    directories.prepare(disk, "orders", NEW)
    assert (disk.read(LOG) == b"records") is kept
    directories.prepare(disk, "orders", NEW)
    assert str(NEW.topic_id).encode() in (disk.read("orders-0/partition.metadata") or b"")


@pytest.mark.parametrize("name", ["", "..", "a/b", "../orders", "a b"])
def test_no_directory_for_what_is_no_name_of_a_topic(name: str) -> None:
    with pytest.raises(ValueError, match="is no name of a topic"):
        directories.directory(name, 0)


def test_the_metadata_log_is_nobodys_partition() -> None:
    with pytest.raises(ValueError, match="is the metadata log's"):
        directories.directory("__cluster_metadata", 0)
