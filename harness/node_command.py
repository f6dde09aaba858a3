"""`krash node --config FILE`: one node of the reference cluster, in the foreground, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import logging
from pathlib import Path

from harness.errors import UsageError
from nodes.reference.process.configuration import BadConfiguration, read_configuration
from nodes.reference.process.node import main

FAILED = 3


def run_node(config: Path) -> int:
    """0 after a clean stop. UsageError names what is wrong with the configuration."""
    try:
        configuration = read_configuration(config)
    except (BadConfiguration, OSError) as error:
        raise UsageError(str(error)) from error
    logging.basicConfig(level=logging.INFO, format="[%(asctime)s] %(levelname)s %(message)s (%(name)s)")
    log = logging.getLogger("krash.reference.node")
    roles = ", ".join(sorted(configuration.roles))
    log.info("node %d of cluster %s starts: %s", configuration.node_id, configuration.cluster_id, roles)
    try:
        main(configuration)
    except OSError as error:
        log.error("node %d ends: %s", configuration.node_id, error)
        return FAILED
    log.info("node %d has stopped", configuration.node_id)
    return 0
