"""What a node says it has not synced of its metadata log, and taking that back: the part of `power-loss` that Kafka does not need.

Kafka syncs its metadata log before it answers, so its power loss is that of its partitions. Nodes of the reference cluster tell of every
file of theirs that is not safe (nodes/reference/process/unsynced.py), which matters where `fsync-on-vote` or `fsync-on-append` is off.

    data/unsynced/__cluster_metadata-0/quorum-state      {"content": "eyJ..."}    it was this when it was last synced; null: not there
    data/unsynced/__cluster_metadata-0/0....log          {"size": 1234}           so long

Nothing here asks whether the process runs: who takes something back has killed it.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import PurePosixPath

from nemesis.disks import DATA
from nemesis.fault import Unproved
from nodes.node import Node

LEDGER = f"{DATA}/unsynced"
README = "README"
PART = ".part"  # being told when the process was killed: nothing had been written yet


@dataclass(frozen=True, kw_only=True)
class Unsynced:
    path: str  # below the data directory
    size: int | None  # when it was last synced; None: it was replaced
    content: bytes | None  # of a replaced file; None: it was not there


async def tells(node: Node) -> bool:
    """Does this node say what it has not synced?"""
    return await node.exists(f"{LEDGER}/{README}")


async def unsynced(node: Node) -> list[Unsynced]:
    """Unproved when what it says cannot be read."""
    paths = [path for path in await node.list(LEDGER) if path != README and not path.endswith(PART)]
    return [_parsed(path, await node.read(f"{LEDGER}/{path}")) for path in paths]


def _parsed(path: str, told: bytes) -> Unsynced:
    try:
        said = json.loads(told)
        if "size" in said:
            return Unsynced(path=path, size=int(said["size"]), content=None)
        content = said["content"]
        return Unsynced(
            path=path, size=None, content=None if content is None else base64.b64decode(content, validate=True)
        )
    except (ValueError, KeyError, TypeError) as error:
        raise Unproved(f"{LEDGER}/{path} does not say what was synced: {error!r}") from None


async def take_back(node: Node) -> list[str]:
    """Each file is what it was when it was last synced. What was lost, in words. Unproved when a file is not so afterwards."""
    lost = []
    for one in await unsynced(node):
        at = f"{DATA}/{one.path}"
        before = await _content(node, at)
        after = one.content if one.size is None else (before or b"")[: one.size]
        if before == after:
            continue
        await _put(node, at, after)
        if await _content(node, at) != after:
            raise Unproved(f"{node.name}: {one.path} is not what it was when it was last synced")
        lost.append(f"{one.path} {_in_words(before, after)}")
    await node.wipe(LEDGER, keep=(README,))
    return lost


def _in_words(before: bytes | None, after: bytes | None) -> str:
    if after is None:
        return "as a whole"
    if before is not None and before.startswith(after):
        return f"from byte {len(after)} on"
    return "as it was replaced"


async def _content(node: Node, at: str) -> bytes | None:
    return await node.read(at) if await node.exists(at) else None


async def _put(node: Node, at: str, content: bytes | None) -> None:
    if content is not None:
        await node.write(at, content)
        return
    directory, name = str(PurePosixPath(at).parent), PurePosixPath(at).name
    beside = {PurePosixPath(path).parts[0] for path in await node.list(directory)} - {name}
    await node.wipe(directory, keep=tuple(sorted(beside)))


async def write_back(node: Node) -> int:
    """Sync, unasked, as a kernel does half a minute after a write; the process may run. Returns of how many files."""
    paths = [one.path for one in await unsynced(node)]
    if paths:
        done = await node.run(("sync", *(node.absolute(f"{DATA}/{path}") for path in paths)), timeout=30)
        if done.code != 0:
            raise Unproved(f"{node.name}: sync says {done.stderr.decode(errors='replace').strip()}")
        await node.wipe(LEDGER, keep=(README,))
    return len(paths)
