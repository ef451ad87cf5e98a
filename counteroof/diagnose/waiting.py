"""Findings about time in which little is computed or moved: waiting, denormals, page faults, gathers."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from .. import units
from ..count.base import LoopChain
from .arithmetic import widened_seconds
from .base import PACED, WORTH, Facts, Finding, nearest

UNTIMED = 3.0
"""Without a time to hold it against, a chain has to take so many times as long as all else."""
LOCKED = ("lock ", "xchg ")
"""How instructions begin that are locked, as they are disassembled."""

COUNTER = 1
"""Cycles of the operation by which a loop counts its passes: faster than any on floating-point numbers."""

MAIN = 0.1
"""From this share of the cycles of all chains on, a loop is named."""

GATHERED_SHARE = 0.1
"""From this share of the accesses on, gathers and scatters are told of."""

NEARLY = 0.9
"""From this share of the FLOPs on single numbers on, loops have all of them but for their ends."""

RECURRENCE = "loop-carried dependency"
DENORMALS = "denormal numbers"
PAGE_FAULTS = "page faults"
GATHERS = "gather and scatter"
BUSY = "processor shared"
QUIET = 0.9
"""A kernel that has a processor for at least this share of its time is timed well enough."""

DENORMALS_WORTH = 1.1
"""Two calls of which one gains less may be as fast."""


def recurrence(facts: Facts) -> Iterator[Finding]:
    """Loops whose passes wait for each other longer than for anything else."""
    counted, clock = facts.counted, facts.clock_hz or _clock_of_roofs(facts)
    if counted is None or not counted.chains or clock is None:
        return
    chains = sum(one.demanded_cycles for one in counted.chains) / clock
    if chains < max(facts.parts(facts.demand).values(), default=0.0):
        return
    computing = facts.own_seconds
    if computing is not None and chains < PACED * computing:
        return
    least = facts.least_seconds(replace(facts.demand, chains=None, compute=widened_seconds(facts)))
    gain = None if least is None else facts.worth(chains / least, least)
    if gain is None or (facts.seconds is None and gain.factor < UNTIMED):
        return
    total = sum(one.demanded_cycles for one in counted.chains)
    loops = [one for one in counted.chains if one.demanded_cycles >= MAIN * total]
    if all(len(one.links) == 1 and one.links[0].cycles <= COUNTER for one in loops):
        return
    share = ""
    if computing is not None:
        share = f", {units.percent(min(chains / computing, 1))} of the call's time on a processor"
    yield Finding(
        RECURRENCE,
        "cost",
        "; ".join(_loop(one) for one in loops)
        + f"; that takes at least {units.seconds(chains)} at {units.hertz(clock)}{share}",
        _remedy(loops),
        gain.factor,
        gain.attainable,
        {
            "least seconds of the chain": chains,
            **{f"cycles of a pass of {_place(one)}": one.cycles for one in loops},
            **{f"FLOPs of a pass of {_place(one)}": one.flops for one in loops},
        },
    )


def _remedy(loops: Sequence[LoopChain]) -> str:
    """Return what makes passes wait less, from what is in the chains."""
    texts = [link.text for one in loops for link in one.links]
    if texts and all(text.startswith(LOCKED) for text in texts):
        return (
            "locked instructions (atomics) come one after the other, whatever their addresses: gather in a "
            "local variable, and add that to the shared one once"
        )
    divides = any("div" in text or "sqrt" in text for text in texts)
    return (
        "let several of them run side by side: independent rows, systems or channels in the lanes of a "
        "vector (interleaved in memory) or in turns of one loop; for a sum, several sums (-ffast-math, or "
        "#pragma omp simd reduction)" + ("; take divisions out of the chain" if divides else "")
    )


def keep_scalar(facts: Facts) -> bool:
    """Return whether loops whose passes wait for each other have all FLOPs that are on single numbers.

    Then they are what keeps these out of vectors, and chains side by side in lanes are what helps.
    """
    if facts.counted is None:
        return False
    scalar = sum(one.flops for one in facts.counted.flops_by if one.counted and one.width == 0)
    return sum(one.passes * one.flops for one in facts.counted.chains) >= NEARLY * scalar


def busy(facts: Facts) -> Iterator[Finding]:
    """Calls that were timed while something else had the processor."""
    share = facts.processor_share
    # threads that sleep while they wait for each other look alike
    if share is None or facts.threads > 1 or share >= QUIET:
        return
    yield Finding(
        BUSY,
        "doubt",
        f"while it was timed the kernel had a processor for {units.percent(share)} of its time: other "
        "programs ran, or it waited for something outside",
        "measure again on a quiet machine",
        evidence={"share of the time on a processor": share},
    )


def _clock_of_roofs(facts: Facts) -> float | None:
    """Return the clock while roofs were measured, for a kernel that was not timed."""
    clocks = [one.clock_hz for one in nearest(facts.machine.ceilings, facts.threads) if one.clock_hz]
    return statistics.median(clocks) if clocks and facts.seconds is None else None


def _loop(one: LoopChain) -> str:
    links = [f"{_mnemonic(link.text)} {link.cycles}" for link in one.links if link.cycles]
    through = ", through memory" if one.through_memory else ""
    shown = " + ".join(links[:6]) + (" + ..." if len(links) > 6 else "")
    return (
        f"each of {units.count(one.passes)} passes of the loop at {_place(one)} waits {one.cycles:.3g} "
        f"cycles for the one before ({shown}{through}) and computes {units.count(one.flops)} FLOPs"
    )


def _mnemonic(text: str) -> str:
    words = text.split()
    return " ".join(words[: 2 if words[0] == "lock" else 1])


def _place(one: LoopChain) -> str:
    if one.file is not None and one.line is not None:
        return f"{Path(one.file).name}:{one.line}"
    return f"{one.symbol or Path(one.library).name}+{one.address:#x}"


def denormals(facts: Facts) -> Iterator[Finding]:
    """Numbers too small for full precision, where calls without them are faster."""
    seen = None if facts.counted is None else facts.counted.denormals
    if seen is None or seen.seconds is None or not seen.flushed_seconds:
        return
    factor = seen.seconds / seen.flushed_seconds
    if factor < DENORMALS_WORTH:
        return
    what = " and ".join(
        text
        for is_so, text in ((seen.operand, "operands"), (seen.underflow, "results that had to be rounded"))
        if is_so
    )
    yield Finding(
        DENORMALS,
        "cost",
        f"there are denormal {what} (at least one: the processor's flags tell no number); a call took "
        f"{units.seconds(seen.seconds)}, and {units.seconds(seen.flushed_seconds)} with them taken as 0",
        "set FTZ and DAZ in the threads that compute (_MM_SET_FLUSH_ZERO_MODE, "
        "_MM_SET_DENORMALS_ZERO_MODE, or link with -ffast-math), or keep values from decaying so far: stop "
        "early, add a small constant, scale",
        factor,
        facts.flops / seen.flushed_seconds if facts.flops else None,
        {"seconds": seen.seconds, "seconds with denormals flushed": seen.flushed_seconds},
    )


def page_faults(facts: Facts) -> Iterator[Finding]:
    """Pages that the kernel of the system has to provide in every call."""
    faults = facts.page_faults
    if faults is None or facts.seconds is None or faults.seconds_each is None:
        return
    spent = min((faults.minor + faults.major) * faults.seconds_each, facts.seconds)
    after = max(facts.seconds - spent, facts.least_seconds(facts.demand) or 0.0)
    if after and facts.seconds / after < WORTH:
        return
    read = f", {units.count(faults.major)} of them from files or swap space" if faults.major else ""
    yield Finding(
        PAGE_FAULTS,
        "cost",
        f"a call meets {units.count(faults.minor + faults.major)} page faults{read}; at "
        f"{units.seconds(faults.seconds_each)} each here they take {units.percent(spent / facts.seconds)} of "
        "it",
        "allocate once and use the memory again, keep the C library from giving it back "
        "(M_TRIM_THRESHOLD_, M_MMAP_THRESHOLD_), or use huge pages, which fault once for 512 small ones",
        facts.seconds / after if after else None,
        facts.flops / after if facts.flops and after else None,
        {"page faults of a call": faults.minor + faults.major, "seconds of a fault": faults.seconds_each},
    )


def gathers(facts: Facts) -> Iterator[Finding]:
    """Loads and stores through vectors of indices, element by element."""
    mix = None if facts.counted is None else facts.counted.access_mix
    if mix is None or not mix.accesses:
        return
    share = (mix.gathered + mix.scattered) / mix.accesses
    if share < GATHERED_SHARE:
        return
    bytes_share = (mix.gathered_bytes + mix.scattered_bytes) / mix.bytes
    yield Finding(
        GATHERS,
        "note",
        f"{units.percent(share)} of the loads and stores ({units.percent(bytes_share)} of their bytes) are "
        f"elements of gathers and scatters: {units.count(mix.gathered)} and {units.count(mix.scattered)}, "
        "each an access of its own",
        "store what is used together side by side, so that vectors are loaded whole; sort the indices",
        evidence={"gathered": mix.gathered, "scattered": mix.scattered, "accesses": mix.accesses},
    )


RULES = (recurrence, busy, denormals, page_faults, gathers)
