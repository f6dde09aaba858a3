"""kio's reader, but tagged fields that kio does not know are skipped, as KIP-482 asks of everyone.

    header, position = read_entity(ResponseHeader, frame, 0)
    metadata, end = read_entity(MetadataResponse, frame, position)

Nobody pays for it but who meets such a field: only then is the frame walked over a first time, and read once more without it.
"""

from __future__ import annotations

import sys
from typing import Any

from kio.serial import entity_reader

from nodes.protocol.bounds import walked


def read_entity(entity_type: Any, content: bytes, position: int) -> tuple[Any, int]:
    """An entity and the position after it. Raises as kio's reader does, and BadBounds."""
    try:
        entity, size = entity_reader(entity_type)(content, position)
    except KeyError:  # an unknown tag
        extent = walked(entity_type, content, position, max_elements=sys.maxsize)
        return entity_reader(entity_type)(*extent.known(content))[0], extent.end
    return entity, position + size
