"""What one request, or one moment, adds to the metadata: records, and the state that already has them.

The rules (`brokers.py`, `isr.py`, `topics.py` ...) are functions over a draft: they look at its image, write records, which change that
image at once, and return an answer. Nothing of it is true before the core has given the records to the store and these are committed.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from nodes.reference.controller.sessions import Sessions
from nodes.reference.controller.settings import ControllerSettings
from nodes.reference.metadata.image import Image
from nodes.reference.metadata.schema import Record
from nodes.reference.protections import Protections


class Moment(NamedTuple):
    """What the rules may know besides the metadata."""

    now: int  # ns
    committed_offset: int
    end_offset: int  # where the first record of the draft will be
    settings: ControllerSettings
    protections: Protections
    sessions: Sessions
    random: Random


class Draft:
    """`image` is there to be read; `write` changes it."""

    def __init__(self, image: Image, moment: Moment) -> None:
        self.image = image
        self.moment = moment
        self.records: list[Record] = []

    @property
    def next_offset(self) -> int:
        """Where the next record will be."""
        return self.moment.end_offset + len(self.records)

    def write(self, record: Record) -> None:
        self.image.apply(record)
        self.records.append(record)

    def trial(self) -> Draft:
        """The same, to look at what would come of something (validateOnly, all or nothing)."""
        return Draft(self.image.copy(), self.moment)
