"""The seeds' own message of the quorum, declared as kio declares Kafka's.

KIP-642 gives its VoterAssignmentMessage the control record type 2. Kafka has used 2 for leader changes ever since, so it is 64 here, which
Kafka does not use; its successor in Kafka is the VotersRecord of KIP-853, type 6.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from kio.static.constants import EntityType
from kio.static.primitive import i16, i32

VOTER_ASSIGNMENT_TYPE: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    voter_id: i32 = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterAssignmentMessage:
    """KIP-642, Quorum Reassignment."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    cluster_id: str = field(metadata={"kafka_type": "string"})
    current_voters: tuple[Voter, ...]
    target_voters: tuple[Voter, ...] | None = None
