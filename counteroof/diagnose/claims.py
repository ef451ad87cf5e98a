"""Findings about claims: FLOPs and bytes that were declared otherwise than they are, with what fits."""

from __future__ import annotations

from collections.abc import Iterator

from .. import units
from ..reconcile import STAYED
from . import fits
from .base import LINES_OFF, Facts, Finding, Size

FLOPS_OFF = 0.01
"""By more than this share FLOPs are declared wrong: less is the ends of loops, which no one declares."""

BYTES_OFF = 0.05
"""By more than this share bytes are."""

FLOPS = "declared FLOPs"
BYTES = "declared bytes"
RESIDENT = "stays in cache"


def declared_flops(facts: Facts) -> Iterator[Finding]:
    """FLOPs declared otherwise than executed, with the formula that gives those executed."""
    declared, executed = facts.declared_flops, facts.flops
    if declared is None or executed is None or abs(executed - declared) <= FLOPS_OFF * declared:
        return
    fit = flops_fit(facts)
    formula = f" ({facts.flops_formula})" if facts.flops_formula else ""
    said = f"{units.count(declared)} FLOPs declared{formula}, {units.count(executed)} executed"
    if declared:
        said += f", {units.ratio(executed / declared)} times as many"
    evidence: dict[str, float | int | str] = {"FLOPs declared": declared, "FLOPs executed": executed}
    if fit is not None:
        evidence["formula that fits"] = fit.text
        said += f": {fit.words}"
    advice = (
        f'declare flops = "{fit.text}"' if fit is not None else "count what the loops do, or declare none"
    )
    yield Finding(FLOPS, "claim", said, advice, evidence=evidence)


def flops_fit(facts: Facts) -> fits.Fit | None:
    """Return the formula after the shape of the claim that fits the executed FLOPs."""
    if facts.flops_formula is None or not facts.flops:
        return None
    return fits.flops_fit(facts.flops_formula, (Size(facts.params, facts.flops), *facts.other_sizes))


def declared_bytes(facts: Facts) -> Iterator[Finding]:
    """Bytes declared otherwise than moved, with the formula of the arrays that gives those moved."""
    declared, moved = facts.declared_bytes, facts.bytes.value if facts.bytes is not None else None
    if declared is None or not moved or facts.in_cache or _stays(facts):
        return
    if abs(moved - declared) <= BYTES_OFF * declared + LINES_OFF:
        return
    fit = fits.bytes_fit(facts, moved)
    formula = f" ({facts.bytes_formula})" if facts.bytes_formula else ""
    said = f"{units.byte_count(declared)} declared{formula}, {units.byte_count(moved)} moved"
    if declared:
        said += f", {units.ratio(moved / declared)} times as many"
    evidence: dict[str, float | int | str] = {"bytes declared": declared, "bytes moved": moved}
    if fit is not None:
        parts = ", ".join(f"{name} {_said(often)}" for name, often in _times(facts).items())
        evidence["formula that fits"] = fit.text
        said += f": {fit.words} ({parts})"
    advice = "see the ledger for what moves besides"
    if fit is not None:
        # what depends on how much a cache keeps is no formula of the size alone
        whole = all(abs(round(often) - often) <= 0.05 for often in _times(facts).values())
        advice = f'declare bytes = "{fit.text}"' + ("" if whole else ", for this size and these caches")
    yield Finding(BYTES, "claim", said, advice, evidence=evidence)


def stays_in_cache(facts: Facts) -> Iterator[Finding]:
    """A working set that stays in a cache from call to call, where the claim has it come from memory."""
    declared, moved = facts.declared_bytes, facts.bytes.value if facts.bytes is not None else None
    if not declared or declared <= LINES_OFF or moved is None or not (facts.in_cache or _stays(facts)):
        return
    touched = _touched(facts)
    if not touched or moved > declared / 2:
        return
    holding = next((one.name for one in facts.caches if one.bytes >= touched), None)
    if holding is None and facts.caches:
        holding = f"the caches ({units.binary_bytes(facts.last_bytes)} together)"
    formula = f" ({facts.bytes_formula})" if facts.bytes_formula else ""
    twice = units.binary_bytes(2 * facts.last_bytes)
    yield Finding(
        RESIDENT,
        "claim",
        f"{units.byte_count(declared)} declared{formula}, but {units.byte_count(moved)} cross to memory: the "
        f"{units.byte_count(touched)} that the kernel touches stay in {holding} from call to call",
        f'if its data come from memory in use, run it on more than {twice} or with cache = "cold"; if not, '
        "hold it against the roof of that cache",
        evidence={"bytes declared": declared, "bytes moved": moved, "bytes touched": touched},
    )


def _times(facts: Facts) -> dict[str, float]:
    """Return how often each array moved, of those that did."""
    moved = {one.name: one.dram_read_bytes + one.dram_write_bytes for one in facts.arrays}
    return {one.name: moved[one.name] / one.bytes for one in facts.arrays if one.bytes and moved[one.name]}


def _said(often: float) -> str:
    """Return a number of times in words."""
    return {"1": "once", "2": "twice"}.get(text := f"{often:.3g}", f"{text} times")


def _touched(facts: Facts) -> int:
    return sum(one.touched_bytes or 0 for one in facts.arrays)


def _stays(facts: Facts) -> bool:
    """Return whether most of the lines touched never reach memory."""
    stayed = -sum(facts.causes(STAYED).values())
    touched = sum((one.touched_read_bytes or 0) + (one.touched_write_bytes or 0) for one in facts.arrays)
    return stayed > touched / 2 > 0


RULES = (declared_flops, declared_bytes, stays_in_cache)
