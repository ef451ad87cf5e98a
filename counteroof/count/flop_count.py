"""From executed instructions to FLOPs: the rules applied, by one of the two conventions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .base import FlopClass

if TYPE_CHECKING:
    from ..instrument.engine import Executed
    from ..instrument.flops import FlopRule


BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "x87": 80}
"""Bits of one element, by precision."""


@dataclass(frozen=True)
class FlopCount:
    """FLOPs of one call, summed over instructions; ``hardware_flops`` as the CPU's counters would have it."""

    flops: int
    issued_flops: int
    instructions: int
    by: tuple[FlopClass, ...]
    unruled: tuple[tuple[str, int], ...]
    hardware_flops: int = 0


@dataclass(frozen=True)
class InstructionFlops:
    """FLOPs of all executions of one instruction.

    ``flops`` are those in the total, ``all_flops`` also where the instruction's class is outside of it.
    ``lanes`` are those of one execution, ``active_lanes`` those computed by all; ``None`` without a rule.
    """

    rule: FlopRule | None
    flops: int = 0
    all_flops: int = 0
    lanes: int | None = None
    active_lanes: int | None = None


class Convention:
    """A way of counting FLOPs.

    Parameters
    ----------
    name
        ``arith``: active lanes, FMA two. ``hardware``: what this processor's counters would report.
    cpu
        The processor's name; ``hardware`` depends on the vendor.
    """

    def __init__(self, name: str, cpu: str) -> None:
        self._hardware = name == "hardware"
        amd = "AMD" in cpu.upper() or "EPYC" in cpu.upper()
        self._vendor: Literal["amd", "intel"] = "amd" if amd else "intel"

    def hardware(self, item: Executed, rule: FlopRule) -> int:
        """Return what this processor's counters would report for an executed instruction."""
        return item.times * rule.hardware_flops(self._vendor)

    def of(self, item: Executed) -> InstructionFlops:
        """Return the FLOPs of an executed instruction."""
        from ..instrument.flops import rule_for

        rule = rule_for(item.instruction)
        if rule is None:
            return InstructionFlops(None)
        active = item.times * rule.lanes if item.active_lanes is None else item.active_lanes
        if self._hardware:
            flops = counted = self.hardware(item, rule)
        else:
            flops = active * rule.flops_per_lane
            counted = flops if rule.in_total else 0
        return InstructionFlops(rule, counted, flops, rule.lanes, active)


def count_flops(executed: Iterable[Executed], convention: str, cpu: str) -> FlopCount:
    """Sum the FLOPs of executed instructions.

    Parameters
    ----------
    executed
        From :meth:`Engine.executed`.
    convention, cpu
        As for :class:`Convention`.
    """
    from iced_x86 import Mnemonic

    from ..instrument.flops import is_floating_point

    rules = Convention(convention, cpu)
    names = {value: name for name, value in vars(Mnemonic).items() if isinstance(value, int)}
    by: Counter[tuple[str, int, str, bool]] = Counter()
    unruled: Counter[str] = Counter()
    total = issued = instructions = hardware = 0
    for item in executed:
        instructions += item.times
        counted = rules.of(item)
        rule = counted.rule
        if rule is None:
            if is_floating_point(item.instruction):
                unruled[names.get(item.instruction.mnemonic, "?").lower()] += item.times
            continue
        total += counted.flops
        hardware += rules.hardware(item, rule)
        if rule.in_total:
            issued += item.times * rule.issued_flops
        by[rule.precision, rule.width, rule.op, rule.in_total] += counted.all_flops
    classes = tuple(
        FlopClass(precision, width, op, flops, in_total)
        for (precision, width, op, in_total), flops in sorted(by.items())
        if flops
    )
    return FlopCount(total, issued, instructions, classes, tuple(sorted(unruled.items())), hardware)
