"""Entries of the catch table about consumer groups and transactions."""

from __future__ import annotations

from typing import Final

from harness.simulated.defect import Defect

GROUP_DEFECTS: Final[tuple[Defect, ...]] = ()
