#!/usr/bin/env bash
# Runs our perf code on a PMU that counts, whatever this machine has: an Arm machine emulated by QEMU, which boots a
# kernel of Debian's and our test program in a few seconds. Gets what it needs from Debian, as root.
#   scripts/test_pmu.sh --fetch    only gets it
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

kernel=${COUNTEROOF_PMU_KERNEL:-${XDG_CACHE_HOME:-$HOME/.cache}/counteroof/pmu/vmlinuz}

# The kernel's package is not installed, only looked into: it is one for another architecture.
fetch_kernel() {
    [ -s "$kernel" ] && return
    command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || return 1
    say "getting an arm64 kernel"
    local folder package
    folder=$(mktemp -d)
    dpkg --add-architecture arm64 && apt-get update -qq >/dev/null || return 1
    package=$(apt-cache depends linux-image-cloud-arm64:arm64 | awk '$1 == "Depends:" && !found { print $2; found = 1 }')
    (cd "$folder" && apt-get download -qq "$package" >/dev/null 2>&1 && dpkg-deb -x ./*.deb .) || return 1
    mkdir -p "$(dirname "$kernel")"
    cp "$folder"/boot/vmlinuz-* "$kernel.part" && mv "$kernel.part" "$kernel"
    rm -rf "$folder"
}

command -v qemu-system-aarch64 >/dev/null || want "an emulator of Arm machines" qemu-system-arm
command -v aarch64-linux-gnu-gcc >/dev/null ||
    want "a compiler for Arm machines" gcc-aarch64-linux-gnu libc6-dev-arm64-cross
fetch_kernel || say "no arm64 kernel at $kernel; to have one: unpack Debian's linux-image-cloud-arm64 there"
[ "${1:-}" = --fetch ] && exit 0

make_environment .venv-test --editable '.[test]'
.venv-test/bin/python -m pytest -rs tests/emulated "$@"
