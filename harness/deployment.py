"""Everything one run consists of, as the stage drives it: the cluster, its clients, the nemesis, and where their rows go.

The stage (harness/stage.py) decides what happens when; this module knows how. Directories of a run while it lives:

    <run>/journal/     what writers append; history/ is made of it afterwards
    <run>/work/        homes of nodes on backends that use this machine's disk; removed once everything was collected
    <run>/nodes/NAME/  logs, configuration and metadata log of each node, collected at the end
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.choices import Choices
from harness.clients import ClientGroup
from harness.history import store
from harness.history.rows import RowRecorder
from harness import plugins
from harness.plugins import Group
from harness.spec import Spec
from nemesis.fault import FAULTS, FaultRow
from nemesis.runner import Nemesis
from nemesis.schedule import make_plan
from nodes.backend import Backend
from nodes.cluster import Cluster
from nodes.event import EVENTS, Event, EventKind
from workloads.op import Phase

FINAL_MARGIN = 30.0  # seconds the final reader may take beyond the drain's own limit


class Deployment:
    """One run's cluster and clients, from run.json."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.facts = store.read_run(directory)
        self.run = str(self.facts["run"])
        self.purpose = str(self.facts["purpose"])
        self.spec = Spec.model_validate(self.facts["spec"])
        self.backend: Backend = plugins.load(Group.BACKENDS, self.spec.backend)()
        self.system = plugins.load(Group.SYSTEMS, self.spec.system_name)()
        self.topology = self.spec.topology(type(self.system).default_version())
        self.cluster: Cluster | None = None
        self.clients: ClientGroup | None = None
        self.choices = Choices(int(self.facts["seed"]), directory=store.journal(directory), writer="driver")
        self._events = RowRecorder(store.journal(directory) / "driver.events", EVENTS, run=self.run)
        self._faults = RowRecorder(store.journal(directory) / "driver.faults", FAULTS, run=self.run)
        self._watching: asyncio.Task[None] | None = None
        self._nemesis: Nemesis | None = None

    @property
    def description(self) -> str:
        versions = sorted({node.version for node in self.topology.nodes})
        controllers, brokers = len(self.topology.controllers), len(self.topology.brokers)
        return f"{controllers} controllers, {brokers} brokers, {self.spec.system_name} {' and '.join(versions)}, {self.spec.backend}"
