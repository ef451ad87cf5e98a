"""A case and its signatures to a plan: every formula evaluated, every argument worked out.

This is done once, in the parent.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import KernelFailed
from .plan import ArrayPlan, Fill, Plan
from .slots import CallMaker, fits

if TYPE_CHECKING:
    from ..signature import Signature
    from ..spec import ArrayArg, KernelCase


def make_plan(case: KernelCase, library: str, signatures: Sequence[Signature]) -> Plan:
    """Work out one case.

    Parameters
    ----------
    case
        The kernel and its parameters.
    library
        Path of the shared library.
    signatures
        Those of the set-up calls, in order, then the kernel's.

    Raises
    ------
    KernelFailed
        With kind ``input`` if the arguments do not go with the signature.
    """
    spec = case.spec
    blocks: list[tuple[str, bytes]] = []
    dtypes = {array.name: array.dtype for array in spec.arrays}
    results: dict[str, str] = {}
    setup = []
    for call, signature in zip(spec.setup, signatures[:-1], strict=True):
        maker = CallMaker(case, signature, dtypes, results, blocks)
        made = maker.call(call.symbol, call.args)._replace(result=call.result)
        setup.append(made)
        if call.result is not None:
            if made.returns == "void":
                raise KernelFailed(
                    "input", f"set-up call {call.symbol} returns nothing, but is to give {call.result!r}"
                )
            results[call.result] = made.returns
    kernel = CallMaker(case, signatures[-1], dtypes, results, blocks).call(spec.symbol, spec.args)
    return Plan(
        case.label,
        library,
        tuple(array_plan(array, case.params) for array in spec.arrays),
        tuple(blocks),
        tuple(setup),
        kernel,
        spec.cache == "cold",
    )


def array_plan(array: ArrayArg, params: Mapping[str, int | float]) -> ArrayPlan:
    """Return an array with its extents and contents as numbers."""
    shape, size = array.shape_at(params), array.bytes_at(params)
    fill = _fill(array, array.init.kind, array.init.values(params), math.prod(shape))
    return ArrayPlan(array.name, array.dtype, shape, size, array.align, array.access, fill)


def _fill(array: ArrayArg, kind: str, options: Mapping[str, Any], count: int) -> Fill:
    """Return the contents of an array of ``count`` elements; every number in it is known to fit its type."""
    # The name is part of the seed, so that two arrays of one kernel differ without a word in the spec.
    seed = ((zlib.crc32(array.name.encode()) << 32) + int(options.get("seed") or 0)) % (1 << 64)
    real_only = array.dtype[0] == "c"
    whole = array.dtype[0] in "iu"
    match kind:
        case "zeros":
            return Fill("RUN_FILL_CONSTANT")
        case "constant":
            return Fill("RUN_FILL_CONSTANT", first=_held(array, options["value"]), real_only=real_only)
        case "arange":
            first, step = options["start"], options["step"]
            _held(array, first + (count - 1) * step)
            return Fill("RUN_FILL_ARANGE", first=_held(array, first), step=step, real_only=real_only)
        case "random":
            low = 0 if options["low"] is None else options["low"]
            high = options["high"]
            if not whole:
                return Fill("RUN_FILL_RANDOM", seed, first=low, last=1 if high is None else high)
            if high is None:
                high = min(1 << (int(array.dtype[1:]) - 2), 1 << 30)
            return Fill("RUN_FILL_RANDOM", seed, first=_held(array, low), last=_held(array, high - 1))
        case "permutation":
            _held(array, count - 1)
            return Fill("RUN_FILL_PERMUTATION", seed)
        case "csr_indptr":
            _held(array, (count - 1) * options["nnz_per_row"])
            return Fill("RUN_FILL_INDPTR", per_row=int(options["nnz_per_row"]))
        case "csr_indices":
            _held(array, options["cols"] - 1)
            per_row, columns = int(options["nnz_per_row"]), int(options["cols"])
            return Fill("RUN_FILL_INDICES", seed, per_row=per_row, columns=columns)
        case "file":
            return Fill("file", path=options["path"])
    raise KernelFailed("input", f"array {array.name}: {kind!r} is no known way to fill an array")


def _held(array: ArrayArg, value: int | float) -> int | float:
    """Return a number that the array is to hold; an integer array holds whole numbers of its range only."""
    if array.dtype[0] not in "iu":
        return value
    if value != int(value) or not fits(int(value), int(array.dtype[1:]) // 8, array.dtype[0] == "i"):
        told = f"{array.dtype} cannot hold {value}, which its {array.init.kind} contents have"
        raise KernelFailed("input", f"array {array.name}: {told}")
    return int(value)
