"""The least time of a kernel's arithmetic, as it was compiled: each class of FLOPs under its own roof."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..count.base import FlopClass
from ..machine.model import Ceiling

ISA_BITS = {"scalar": 0, "SSE": 128, "NEON": 128, "AVX": 256, "AVX2": 256, "AVX-512": 512}
"""Bits of a vector; 0 for single numbers."""

SLOW = {"div": "DIV", "sqrt": "SQRT"}
"""Operations with a unit of their own, and the mix of the ceilings that measure it."""


def arithmetic_seconds(
    classes: Iterable[FlopClass], ceilings: Sequence[Ceiling], threads: int
) -> float | None:
    """Return the least seconds of these FLOPs, or ``None`` if one of their roofs is not known.

    Divisions and square roots share one unit, which works beside those of the other operations. Some
    processors have units for additions beside those of fused multiply-adds, which multiplications share.
    """
    slow = 0.0
    groups: dict[tuple[str, int | None], list[FlopClass]] = {}
    for one in classes:
        if not one.counted or not one.flops:
            continue
        if one.op not in SLOW:
            groups.setdefault((one.precision, one.width), []).append(one)
            continue
        roof = peak(ceilings, one.precision, one.width, threads, op=one.op)
        if roof is None:
            return None
        slow += one.flops / roof
    other = 0.0
    for (precision, width), group in groups.items():
        best = peak(ceilings, precision, width, threads)
        apart = peak(ceilings, precision, width, threads, op="add")
        fused_alone = _fused_alone(ceilings, precision, width, threads)
        if best is None or apart is None or fused_alone is None:
            return None
        fused = sum(one.flops for one in group if one.op in FUSED)
        products = sum(one.flops for one in group if one.op == "mul")
        sums = sum(one.flops for one in group) - fused - products
        if best > APART * fused_alone:
            # a multiplication keeps a unit busy that would have done two FLOPs
            times = (fused + 2 * products) / fused_alone, sums / apart, (fused + products + sums) / best
            other += max(times)
        else:
            other += fused / best + (products + sums) / apart
    return max(slow, other)


FUSED = ("fma", "any", "dot")
"""Operations that are held against the roof of fused multiply-adds."""

APART = 1.2
"""Where additions beside fused multiply-adds raise the roof more than this, they have units of their own."""


def _fused_alone(
    ceilings: Sequence[Ceiling], precision: str, width: int | None, threads: int
) -> float | None:
    """Return the FLOP/s of fused multiply-adds alone.

    They are measured of the widest vectors; of others it is the same part of their highest roof, if that is
    of the same mix of operations.
    """
    alike = [one for one in _alike(ceilings, precision, width, threads) if not one.special]
    best = max(alike, key=lambda one: one.value, default=None)
    if best is None or "+" not in best.mix or best.fma is not True:
        return None if best is None else best.value
    alone = [one.value for one in alike if one.mix == "FMA"]
    if alone:
        return max(alone)
    every = [one for one in _alike(ceilings, precision, None, threads) if not one.special]
    for other in every:
        wider = [one.value for one in every if one.isa == other.isa and one.mix == "FMA"]
        if other.mix == best.mix and wider:
            return best.value * min(max(wider) / other.value, 1.0)
    return best.value


CHAINS = {"fma": "FMA 1 chain", "other": "ADD 1 chain"}
"""Mixes of the ceilings in which each operation waits for the one before it."""

SLOW_WAIT = 4
"""A division or square root waits for the one before it no longer than this many of them take side by side:
on Zen 2 to 5 and on Intel's cores since Skylake two to four (uops.info, latency over throughput)."""


def waiting_seconds(classes: Iterable[FlopClass], ceilings: Sequence[Ceiling], threads: int) -> float | None:
    """Return the seconds of these FLOPs if each waited for the one before; ``None`` if that is not known."""
    total = 0.0
    for one in classes:
        if not one.counted or not one.flops:
            continue
        if one.op in SLOW:
            roof = peak(ceilings, one.precision, one.width, threads, op=one.op)
            roof = None if roof is None else roof / SLOW_WAIT
        else:
            mix = CHAINS["fma" if one.op == "fma" else "other"]
            chains = [ceiling for ceiling in ceilings if ceiling.mix == mix]
            roof = peak(chains, one.precision, one.width, threads, op=mix)
        if roof is None:
            return None
        total += one.flops / roof
    return total


def peak(
    ceilings: Sequence[Ceiling], precision: str, width: int | None, threads: int, *, op: str = "fma"
) -> float | None:
    """Return the FLOP/s that operations of one kind reach at most; ``None`` if that was not measured.

    Parameters
    ----------
    width
        Bits of the vector, 0 for single numbers; ``None`` if not known, then the widest counts.
    op
        The operation's class. Where no loop without fused multiply-adds was measured, the roof is that of the
        same width with them, which such code cannot exceed either.
    """
    alike = _alike(ceilings, precision, width, threads)
    if op in CHAINS.values():
        found = alike
    elif op in SLOW:
        found = [one for one in alike if one.mix == SLOW[op]]
    else:
        plain = [one for one in alike if not one.special]
        found = plain if op in FUSED else [one for one in plain if one.fma is False] or plain
    return max((one.value for one in found), default=None)


def _alike(ceilings: Sequence[Ceiling], precision: str, width: int | None, threads: int) -> list[Ceiling]:
    """Return the compute ceilings of a precision and a width for so many threads, or the nearest number."""
    alike = [
        one
        for one in ceilings
        if one.kind == "compute"
        and one.precision == precision
        and (width is None or ISA_BITS.get(one.isa) == width)
    ]
    counts = {one.threads for one in alike}
    if not counts:
        return []
    nearest = max((count for count in counts if count <= threads), default=min(counts))
    return [one for one in alike if one.threads == nearest]
