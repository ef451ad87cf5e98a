#!/usr/bin/env bash
# Installs counteroof with its tools into a virtual environment and runs every check.
# Arguments go to pytest, for example: scripts/test.sh tests/test_spec.py
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

command -v valgrind >/dev/null || want "valgrind, the independent oracle of the counts," valgrind
command -v clang >/dev/null || want "clang, the second compiler of the tests," clang
command -v pdflatex >/dev/null || want "pdflatex, which must accept the tables," texlive-latex-recommended
command -v chromedriver >/dev/null || want "Chromium, in which the report is tested," chromium chromium-driver
# Real libraries that do their work under the engine; without one, its tests are skipped. The later package names
# are those of later releases.
libraries=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p)
while read -r library packages; do
    [[ $libraries == *"$library"* ]] && continue
    for package in $packages; do install_packages "$package" </dev/null && continue 2; done
    say "$library, a real library in the tests, is not here; to have it: sudo apt-get install ${packages%% *}"
done <<'END'
libfftw3.so.3 libfftw3-double3
libgsl.so. libgsl27 libgsl28
libgslcblas.so.0 libgslcblas0
libz.so.1 zlib1g
libpng16.so.16 libpng16-16
libturbojpeg.so.0 libturbojpeg0
libsqlite3.so.0 libsqlite3-0
libcrypto.so.3 libssl3
libgmp.so.10 libgmp10
libluajit-5.1.so.2 libluajit-5.1-2
END

command -v likwid-topology >/dev/null || want "LIKWID, one of the counters," likwid
scripts/test_pmu.sh --fetch

make_environment .venv-test --editable '.[test,dev]'
add_pylikwid .venv-test
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
