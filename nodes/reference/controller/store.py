"""Where the controller keeps its metadata: an ordered log that several controllers agree on, of which one may write at a time.

The Raft replica is one (`shell.py`); KIP-642 changes who takes part in it and nothing here; the ZooKeeper of KIP-343's time would be
another, with the controller's znode for the epoch and a sequence of znodes for the log.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class QuorumStatus(NamedTuple):
    """voters: who keeps the log. caught_up: those that have about all of it, this node among them."""

    voters: tuple[int, ...]
    caught_up: frozenset[int]


class MetadataStore(Protocol):
    @property
    def end_offset(self) -> int:
        """Where the next record will be written: a broker's epoch is known before its registration is committed."""
        ...

    @property
    def snapshot_offset(self) -> int:
        """Of this node's newest snapshot; 0 before there is one."""
        ...

    def append(self, epoch: int, values: tuple[bytes, ...]) -> int:
        """The offset of the last. They stand or fall together; nothing is committed yet, and nobody is told before this has returned.

        NotLeader (`raft.events`) unless this node may write in `epoch`.
        """
        ...

    def quorum(self) -> QuorumStatus: ...
