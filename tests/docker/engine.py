"""A Docker engine of one's own: `python -m tests.docker.engine -- COMMAND...` runs COMMAND with DOCKER_HOST set to it.

An engine changes the network of the machine it runs on (forwarding, a FORWARD policy, docker0, and more that stays
when it ends). So this one and the command get a fresh network namespace, which simply vanishes afterwards; the command
has no way out of it. Everything else of the engine lies in a temporary directory. Two processes:

    engine.py                  outside: fetches what needs the network (the image's root file system, Kafka's jars)
      `- engine.py --inside    in the namespace: starts dockerd, runs COMMAND, ends dockerd; exit code of COMMAND

Needs root and the Debian package docker.io. When an engine answers already (DOCKER_HOST, or the machine's own), the
command runs with that one, where it is.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nodes.backends import docker_engine, docker_image
from nodes.kafka.system import KafkaSystem
from nodes.node import NodeError

READY_SECONDS = 120.0
END_SECONDS = 60.0
CANNOT = 3
WITH_ENGINE = (sys.executable, "-m", "tests.docker.engine", "--")  # before a command: an engine answers it


def main(argv: Sequence[str]) -> int:
    if argv[:1] == ["--inside"]:
        with engine() as address:
            return run(argv[1:], {**os.environ, "DOCKER_HOST": address})
    command = list(argv[1:] if argv[:1] == ["--"] else argv)
    if not command:
        raise SystemExit("usage: python -m tests.docker.engine -- COMMAND...")
    prepare()
    if answers():
        return run(command, dict(os.environ))
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        print(
            "no Docker engine answers, and starting one needs root and dockerd: apt-get install docker.io",
            file=sys.stderr,
        )
        return CANNOT
    inside = [sys.executable, "-m", "tests.docker.engine", "--inside", *command]
    environment = {name: value for name, value in os.environ.items() if name not in {"DOCKER_HOST", "DOCKER_CONTEXT"}}
    return run(["unshare", "--net", "--", *inside], environment)


def prepare() -> None:
    """Fetch what a run without a network needs."""

    def tell(text: str) -> None:
        print(f"engine: {text}", file=sys.stderr, flush=True)

    docker_image.build_tar(tell)
    KafkaSystem().fetch(KafkaSystem.default_version(), progress=tell)


def answers() -> bool:
    try:
        with docker_engine.connected():
            return True
    except NodeError:
        return False


@contextmanager
def engine() -> Iterator[str]:
    """A dockerd in this network namespace; its address."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.TemporaryDirectory(prefix="krash-engine-") as folder:
        address = f"unix://{folder}/docker.sock"
        places = {"data-root": "data", "exec-root": "exec", "pidfile": "pid"}
        options = [f"--{name}={folder}/{place}" for name, place in places.items()]
        with Path(folder, "log").open("wb") as log:
            dockerd = subprocess.Popen(
                ["dockerd", f"--host={address}", *options], stdout=log, stderr=log, start_new_session=True
            )
        try:
            wait_for(address, dockerd, Path(folder, "log"))
            yield address
        finally:
            dockerd.terminate()
            dockerd.wait(END_SECONDS)


def wait_for(address: str, dockerd: subprocess.Popen[bytes], log: Path) -> None:
    os.environ["DOCKER_HOST"] = address
    end = time.monotonic() + READY_SECONDS
    while not answers():
        try:
            dockerd.wait(0.1)
            problem = f"ended with code {dockerd.returncode}"
        except subprocess.TimeoutExpired:
            if time.monotonic() < end:
                continue
            problem = f"did not answer within {READY_SECONDS:.0f} s"
        raise SystemExit(f"dockerd {problem}:\n{log.read_text(errors='replace')[-3000:]}")


def run(command: Sequence[str], environment: dict[str, str]) -> int:
    """Run a command to its end, handing SIGTERM and SIGINT on; its exit code as a shell would say it."""
    process = subprocess.Popen(command, env=environment)
    previous = {
        number: signal.signal(number, lambda got, _: process.send_signal(got))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        code = process.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
