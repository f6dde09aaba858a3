"""What fuzzing begins with: one sound input of each kind, so that it need not invent Kafka's formats first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from nodes.reference.log.batch import Marker, marker_batch
from nodes.reference.raft.log import Batch, LeaderChange, Voters
from nodes.reference.raft.records import encode
from tests.nodes.reference.process.generated import entity, framed, request_classes
from tests.nodes.reference.producing import gzipped, produced


def write_seeds(target: str, corpus: Path) -> None:
    """Nothing where there are inputs already."""
    if not any(corpus.iterdir()):
        for number, content in enumerate(_seeds(target)):
            (corpus / f"seed-{number:04}").write_bytes(content)


def _seeds(target: str) -> Iterator[bytes]:
    random = Random(1)
    match target:
        case "request":
            for known in request_classes(every=True):
                yield framed(random, entity(random, known))
        case "batch":
            yield produced(b"one", b"two", producer=7, epoch=1, sequence=4)
            yield produced(b"one", transactional=True, producer=7, epoch=1, sequence=4)
            yield gzipped(produced(b"one" * 100))
            yield marker_batch(Marker.COMMIT, producer_id=7, producer_epoch=1, coordinator_epoch=2, timestamp=1_000)
        case "metadata":
            for batch in (
                Batch(5, 3, 1_700_000_000_000, (b"first", b"", b"third" * 20)),
                Batch(8, 3, 0, control=LeaderChange(2, (1, 2, 3), (2, 3))),
                Batch(9, 3, 0, control=Voters((1, 2, 3), (2, 3, 4))),
            ):
                yield encode(batch, "k")
