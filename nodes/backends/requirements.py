"""Lines of `krash doctor` that several backends share: programs with the Debian package that brings them."""

from __future__ import annotations

import os
import shutil
import subprocess

from nodes.backend import Requirement

SEARCH_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"  # ordinary users' PATH often lacks sbin

_VERSION_SECONDS = 10.0


def program(name: str, *, package: str, version: tuple[str, ...]) -> Requirement:
    """Is a program here? `version`: arguments that make it print its version; the first line counts."""
    path = shutil.which(name, path=SEARCH_PATH)
    if path is None:
        return Requirement(name=name, present=False, found="not found", remedy=f"sudo apt-get install {package}")
    try:
        done = subprocess.run([path, *version], capture_output=True, text=True, timeout=_VERSION_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        remedy = f"sudo apt-get install --reinstall {package}"
        return Requirement(name=name, present=False, found=str(error), remedy=remedy)
    said = (done.stdout or done.stderr).strip().splitlines()
    return Requirement(name=name, present=True, found=said[0] if said else path, remedy="")
