"""What a record says: who sent it, so that any copy of it is recognised wherever it turns up.

`log/0/3/12` is the 13th record of its producer to partition 0 of topic `log`, sent by process 3. Longer values repeat
that identity up to the size asked for, so that a record whose bytes were mixed with another's shows (KAFKA-19012
published bytes to the wrong topic with a valid CRC).
"""

from __future__ import annotations


def padded(identity: str, size: int) -> str:
    """`padded("log/0/3/12", 25)` -> `"log/0/3/12 log/0/3/12 log"`; an identity of `size` or more is left alone."""
    if len(identity) >= size:
        return identity
    unit = identity + " "
    return (unit * (size // len(unit) + 1))[:size]


def recorded(value: bytes | None, size: int) -> str | None:
    """What the history keeps of a value that was read: its identity, or the whole text where the padding is not what
    was sent."""
    if value is None:
        return None
    text = value.decode("utf-8", "backslashreplace")
    identity = text.partition(" ")[0]
    return identity if text == padded(identity, size) else text
