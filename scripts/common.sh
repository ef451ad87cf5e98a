# Sourced by demo.sh and test.sh: a virtual environment with counteroof in it, from nothing, as often as you like.
# shellcheck shell=bash

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf '== %s\n' "$*" >&2; }

on_debian() { command -v apt-get >/dev/null; }

# install_packages PACKAGE... : as root on Debian or Ubuntu; fails if it is not that, or apt-get fails.
install_packages() {
    on_debian && [ "$(id -u)" = 0 ] || return 1
    say "installing $*"
    export DEBIAN_FRONTEND=noninteractive
    # The lists of a fresh container are empty, those of an old one out of date: fetch them and try again.
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 ||
        { apt-get update -qq >/dev/null && apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }
}

# need WHAT PACKAGE... : get the packages, or say what is missing and how to get it, and stop.
need() {
    local what=$1
    shift
    install_packages "$@" && return
    if on_debian; then
        say "$what is missing; install it: sudo apt-get install $*"
    else
        say "$what is missing; install it with your system's package manager (on Debian: apt-get install $*)"
    fi
    exit 1
}

# want WHAT PACKAGE... : like need, but goes on without.
want() {
    local what=$1
    shift
    install_packages "$@" || say "$what is not here; to have it: sudo apt-get install $*"
}

# Print a Python of 3.11 or newer.
find_python() {
    local name
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        if command -v "$name" >/dev/null &&
            "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    return 1
}

# make_environment FOLDER PIP-ARGUMENT... : a virtual environment with counteroof installed as the arguments say.
make_environment() {
    local folder=$1 python
    shift
    if ! python=$(find_python); then
        if command -v python3 >/dev/null; then
            need "Python 3.11 or newer (this is $(python3 --version 2>&1))" python3.11
        else
            need "Python" python3
        fi
        python=$(find_python) || { say "found no Python of 3.11 or newer"; exit 1; }
    fi
    "$python" -c 'import ensurepip, venv' 2>/dev/null || need "$python's venv module" "$python-venv"
    command -v "${CC:-cc}" >/dev/null || need "a C compiler" gcc libc6-dev
    local header='import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'
    "$python" -c "$header" || need "Python.h" "$python-dev"
    echo 'int main(void) { return 0; }' | "${CC:-cc}" -x c -o /dev/null - 2>/dev/null || need "the C library's headers" libc6-dev

    # An environment of an interrupted run, or of a Python that is gone, is made again.
    if ! "$folder/bin/python" -c 'import pip' 2>/dev/null; then
        say "making $folder with $("$python" --version)"
        "$python" -m venv --clear "$folder"
    fi
    say "installing counteroof into $folder"
    rm -rf build # objects of an earlier build may be older than a header
    "$folder/bin/python" -m pip install --quiet "$@"
}
