"""One decoder under atheris: `python -m tests.fuzz.decoders TARGET [--defect] -- CORPUS [flags of libFuzzer]`.

A decoder may refuse bytes with the errors that it names, and nothing else; what it accepts must be within its frame.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["nodes.reference", "nodes.protocol"]):
    from nodes.protocol.bounds import Extent
    from nodes.reference.log.batch import BatchRefused, batches, check_produced, intact, read_marker
    from nodes.reference.metadata import records as metadata_records
    from nodes.reference.process import codec
    from nodes.reference.process.codec import BadFrame, Codec
    from nodes.reference.raft.records import CorruptBatch, decode
    from nodes.reference.server.handlers import Api, Handlers

CODEC = Codec("k")


async def nothing(caller: object, request: object) -> None:
    raise AssertionError("only decoded")


def table() -> Handlers:
    handlers = Handlers(quorum=nothing)
    for api in Api:
        if api is not Api.API_VERSIONS:
            handlers.add(api, 0, 20, nothing)
    return handlers


HANDLERS = table()


def request(content: bytes) -> None:
    try:
        CODEC.read_request(content, HANDLERS)
    except BadFrame:
        return


def batch(content: bytes) -> None:
    try:
        for position, header in batches(content):
            intact(content, position, header)
            read_marker(content, position, header)
            check_produced(content[position : position + header.size], header, max_size=1 << 20)
    except BatchRefused:
        return


def metadata(content: bytes) -> None:
    """A segment of the metadata log, and each record in it."""
    position = 0
    try:
        while position < len(content):
            found, position = decode(content, position)
            for value in found.values:
                metadata_records.decode(value)
    except (CorruptBatch, metadata_records.UnknownRecord):
        return


TARGETS = {"request": request, "batch": batch, "metadata": metadata}


def main() -> None:
    ours, theirs = sys.argv[1 : sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :]
    if "--defect" in ours:
        codec.walked = lambda entity_type, content, position: Extent(position, len(content), ())
    atheris.Setup([sys.argv[0], *theirs], TARGETS[ours[0]])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
