"""./krash and ./run-tests around a stand-in for uv, so that their own work is tested in seconds and without a network.

The stand-in makes an environment without packages and, for `-e`, a `krash` that tells how it was called. Where GATE names a FIFO, it
says "here" there and waits for an answer before it installs anything.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.setup.checkout import ROOT

SECONDS = 60  # a deadline, generous on a loaded machine
UV = f"""#!/bin/bash
set -e
[ "$1" != --version ] || exit 0
echo "$*" >>"$CALLS"
if [ "$1" = venv ]; then exec {sys.executable} -I -m venv --without-pip "${{@: -1}}"; fi
if [ -n "$GATE" ]; then echo here >"$GATE.out"; read -r _ <"$GATE.in"; fi
[ -z "$BROKEN" ] || {{ echo "no space left on device"; exit 1; }}
bin=$(dirname "$4")
printf '#!/bin/bash\\nprintf "%%s\\\\n" "$PWD" "$@"\\nexit ${{CODE:-0}}\\n' >"$bin/krash"
chmod +x "$bin/krash"
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """As much of a checkout as the launchers look at, at a path that needs quoting."""
    clone = tmp_path / "a clone"
    (clone / "harness").mkdir(parents=True)
    for name in ("krash", "run-tests", "harness/set-up.sh", "pyproject.toml"):
        shutil.copy2(ROOT / name, clone / name)
    (clone / "harness" / "checker").mkdir()
    (clone / "harness" / "checker" / "ready.py").touch()  # the steps that compile kernels and archive classes
    (clone / "harness" / "checker" / "archive.py").touch()
    for lock in ("requirements.lock", "requirements-test.lock", "requirements-build.lock"):
        (clone / lock).write_text("rich==15.0.0\n")
    write_program(tmp_path / "bin" / "uv", UV)
    return clone


def write_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def environment(clone: Path, more: Mapping[str, str]) -> dict[str, str]:
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("KRASH_", "PYTHON"))}
    return {**bare, "PATH": f"{clone.parent}/bin:{os.environ['PATH']}", "CALLS": str(clone.parent / "calls"), **more}


