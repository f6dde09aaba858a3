"""`python -m nodes.reference.process FILE`: a node, without the rest of krash around it, which would only take time and memory."""

from __future__ import annotations

import sys
from pathlib import Path

from nodes.reference.process.configuration import BadConfiguration
from nodes.reference.process.run import run_file

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m nodes.reference.process FILE")
    try:
        sys.exit(run_file(Path(sys.argv[1])))
    except (BadConfiguration, OSError) as error:
        sys.exit(f"{error}")
