"""Findings about FLOPs: instructions narrower or slower than need be, and lanes that compute nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from .. import units
from ..count.base import FlopClass
from . import fits
from .base import PACED, Facts, Finding, Gain, nearest
from .claims import flops_fit
from .inner import cache_traffic
from .memory import SCATTERED, fetched_again
from .peaks import ISA_BITS, SLOW, arithmetic_seconds, waiting_seconds

SHARE = 0.1
"""From this share of the FLOPs on, a kind of instruction is worth a finding."""

SLOW_SHARE = 0.15
"""From this share of a call on, divisions and square roots are."""

NEWTON_FLOPS = 4
"""Of one step of Newton's method, which gets a reciprocal or its root from an estimate to twice the digits;
f32 needs one step after an estimate of 12 bits, f64 two or three."""

NOT_VECTORISED = "not vectorised"
NARROW = "narrow vectors"
NO_FMA = "no fused multiply-add"
DIVISION = "division and square root"
LANES_OFF = "lanes switched off"
REDUNDANT = "redundant FLOPs"


def not_vectorised(facts: Facts) -> Iterator[Finding]:
    """FLOPs on single numbers where the machine has vectors of that precision."""
    classes = _counted(facts)
    scalar = [one for one in classes if one.width == 0 and one.precision != "x87"]
    yield from _wider(facts, NOT_VECTORISED, scalar, "on single numbers")


def narrow_vectors(facts: Facts) -> Iterator[Finding]:
    """FLOPs in vectors that are not the widest of the machine."""
    narrow = [one for one in _counted(facts) if one.width and one.width < _widest(facts, one.precision)]
    widths = ", ".join(f"{width} bits" for width in sorted({one.width for one in narrow if one.width}))
    yield from _wider(facts, NARROW, narrow, f"in vectors of {widths}")


def _wider(facts: Facts, rule: str, classes: list[FlopClass], how: str) -> Iterator[Finding]:
    total = sum(one.flops for one in _counted(facts))
    part = sum(one.flops for one in classes)
    if not total or part < SHARE * total:
        return
    widest = {one.precision: _widest(facts, one.precision) for one in classes}
    if not all(widest.values()):
        return
    now = arithmetic_seconds(_counted(facts), facts.machine.ceilings, facts.threads)
    chosen = set(classes)
    then = arithmetic_seconds(
        (replace(one, width=widest[one.precision]) if one in chosen else one for one in _counted(facts)),
        facts.machine.ceilings,
        facts.threads,
    )
    gain = _gain(facts, now, then, lanes=True)
    if gain is None:
        return
    isa = ", ".join(sorted({_isa(facts, width) for width in widest.values()}))
    bits = max(widest.values())
    precision = "/".join(sorted({one.precision for one in classes}))
    yield Finding(
        rule,
        "cost",
        f"{units.percent(part / total)} of the FLOPs ({units.count(part)}, {precision}) are computed {how}; "
        f"{isa} has {bits // 64 if precision == 'f64' else bits // 32} at a time",
        "see what keeps the compiler from vectorising (-fopt-info-vec-missed, -Rpass-missed=loop-vectorize): "
        "pointers that may overlap (restrict), sums that must keep their order (-ffast-math, or several "
        "sums), a loop whose turns need each other (exchange it with one whose turns do not), the flags "
        "(-O3 -march=...)",
        gain.factor,
        gain.attainable,
        {"FLOPs": total, f"FLOPs {how}": part},
    )


def widened_seconds(facts: Facts) -> float | None:
    """Return the least seconds of the arithmetic if all of it were in the widest vectors."""
    classes = _counted(facts)
    widest = {one.precision: _widest(facts, one.precision) for one in classes}
    wide = (replace(one, width=widest[one.precision] or one.width) for one in classes)
    return arithmetic_seconds(wide, facts.machine.ceilings, facts.threads)


def no_fma(facts: Facts) -> Iterator[Finding]:
    """Multiplications and additions apart, where the machine can do both at once."""
    classes = _counted(facts)
    total = sum(one.flops for one in classes)
    fused = sum(one.flops for one in classes if one.op == "fma")
    if not total or fused > 0.05 * total:
        return
    then: list[FlopClass] = []
    pairs = 0
    for (precision, width), group in _by_kind(classes).items():
        products = sum(one.flops for one in group if one.op == "mul")
        sums = sum(one.flops for one in group if one.op in ("add", "sub"))
        both = min(products, sums)
        if not both or not any(
            one.fma and one.precision == precision for one in nearest(facts.machine.ceilings, facts.threads)
        ):
            then += group
            continue
        pairs += both
        then.append(FlopClass(precision, width, "fma", 2 * both))
        then.append(FlopClass(precision, width, "add", products + sums - 2 * both))
        then += [one for one in group if one.op not in ("mul", "add", "sub")]
    if 2 * pairs < SHARE * total:
        return
    now = arithmetic_seconds(classes, facts.machine.ceilings, facts.threads)
    gain = _fused(facts, now, arithmetic_seconds(then, facts.machine.ceilings, facts.threads), total, pairs)
    if gain is None:
        return
    yield Finding(
        NO_FMA,
        "cost",
        f"{units.percent(fused / total)} of the FLOPs are in fused multiply-adds; {units.count(pairs)} "
        "multiplications could be fused with additions, where one depends on the other",
        "compile with -mfma or -march=... and -ffp-contract=fast, or call fma(); results change in their "
        "last digit",
        gain.factor,
        gain.attainable,
        {"FLOPs": total, "FLOPs in fused multiply-adds": fused, "pairs at most": pairs},
    )


def _fused(facts: Facts, now: float | None, then: float | None, total: int, pairs: int) -> Gain | None:
    """Return the gain of pairs of operations that become one: by their number, as far as the roofs allow.

    Where additions have units of their own the roofs alone are as high without fused multiply-adds, but half
    of the instructions that wait for their turn are gone.
    """
    if not now or not then or facts.own_seconds is None or now < PACED * facts.own_seconds:
        return _gain(facts, now, then)
    changed = replace(facts.demand, compute=then)
    after, least = facts.least_seconds(changed, usual=True), facts.least_seconds(changed)
    if after is None or least is None:
        return None
    return facts.worth(min(facts.own_seconds / after, total / (total - pairs)), least)


def division(facts: Facts) -> Iterator[Finding]:
    """Divisions and square roots that take a large part of the time."""
    classes = _counted(facts)
    slow = [one for one in classes if one.op in SLOW]
    others = [one for one in classes if one.op not in SLOW]
    time = arithmetic_seconds(slow, facts.machine.ceilings, facts.threads)
    now = arithmetic_seconds(classes, facts.machine.ceilings, facts.threads)
    if not time or now is None:
        return
    share = time / facts.own_seconds if facts.own_seconds is not None else time / now
    if share < SLOW_SHARE or time < 0.5 * now:
        return
    instead = [
        FlopClass(one.precision, one.width, "fma", NEWTON_FLOPS * _steps(one) * one.flops) for one in slow
    ]
    then = arithmetic_seconds([*others, *instead], facts.machine.ceilings, facts.threads)
    if then is None or (gain := facts.gain(replace(facts.demand, compute=then))) is None:
        return
    products = [replace(one, op="mul") for one in slow if one.op == "div"]
    roots = [one for one in slow if one.op != "div"]
    once = arithmetic_seconds([*others, *products, *roots], facts.machine.ceilings, facts.threads)
    better = None if once is None else facts.gain(replace(facts.demand, compute=once))
    hoisted = ""
    if better is not None and better.factor > gain.factor:
        hoisted = f" (where divisors are the same again; up to {units.ratio(better.factor)} times as fast)"
    number = sum(one.flops for one in slow)
    total = sum(one.flops for one in classes)
    names = {"div": "divisions", "sqrt": "square roots"}
    what = " and ".join(names[op] for op in SLOW if any(one.op == op for one in slow))
    per = ", ".join(
        f"{units.count(sum(one.flops for one in slow if one.op == op))} {names[op]}"
        for op in SLOW
        if any(one.op == op for one in slow)
    )
    yield Finding(
        DIVISION,
        "cost",
        f"{per}: {units.percent(number / total)} of the FLOPs, but their unit needs at least "
        f"{units.seconds(time)} for them, {units.percent(share)} of the time",
        f"take {what} out of the loop, compute a reciprocal once and multiply{hoisted}; or use the "
        "estimate of a reciprocal (root) and a step of Newton's method (-mrecip, -ffast-math), if last "
        "digits may differ",
        gain.factor,
        gain.attainable,
        {**{names[one.op]: one.flops for one in slow}, "least seconds of them": time},
    )


def _steps(one: FlopClass) -> int:
    return 1 if one.precision in ("f16", "bf16", "f32") else 3


def redundant(facts: Facts) -> Iterator[Finding]:
    """FLOPs beyond those of the claim that no formula of its kind explains: padding, work done twice."""
    declared, executed, demand = facts.declared_flops, facts.flops, facts.demand
    if not declared or executed is None or executed < (1 + SHARE) * declared or demand.compute is None:
        return
    fit = flops_fit(facts)
    if fit is not None and fit.off == 0 and not fits.loose(fit, facts.flops_formula or fit.text):
        return
    gain = _gain(facts, demand.compute, demand.compute * declared / executed)
    if gain is None:
        return
    yield Finding(
        REDUNDANT,
        "cost",
        f"{units.count(executed - declared)} FLOPs more are executed than the {units.count(declared)} "
        f"declared ({units.ratio(executed / declared)} times as many); if the claim is what the task needs, "
        "they are done for padding, or twice",
        "look for edges that are padded to whole tiles, values computed anew in each turn, halos computed by "
        "both neighbours",
        gain.factor,
        gain.attainable,
        {"FLOPs declared": declared, "FLOPs executed": executed},
    )


def lanes_off(facts: Facts) -> Iterator[Finding]:
    """Lanes that a mask switches off: issued, but not computed."""
    counted = facts.counted
    if counted is None or not facts.flops or not counted.issued_flops.value:
        return
    issued = counted.issued_flops.value
    idle = issued - facts.flops
    if idle < SHARE * issued:
        return
    demand = facts.demand
    if demand.compute is None:
        return
    # now the arithmetic takes the time of all lanes
    before = demand.compute * issued / facts.flops
    gain = _gain(facts, before, demand.compute)
    if gain is None:
        return
    yield Finding(
        LANES_OFF,
        "cost",
        f"of {units.count(issued)} FLOPs issued, {units.percent(idle / issued)} are of lanes that a mask "
        "switches off",
        "make trip counts multiples of the vector, sort so that neighbours take the same branch, or use "
        "narrower vectors",
        gain.factor,
        gain.attainable,
        {"FLOPs issued": issued, "FLOPs executed": facts.flops},
    )


def _gain(facts: Facts, now: float | None, then: float | None, *, lanes: bool = False) -> Gain | None:
    """Return the gain of faster arithmetic: by the ratio of the roofs, as far as memory allows.

    Of the time measured no more can be saved than the arithmetic takes: what its chains demand or, where they
    are not known, what it would take if each operation waited for the one before it. With ``lanes``, several
    chains run side by side as well, and loads and stores come several at a time: then it is at least what
    misses cannot have taken. Arithmetic that takes less than half of the time is done while the rest waits.
    """
    if not now or not then:
        return None
    chains = facts.chain_seconds
    changed = replace(facts.demand, compute=then, chains=chains * then / now if lanes and chains else chains)
    least = facts.least_seconds(changed)
    if least is None:
        return None
    if facts.own_seconds is None:
        before = max(facts.least_seconds(facts.demand) or 0.0, now)
        return facts.worth(before / least, least)
    longest = max(chains, now) if chains is not None else _waiting(facts, now)
    if lanes and (misses := facts.miss_seconds) is not None:
        longest = max(longest, facts.own_seconds - misses)
    if longest < PACED * facts.own_seconds:
        return None
    saved = min(facts.own_seconds, longest) - (longest * then / now if lanes else max(then, chains or 0.0))
    return facts.worth(facts.own_seconds / max(least, facts.own_seconds - saved), least)


def _waiting(facts: Facts, now: float) -> float:
    """Return how long the arithmetic takes at most; where an index asks for lines, without waiting."""
    if any(one.rule == SCATTERED for rule in (fetched_again, cache_traffic) for one in rule(facts)):
        return now
    longest = waiting_seconds(_counted(facts), facts.machine.ceilings, facts.threads)
    return max(longest if longest is not None else facts.own_seconds or now, now)


def _counted(facts: Facts) -> list[FlopClass]:
    return (
        [] if facts.counted is None else [one for one in facts.counted.flops_by if one.counted and one.flops]
    )


def _by_kind(classes: Iterable[FlopClass]) -> dict[tuple[str, int | None], list[FlopClass]]:
    kinds: dict[tuple[str, int | None], list[FlopClass]] = {}
    for one in classes:
        kinds.setdefault((one.precision, one.width), []).append(one)
    return kinds


def _widest(facts: Facts, precision: str) -> int:
    """Return the bits of the widest vectors of a precision that were measured; 0 if none were."""
    return max(
        (
            ISA_BITS.get(one.isa, 0)
            for one in facts.machine.ceilings
            if one.kind == "compute" and one.precision == precision and not one.special
        ),
        default=0,
    )


def _isa(facts: Facts, bits: int) -> str:
    return next(
        (
            one.isa
            for one in facts.machine.ceilings
            if one.kind == "compute" and ISA_BITS.get(one.isa) == bits
        ),
        "",
    )


RULES = (not_vectorised, narrow_vectors, no_fma, division, redundant, lanes_off)
