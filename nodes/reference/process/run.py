"""A node in the foreground: reads its configuration, logs to stderr, and says by its exit code how it ended."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from nodes.reference.process.configuration import read_configuration
from nodes.reference.process.node import main
from nodes.reference.raft.events import BrokenInvariant
from nodes.reference.raft.log import LogConflict

FAILED: Final = 3
_LOG: Final = logging.getLogger("krash.reference.node")


def run_file(config: Path) -> int:
    """0 after a clean stop. BadConfiguration, or OSError, if the configuration cannot be read."""
    configuration = read_configuration(config)
    logging.basicConfig(level=logging.INFO, format="[%(asctime)s] %(levelname)s %(message)s (%(name)s)")
    roles = ", ".join(sorted(configuration.roles))
    _LOG.info("node %d of cluster %s starts: %s", configuration.node_id, configuration.cluster_id, roles)
    try:
        main(configuration)
    except (OSError, BrokenInvariant, LogConflict) as error:
        _LOG.error("node %d ends: %s", configuration.node_id, error)
        return FAILED
    _LOG.info("node %d has stopped", configuration.node_id)
    return 0
