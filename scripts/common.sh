# Sourced by demo.sh and test.sh: a virtual environment with counteroof in it, from nothing, as often as you like.
# shellcheck shell=bash

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf '== %s\n' "$*" >&2; }

# install_packages PACKAGE... : as root on Debian or Ubuntu; fails elsewhere, and if apt-get fails.
install_packages() {
    command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || return 1
    say "installing $*"
    export DEBIAN_FRONTEND=noninteractive
    # The lists of a fresh container are empty, those of an old one out of date: fetch them and try again.
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 ||
        { apt-get update -qq >/dev/null && apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }
}

# want WHAT PACKAGE... : get the packages, or say how to and go on without.
want() {
    local what=$1
    shift
    install_packages "$@" || say "$what is not here; to have it: sudo apt-get install $*"
}

# Print a Python of 3.11 or newer, if there is one.
find_python() {
    local name
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        if command -v "$name" >/dev/null &&
            "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
}

# Find what is missing: one line each into the array `missing`, its packages into the array `packages`.
look() {
    local python version
    missing=() packages=()
    python=$(find_python)
    if [ -z "$python" ]; then
        if version=$(python3 --version 2>&1); then
            missing+=("Python 3.11 or newer (python3 is $version)")
            python=python3.11
        else
            missing+=("Python 3.11 or newer")
            python=python3
        fi
        packages+=("$python" "$python-venv" "$python-dev")
    else
        "$python" -c 'import ensurepip, venv' 2>/dev/null ||
            { missing+=("the venv module of $python"); packages+=("$python-venv"); }
        "$python" - <<'END' || { missing+=("Python.h for $python"); packages+=("$python-dev"); }
import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))
END
    fi
    if ! command -v "${CC:-cc}" >/dev/null; then
        missing+=("a C compiler (${CC:-cc})")
        packages+=(gcc libc6-dev)
    elif ! echo '#include <stdio.h>' | "${CC:-cc}" -x c -fsyntax-only - 2>/dev/null; then
        missing+=("the headers of the C library")
        packages+=(libc6-dev)
    fi
}

# Get what is missing, or say what it is and how to get it, and stop.
need() {
    local item
    look
    [ ${#missing[@]} = 0 ] && return
    if install_packages "${packages[@]}"; then
        look
        [ ${#missing[@]} = 0 ] && return
    fi
    for item in "${missing[@]}"; do say "missing: $item"; done
    say "install it, on Debian or Ubuntu: sudo apt-get install ${packages[*]}"
    exit 1
}

# make_environment FOLDER PIP-ARGUMENT... : a virtual environment with counteroof installed as the arguments say.
make_environment() {
    local folder=$1 python
    shift
    need
    python=$(find_python)
    # An environment of an interrupted run, or of a Python that is gone, is made again.
    if ! "$folder/bin/python" -c 'import pip' 2>/dev/null; then
        say "making $folder with $("$python" --version)"
        "$python" -m venv --clear "$folder"
    fi
    say "installing counteroof into $folder"
    rm -rf build # objects of an earlier build may be older than a header
    "$folder/bin/python" -m pip install --quiet "$@"
}

# add_pylikwid FOLDER : install pylikwid into an environment, against Debian's LIKWID, whose library lies in a folder of
# the architecture's, where pylikwid does not look.
add_pylikwid() {
    local folder=$1 library prefix
    "$folder/bin/python" -c 'import importlib.util, sys; sys.exit(not importlib.util.find_spec("pylikwid"))' && return
    library=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p | awk '$1 == "liblikwid.so" { found = $NF } END { print found }')
    [ -n "$library" ] || return 0
    prefix=$(mktemp -d)
    ln -s "$(dirname "$library")" "$prefix/lib"
    ln -s /usr/include "$prefix/include"
    say "installing pylikwid into $folder"
    LIKWID_PREFIX=$prefix "$folder/bin/python" -m pip install --quiet pylikwid || say "pylikwid could not be installed"
    rm -r "$prefix"
}
