#!/usr/bin/env bash
# Builds the cache model with the address and undefined-behaviour sanitizers and runs it on random input, in two ways that
# have to agree. Takes a minute, most of it to build. The argument is the number of rounds (400); the tests run 200.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Unoptimised, it is built in half the time, and no access that the source has is optimised away. What is left out takes as
# long again, and the address sanitizer sees to most of it.
flags="-std=gnu11 -O0 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -Icsrc"
flags+=" -fno-sanitize=null,object-size,pointer-overflow,alignment"
printf '%s\n' scripts/sanitize_cachesim.c csrc/cachesim/*.c |
    xargs -P "$(nproc)" -I{} sh -c '"$0" $1 -c "$2" -o "$3/$(basename "$2" .c).o"' "${CC:-cc}" "$flags" {} "$folder"
"${CC:-cc}" $flags "$folder"/*.o -o "$folder/sanitized"
UBSAN_OPTIONS=print_stacktrace=1 "$folder/sanitized" "${1:-400}"
