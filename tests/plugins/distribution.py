"""Makes a distribution as pip would have installed it: a module, and metadata with entry points."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

TOY = Path(__file__).with_name("krash_toy.py")
TOY_POINTS = {
    "krash.backends": "toy = krash_toy:ToyBackend",
    "krash.systems": "toy = krash_toy:ToySystem",
    "krash.workloads": "toy = krash_toy:ToyWorkload",
    "krash.races": "toy = krash_toy:toy_race",
}


def install(site: Path, name: str, points: Mapping[str, str]) -> None:
    metadata = site / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("".join(f"[{group}]\n{point}\n" for group, point in points.items()))
    (site / "krash_toy.py").write_text(TOY.read_text())
