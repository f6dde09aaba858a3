"""`python -m nodes.reference.process FILE`: a node, without the rest of krash around it, which would only take time and memory.

kio imports Hypothesis where it is installed, for tests of those who use kio: half of what a node takes to start. Here it is not.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

gc.disable()  # until all is loaded (node.py)
sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]

from nodes.reference.process.configuration import BadConfiguration  # noqa: E402
from nodes.reference.process.run import run_file  # noqa: E402

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m nodes.reference.process FILE")
    try:
        sys.exit(run_file(Path(sys.argv[1])))
    except (BadConfiguration, OSError) as error:
        sys.exit(f"{error}")
