#!/usr/bin/env bash
# Builds the cache model with the address and undefined-behaviour sanitizers and runs it on random input.
# Takes two minutes, most of them to build. The argument is the number of rounds (400).
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${CC:-cc}" -std=gnu11 -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -Icsrc \
    scripts/sanitize_cachesim.c csrc/cachesim/*.c -o "$folder/sanitized"
UBSAN_OPTIONS=print_stacktrace=1 "$folder/sanitized" "${1:-400}"
