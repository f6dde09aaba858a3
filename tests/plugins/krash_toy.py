"""A plug-in of somebody else, as small as one can be: copied into a distribution of its own by the test, never imported from here."""

from typing import ClassVar

from nodes.backend import Capability, Leftover, Requirement


class ToyBackend:
    name: ClassVar[str] = "toy"
    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.PAUSE})

    @classmethod
    def probe(cls) -> list[Requirement]:
        return [Requirement(name="toy box", present=False, found="not found", remedy="sudo apt-get install toy-box")]

    @classmethod
    def leftovers(cls) -> list[Leftover]:
        return []


class ToySystem:
    name: ClassVar[str] = "toy"

    @classmethod
    def probe(cls) -> list[Requirement]:
        return [Requirement(name="toy jar", present=True, found="1.0", remedy="")]

    @classmethod
    def default_version(cls) -> str:
        return "1.0"


class ToyWorkload:
    name: ClassVar[str] = "toy"


async def toy_race() -> None:
    """KAFKA-0: nothing happens, in an unlucky order."""