def call(clone: Path, *arguments: str, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    command = [str(clone / "krash"), *arguments]
    env = environment(clone, more)
    return subprocess.run(command, cwd=cwd or clone, env=env, capture_output=True, text=True, timeout=SECONDS)


def start(clone: Path, **more: str) -> subprocess.Popen[str]:
    env = environment(clone, more)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([clone / "krash"], env=env, start_new_session=True, **pipes)


def calls(clone: Path) -> list[str]:
    return (clone.parent / "calls").read_text().splitlines()


def make_gate(clone: Path) -> Path:
    gate = clone.parent / "gate"
    for side in ("in", "out"):
        os.mkfifo(f"{gate}.{side}")
    return gate


def test_the_first_call_sets_up_and_the_second_does_not(clone: Path) -> None:
    first = call(clone, "--help")
    assert first.returncode == 0, first.stderr
    assert "making a virtual environment" in first.stderr
    before = calls(clone)
    assert [line.split()[0] for line in before] == ["venv", "pip", "pip", "pip"]
    second = call(clone, "--help")
    assert second.stderr == ""
    assert calls(clone) == before


def test_standard_output_belongs_to_krash_alone(clone: Path) -> None:
    assert call(clone, "runs", "--json").stdout.splitlines() == [str(clone), "runs", "--json"]


def test_arguments_directory_and_exit_code_are_handed_through(clone: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    done = call(clone, "run", "a b", "--set", "x=*", cwd=elsewhere, CODE="130")
    assert done.stdout.splitlines() == [str(elsewhere), "run", "a b", "--set", "x=*"]
    assert done.returncode == 130


def test_it_works_through_a_symbolic_link(clone: Path, tmp_path: Path) -> None:
    link = tmp_path / "bin" / "linked"
    link.symlink_to(clone / "krash")
    done = subprocess.run([link], env=environment(clone, {}), cwd="/", capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    assert (clone / ".venv" / "ready-run").is_file()


@pytest.mark.parametrize("changed", ["requirements.lock", "pyproject.toml"])
def test_a_changed_lock_or_project_is_installed(clone: Path, changed: str) -> None:
    call(clone)
    (clone / changed).write_text((clone / changed).read_text() + "\n# changed\n")
    assert "up to date" in call(clone).stderr
    assert call(clone).stderr == ""


def test_a_moved_checkout_is_installed_anew(clone: Path, tmp_path: Path) -> None:
    call(clone)
    moved = clone.rename(tmp_path / "moved")
    done = call(moved)
    assert (done.returncode, "making a virtual environment" in done.stderr) == (0, True), done.stderr


def test_a_lost_interpreter_means_starting_afresh(clone: Path) -> None:
    call(clone)
    for name in ("python", "python3", f"python3.{sys.version_info.minor}"):
        (clone / ".venv" / "bin" / name).unlink()
    done = call(clone)
    assert (done.returncode, "making a virtual environment" in done.stderr) == (0, True), done.stderr


def test_the_tests_need_more_than_the_program(clone: Path) -> None:
    call(clone)
    set_up = [str(clone / "harness" / "set-up.sh"), "test"]
    subprocess.run(set_up, env=environment(clone, {}), check=True, capture_output=True, timeout=SECONDS)
    assert any(line.endswith("-r requirements-test.lock") for line in calls(clone))
    assert call(clone).stderr == ""


def test_two_at_once_set_up_once(clone: Path) -> None:
    gate = make_gate(clone)
    first = start(clone, GATE=str(gate))
    assert Path(f"{gate}.out").read_text() == "here\n"
    second = start(clone)
    assert second.stderr is not None
    assert "waiting for another set-up" in second.stderr.readline()
    Path(f"{gate}.in").write_text("go\n")
    for _ in range(2):  # the other two installations of the first
        Path(f"{gate}.out").read_text()
        Path(f"{gate}.in").write_text("go\n")
    assert [process.wait(SECONDS) for process in (first, second)] == [0, 0]
    assert len(calls(clone)) == 4
    for process in (first, second):
        process.communicate()


def test_a_set_up_that_was_killed_starts_afresh(clone: Path) -> None:
    gate = make_gate(clone)
    killed = start(clone, GATE=str(gate))
    assert Path(f"{gate}.out").read_text() == "here\n"
    (clone / ".venv" / "half-way").write_text("")
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=SECONDS)
    done = call(clone)
    assert (done.returncode, "making a virtual environment" in done.stderr) == (0, True), done.stderr
    assert not (clone / ".venv" / "half-way").exists()


def test_a_failure_says_what_the_installer_said_and_is_a_harness_error(clone: Path) -> None:
    failed = call(clone, BROKEN="yes")
    assert failed.returncode == 3
    assert "no space left on device" in failed.stderr
    assert "set-up.log" in failed.stderr
    assert call(clone).returncode == 0


def test_an_environment_of_somebody_else_is_left_alone(clone: Path) -> None:
    (clone / ".venv").mkdir()
    (clone / ".venv" / "precious").write_text("mine")
    done = call(clone)
    assert (done.returncode, "KRASH_VENV" in done.stderr) == (3, True)
    assert (clone / ".venv" / "precious").read_text() == "mine"
    assert call(clone, KRASH_VENV=str(clone.parent / "other")).returncode == 0


def test_missing_ensurepip_is_named_with_the_command_that_installs_it(clone: Path, tmp_path: Path) -> None:
    write_program(tmp_path / "bin" / "uv", "#!/bin/sh\nexit 1\n")
    program = f'#!/bin/sh\ncase "$*" in *ensurepip*) exit 1; esac\nexec {sys.executable} "$@"\n'
    python = write_program(tmp_path / "bin" / "bare-python", program)
    done = call(clone, KRASH_PYTHON=str(python))
    assert done.returncode == 3
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"apt-get install -y python{version}-venv" in done.stderr
    assert not (clone / ".venv").exists()


def test_a_python_that_is_too_old_is_refused(clone: Path, tmp_path: Path) -> None:
    old = write_program(tmp_path / "bin" / "old-python", "#!/bin/sh\nexit 1\n")
    done = call(clone, KRASH_PYTHON=str(old))
    assert done.returncode == 3
    assert "3.11" in done.stderr
