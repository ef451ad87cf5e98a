#!/usr/bin/env bash
# Runs the whole package with --counter perf on a PMU that counts: an arm64 system of Debian's Python and PyPI's wheels,
# in an Arm machine emulated by QEMU. Takes minutes and a gigabyte, so tests/emulated runs csrc/perf alone. As root.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/counteroof/pmu
root=$cache/root
scripts/test_pmu.sh --fetch
make_environment .venv-test --editable '.[test]'
python=$PWD/.venv-test/bin/python

# A system with Python 3.11, its headers and the wheels, made once.
if [ ! -e "$root/made" ]; then
    say "making an arm64 system in $root"
    rm -rf "$root" "$cache/debs" "$cache/wheels"
    mkdir -p "$root"/{proc,sys,dev,tmp,site} "$cache"/{debs,wheels}
    packages=$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
        --no-enhances python3.11:arm64 libstdc++6:arm64 | grep -E '^\w.*:arm64$' | sort -u)
    # shellcheck disable=SC2086
    (cd "$cache/debs" && apt-get download -qq $packages libpython3.11-dev:arm64 >/dev/null 2>&1)
    for package in "$cache"/debs/*.deb; do dpkg-deb -x "$package" "$root"; done
    platforms=(--platform manylinux2014_aarch64 --platform manylinux_2_17_aarch64 --platform manylinux_2_28_aarch64)
    # What the package asks for itself, without what it asks for on other processors.
    "$python" -c "
import tomllib
wanted = tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies']
print(*(one for one in wanted if ';' not in one), sep='\n')" >"$cache/wanted.txt"
    "$python" -m pip download --quiet --dest "$cache/wheels" "${platforms[@]}" --python-version 3.11 \
        --only-binary :all: --requirement "$cache/wanted.txt"
    for wheel in "$cache"/wheels/*.whl; do "$python" -m zipfile -e "$wheel" "$root/site"; done
    rm -rf "$root"/usr/share/{doc,man,zoneinfo} "$root"/usr/lib/python3.11/{test,idlelib,ensurepip}
    rm -rf "$root"/site/*/tests "$root"/usr/lib/aarch64-linux-gnu/*.a "$root"/usr/lib/python3.11/config-*
    touch "$root/made"
fi

say "compiling counteroof for it"
image=$(mktemp -d)
trap 'rm -rf "$image"' EXIT
cp -a "$root/." "$image/"
cp -r counteroof "$image/site/"
rm -f "$image"/site/counteroof/*.so
"$python" -c "
import sys
sys.path.insert(0, 'csrc')
from build_native import ffi
ffi.emit_c_code(sys.argv[1])" "$image/native.c"
cross=(aarch64-linux-gnu-gcc -shared -fPIC -std=gnu11 -O2)
headers=("-I$root/usr/include/python3.11" "-I$root/usr/include/aarch64-linux-gnu" -idirafter "$root/usr/include")
native=()
for header in csrc/*/*.h; do
    folder=$(dirname "$header")
    [ "$(basename "$folder").h" = "$(basename "$header")" ] && [ "$folder" != csrc/kernels ] && native+=("$folder"/*.c)
done
"${cross[@]}" -fvisibility=hidden -Icsrc "${headers[@]}" -o "$image/site/counteroof/_native.abi3.so" \
    "$image/native.c" "${native[@]}" -lpthread -lm
"${cross[@]}" -g -fno-math-errno -o "$image/site/counteroof/_kernels_base.so" csrc/kernels/*.c -lm
rm "$image/native.c"
cat >"$image/dot.c" <<'END_OF_FILE'
#include <stddef.h>
double dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}
END_OF_FILE
"${cross[@]}" -g -o "$image/libdot.so" "$image/dot.c"
cat >"$image/spec.toml" <<'END_OF_FILE'
[library]
path = "libdot.so"
[[kernel]]
name = "dot"
symbol = "dot"
params = { n = 100_000 }
args = { a = { dtype = "f64", shape = "n", init = "random" }, b = { dtype = "f64", shape = "n", init = "random" }, n = "n" }
declared = { flops = "2*n", bytes = "16*n" }
END_OF_FILE
cat >"$image/machine.toml" <<'END_OF_FILE'
name = "an emulated Arm machine"
[[cache]]
level = 1
size = "32 KiB"
ways = 8
[[cache]]
level = 2
size = "1 MiB"
ways = 8
END_OF_FILE
# The emulated PMU has no FLOP event: instructions stand for FLOPs, to see the way from an event to the result. They are
# asked for more often than there are counters, to see that they are counted in passes.
cat >"$image/events.toml" <<'END_OF_FILE'
family = "emulated"
[set.instructions_as_flops]
confidence = "an event that the emulator has"
events = [
    { name = "INST_RETIRED", event = 0x08, precision = "f64", weight = 1 },
    { name = "INST_RETIRED_1", event = 0x08, precision = "f32", weight = 1 },
    { name = "INST_RETIRED_2", event = 0x08, precision = "f32", weight = 1 },
    { name = "INST_RETIRED_3", event = 0x08, precision = "f32", weight = 1 },
    { name = "INST_RETIRED_4", event = 0x08, precision = "f32", weight = 1 },
    { name = "INST_RETIRED_5", event = 0x08, precision = "f32", weight = 1 },
    { name = "INST_RETIRED_6", event = 0x08, precision = "f32", weight = 1 },
    { name = "INST_RETIRED_7", event = 0x08, precision = "f32", weight = 1 },
    { name = "INST_RETIRED_8", event = 0x08, precision = "f32", weight = 1 },
    { name = "INST_RETIRED_9", event = 0x08, precision = "f32", weight = 1 },
]
[processor.emulated]
title = "QEMU's -cpu max"
match = { architecture = "aarch64" }
flops = ["instructions_as_flops"]
source = "Arm ARM, PMU events"
confidence = "v1"
END_OF_FILE
cp tests/emulated/init.py "$image/init"
chmod +x "$image/init"
(cd "$image" && find . | cpio -o -H newc --quiet) >"$cache/image.cpio"
say "running it (some minutes)"
timeout 1800 qemu-system-aarch64 -M virt -cpu max -smp 2 -icount shift=0 -m 3072 -nic none -nographic -no-reboot \
    -kernel "$cache/vmlinuz" -initrd "$cache/image.cpio" -append "console=ttyAMA0 quiet panic=1" </dev/null |
    tee "$cache/output.txt" | "$python" tests/emulated/package.py
