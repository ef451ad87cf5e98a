"""Numbers too small for full precision: whether a call came across any, and what they cost it.

The processor notes them in MXCSR; the flags stay until they are cleared, which is done right before a call.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from .base import Denormals

if TYPE_CHECKING:
    from ..run.prepare import PreparedCall

OPERAND, UNDERFLOW, OPERANDS_FLUSHED, RESULTS_FLUSHED = 0x2, 0x10, 0x40, 0x8000
"""Bits of MXCSR: the flags DE and UE, the modes DAZ and FTZ (Intel SDM volume 1, 10.2.3)."""
SHORT = 0.2
"""Seconds of a call up to which it is repeated to see what denormals cost."""


def flagged_call(prepared: PreparedCall, set_bits: int = 0) -> tuple[tuple[int, float], float, int]:
    """Call natively; return the result, the seconds, and MXCSR with the flags of that call.

    ``set_bits`` are bits of MXCSR that are set for the call.
    """
    from ..native import ffi, lib

    float_result, mxcsr = ffi.new("double *"), ffi.new("uint32_t *")
    start = time.perf_counter()
    result = lib.run_call_flagged(prepared.function, prepared.frame, float_result, set_bits, mxcsr)
    return (result, float_result[0]), time.perf_counter() - start, mxcsr[0]


def denormals(prepared: PreparedCall, mxcsr: int, seconds: float) -> Denormals:
    """Return what MXCSR after a call tells, and if there were any the time with them and with all flushed."""
    operands, results = bool(mxcsr & OPERANDS_FLUSHED), bool(mxcsr & RESULTS_FLUSHED)
    seen = Denormals(bool(mxcsr & OPERAND), bool(mxcsr & UNDERFLOW), operands, results)
    if not (seen.operand or seen.underflow) or (operands and results):
        return seen
    taken: dict[int, list[float]] = {0: [], OPERANDS_FLUSHED | RESULTS_FLUSHED: []}
    for _ in range(3 if seconds < SHORT else 1):
        for bits, times in taken.items():
            prepared.refill()
            times.append(flagged_call(prepared, bits)[1])
    plain, flushed = (min(times) for times in taken.values())
    return replace(seen, seconds=plain, flushed_seconds=flushed)
