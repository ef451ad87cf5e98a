"""Measures how long the cache model takes for typical access patterns, in ns a line and an access.

Usage: python scripts/bench_cachesim.py [--repeat 5] [--vectors 0|1|2] [--only TEXT] [--tlb] [--reuse]

The hierarchies are fixed (not this machine's), so figures of different machines compare. Every figure is the
median and the least of the repeats, in processor time; a warm-up call comes before.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from counteroof.cachesim.model import CacheModel, Kind
from counteroof.machine.model import CacheLevel, Tlb
from counteroof.native import lib

BASE = 0x7F00_0000_0000
MB = 1 << 20

ZEN5 = (
    CacheLevel("L1", 48 << 10, 12, 64, 1, "non-inclusive", False, "bench"),
    CacheLevel("L2", 1 * MB, 16, 64, 1, "inclusive", False, "bench"),
    CacheLevel("L3", 32 * MB, 16, 64, 8, "victim", True, "bench"),
)
HASWELL = (
    CacheLevel("L1", 32 << 10, 8, 64, 1, "non-inclusive", False, "bench"),
    CacheLevel("L2", 256 << 10, 8, 64, 1, "non-inclusive", False, "bench"),
    CacheLevel("L3", 35 * MB, 20, 64, 14, "inclusive", True, "bench"),
)
TLBS = (Tlb(1, 96, 96, ("4 KiB", "2 MiB")), Tlb(2, 4096, 16, ("4 KiB", "2 MiB")))
"""As Zen 5 has them."""


@dataclass(frozen=True)
class Pattern:
    name: str
    lines: int
    """Distinct line visits, the divisor of the first figure."""
    accesses: int
    run: Callable[[CacheModel], None]


def stream(name: str, streams: str, width: int, elements: int = 20_000_000) -> Pattern:
    """Streams over arrays of doubles: L load, S store, N non-temporal store; ``width`` bytes an access."""
    kinds = {"L": Kind.LOAD, "S": Kind.STORE, "N": Kind.NON_TEMPORAL}
    gap = 8 * elements + 37 * 4096
    made = [(BASE + number * gap, width, width, kinds[letter]) for number, letter in enumerate(streams)]
    count = 8 * elements // width

    def run(model: CacheModel) -> None:
        model.loop(made, count)

    return Pattern(f"{name}, {width} B", len(streams) * elements // 8, len(streams) * count, run)


def nest(name: str, loops: int, streams: list[tuple[int, int, int, Kind]], count: int, lines: int) -> Pattern:
    """The same loop again and again, its streams 8 bytes further each time."""

    def run(model: CacheModel) -> None:
        for k in range(loops):
            model.loop(
                [(start + 8 * k, stride, nbytes, kind) for start, stride, nbytes, kind in streams], count
            )

    return Pattern(name, lines, loops * count * len(streams), run)


def listed(name: str, addresses: np.ndarray, nbytes: int = 8) -> Pattern:
    """Loads one by one, as a batch."""
    sizes = np.full(len(addresses), nbytes, np.uint32)
    kinds = np.zeros(len(addresses), np.uint32)
    addresses = addresses.astype(np.uint64) + np.uint64(BASE)
    return Pattern(
        name, len(addresses), len(addresses), lambda model: model.accesses(addresses, sizes, kinds)
    )


def patterns() -> list[Pattern]:
    random = np.random.default_rng(1)
    inside = [(BASE + 8192 * k, 8, 8, Kind.LOAD) for k in range(3)]
    return [
        stream("triad", "LLS", 64),
        stream("triad", "LLS", 8),
        stream("copy", "LS", 32),
        stream("non-temporal copy", "LN", 64),
        stream("dot", "LL", 64),
        stream("dot", "LL", 8),
        stream("ten streams", "LLLLLLLLLS", 8, 4_000_000),
        nest("three streams in L1, 8 B", 500, inside, 1000, 3 * 125 * 500),
        nest("column walk 4096 x 512", 512, [(BASE, 32768, 8, Kind.LOAD)], 4096, 4096 * 512),
        listed("gather, 80 MB", random.integers(0, 10_000_000, 3_000_000) * 8),
        listed("random in 800 KB (L2)", random.integers(0, 100_000, 3_000_000) * 8),
        listed("random in 16 KB (L1)", random.integers(0, 2_000, 3_000_000) * 8),
        listed("walk in 12 KB (L1)", np.tile(np.arange(0, 12 << 10, 8), 1000)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--vectors", type=int, choices=(0, 1, 2), help="0 plain C, 1 AVX2, 2 AVX-512")
    parser.add_argument("--only", default="", help="patterns whose name contains this")
    parser.add_argument("--tlb", action="store_true", help="with address translation, all pages of 4 KiB")
    parser.add_argument("--reuse", action="store_true", help="with reuse distances")
    options = parser.parse_args()
    print(f"{'pattern':25} {'hierarchy':9} {'ms':>7} {'least':>7} {'ns/line':>8} {'ns/access':>9} {'MB':>8}")
    for pattern in patterns():
        if options.only not in pattern.name:
            continue
        for hierarchy, caches in (("Zen 5", ZEN5), ("Haswell", HASWELL)):
            model = CacheModel(caches, tlbs=TLBS if options.tlb else ())
            if options.reuse:
                model.start_reuse()
            if options.vectors is not None and lib.cachesim_use_vectors(model.pointer, options.vectors):
                raise SystemExit("this processor does not have these vectors")
            pattern.run(model)
            seconds = []
            for _ in range(options.repeat):
                model.reset()
                start = time.thread_time()
                pattern.run(model)
                seconds.append(time.thread_time() - start)
            median, totals = statistics.median(seconds), model.totals()
            print(
                f"{pattern.name:25} {hierarchy:9} {median * 1e3:7.1f} {min(seconds) * 1e3:7.1f}"
                f" {median / pattern.lines * 1e9:8.2f} {median / pattern.accesses * 1e9:9.3f}"
                f" {(totals.dram_read_bytes + totals.dram_write_bytes) / 1e6:8.1f}"
            )


if __name__ == "__main__":
    main()
