#!/usr/bin/env bash
# Installs counteroof with its tools into a virtual environment and runs every check.
# Arguments go to pytest, for example: scripts/test.sh tests/test_spec.py
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

command -v valgrind >/dev/null || want "valgrind, the independent oracle of the counts," valgrind
PATH=$PATH:/sbin:/usr/sbin ldconfig -p | grep 'libfftw3\.so\.3' >/dev/null ||
    want "FFTW, one of the real libraries in the tests," libfftw3-double3

make_environment .venv-test --editable '.[test,dev]'
bin=.venv-test/bin
status=0
check() {
    say "$*"
    "$@" || status=1
}
check $bin/ruff check .
check $bin/ruff format --check .
check $bin/mypy
check $bin/python -m pytest -rs "$@"
[ $status = 0 ] && say "all checks passed" || say "a check failed"
exit $status
