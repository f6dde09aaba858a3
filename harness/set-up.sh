#!/usr/bin/env bash
# Makes the checkout's private virtual environment (.venv, or $KRASH_VENV) for ./krash and ./run-tests:
#
#   harness/set-up.sh run     what krash needs                 (requirements.lock)
#   harness/set-up.sh test    that, and what its tests need    (requirements-test.lock)
#
# Quick when it is there already: .venv/ready-LEVEL holds a fingerprint of the locks and pyproject.toml and is written last, so a
# set-up that was interrupted counts for nothing and starts afresh. Two at once: the second waits. Everything it says goes to stderr.
# Exit codes are krash's own: 3 when it cannot be done, 130 when interrupted.
set -euo pipefail
here=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
level=${1:?run or test}
venv=${KRASH_VENV:-$here/.venv}
python=$venv/bin/python
log=$venv/set-up.log
fingerprint=$(cd -- "$here" && { pwd; cat pyproject.toml requirements*.lock; } | sha256sum)

is_ready() {
    [[ -x $python && -f $venv/ready-$level && $(<"$venv/ready-$level") == "$fingerprint" ]]
}

say() {
    printf 'krash: %s\n' "$@"
}

give_up() {
    say "$@"
    exit 3
}

# -I: neither the caller's PYTHONPATH nor the current directory may get in the way.
is_supported() {
    "$1" -I -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

can_make_environments() {
    "$1" -I -c 'import ensurepip, venv' 2>/dev/null
}

# The system's own Python comes first: it stays where it is, and other accounts (a test's, a sandbox's) can run it too.
find_python() {
    local candidates=(/usr/bin/python3 python3.13 python3.12 python3.11 python3) path lacking=''
    [[ -z ${KRASH_PYTHON:-} ]] || candidates=("$KRASH_PYTHON")
    for candidate in "${candidates[@]}"; do
        path=$(command -v -- "$candidate") && is_supported "$path" || continue
        if [[ -n $uv ]] || can_make_environments "$path"; then
            printf '%s\n' "$path"
            return
        fi
        lacking=${lacking:-$path}
    done
    remedy "$lacking" >&2
    return 1
}

remedy() {
    local sudo='sudo '
    [[ $EUID != 0 ]] || sudo=''
    if [[ -n $1 ]]; then
        local version
        version=$("$1" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        say "$1 (Python $version) cannot make virtual environments: its module ensurepip is missing. Install it:" \
            "    ${sudo}apt-get install -y python$version-venv"
    elif [[ -n ${KRASH_PYTHON:-} ]]; then
        say "KRASH_PYTHON=$KRASH_PYTHON is not a Python 3.11, 3.12 or 3.13."
    else
        say 'Python 3.11, 3.12 or 3.13 is needed, and none was found. Install one:' \
            "    ${sudo}apt-get install -y python3 python3-venv      (Debian 12 or later)" \
            '    uv python install 3.13                              (anywhere, with uv)' \
            'or name one that lies elsewhere: KRASH_PYTHON=/path/to/python3.12'
    fi
}

# One line that changes on a terminal, nothing otherwise; everything is in the log.
follow() {
    if [[ -t 2 ]]; then
        tee -a -- "$log" | awk '{ printf "\r\033[K  %.74s", $0; fflush() } END { printf "\r\033[K" }'
    else
        cat >>"$log"
    fi
}

step() {
    say "  $1"
    shift
    if ! "$@" 2>&1 | follow; then
        tail -n 25 -- "$log"
        give_up "set-up failed at: $*" "All it said is in $log. The next call starts afresh."
    fi
}

make_environment() {
    if [[ -n $uv ]]; then
        step "virtual environment ($interpreter, uv)" "$uv" venv --allow-existing --python "$interpreter" "$venv"
    else
        step "virtual environment ($interpreter, pip)" "$interpreter" -I -m venv "$venv"
    fi
}

# The locks are complete (--no-deps: no resolver has to think), and what builds pyspark and krash itself is locked as well
# (--no-build-isolation). pyspark comes as source only: its wheel is packed without compressing 450 MB of jars, and thrown away.
install_locked() {
    local requirements=requirements.lock install
    [[ $level == run ]] || requirements=requirements-test.lock
    if [[ -n $uv ]]; then
        install=("$uv" pip install --python "$python" --no-deps)
        # Where Python may not write bytecode later, every start would compile everything anew.
        [[ -z ${PYTHONDONTWRITEBYTECODE:-} ]] || install+=(--compile-bytecode)
    else
        install=("$python" -I -m pip install --disable-pip-version-check --use-pep517 --no-deps)
    fi
    printf '[bdist_wheel]\ncompression = stored\n' >"$venv/stored.cfg"
    export DIST_EXTRA_CONFIG=$venv/stored.cfg
    cd -- "$here"
    step 'build tools' "${install[@]}" --require-hashes -r requirements-build.lock
    step "$(grep -c == "$requirements") packages, Spark among them" \
        "${install[@]}" --no-build-isolation --require-hashes -r "$requirements"
    step 'krash' "${install[@]}" --no-build-isolation -e .
    step "the judge's engines" "$python" -m harness.checker.ready
    step "quick starts of the judge" "$python" -m harness.checker.archive
}

set_up() {
    uv=$(command -v uv) && "$uv" --version >/dev/null 2>&1 || uv=''
    interpreter=$(find_python) || exit 3
    if [[ -e $venv && ! -e $venv/made-by-krash && -n $(ls -A -- "$venv") ]]; then
        give_up "$venv exists and krash did not make it. Move it away, or set KRASH_VENV to another directory."
    fi
    mkdir -p -- "$venv" && exec 9>>"$venv/made-by-krash" ||
        give_up "cannot write $venv. Set KRASH_VENV to a directory where the environment may go."
    flock --nonblock 9 || { say "waiting for another set-up of $venv"; flock 9; }
    ! is_ready || return 0

    if [[ -x $python && $(<"$venv/made-by-krash") == "$venv" && (-f $venv/ready-run || -f $venv/ready-test) ]]; then
        say "bringing $venv up to date"
        rm -f -- "$venv/ready-run" "$venv/ready-test"
    else
        say "first use: making a virtual environment in $venv (once; 1.5 GB, about a minute)"
        find "$venv" -mindepth 1 -maxdepth 1 ! -name made-by-krash -exec rm -rf {} +
        printf '%s\n' "$venv" >"$venv/made-by-krash" # scripts in it name their interpreter by path: it cannot be moved
        make_environment
    fi
    install_locked
    [[ $level == run ]] || printf '%s\n' "$fingerprint" >"$venv/ready-run"
    printf '%s\n' "$fingerprint" >"$venv/ready-$level"
    say "ready after $SECONDS s"
}

! is_ready || exit 0
trap 'exit 130' INT
set_up >&2
