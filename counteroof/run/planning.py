"""A case and its signatures to a plan: every formula evaluated, every argument worked out.

This is done once, in the parent.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

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
            if made.returns == "none":
                raise KernelFailed(
                    "input", f"set-up call {call.symbol} returns nothing, but is to give {call.result!r}"
                )
            results[call.result] = made.returns
    kernel = CallMaker(case, signatures[-1], dtypes, results, blocks).call(spec.symbol, spec.args)
    return Plan(
        case.label,
        library,
        tuple(_array_plan(array, case) for array in spec.arrays),
        tuple(blocks),
        tuple(setup),
        kernel,
        spec.cache == "cold",
    )


def _array_plan(array: ArrayArg, case: KernelCase) -> ArrayPlan:
    fill = _fill(array, array.init.kind, array.init.values(case.params))
    shape = array.shape_at(case.params)
    return ArrayPlan(
        array.name, array.dtype, shape, array.bytes_at(case.params), array.align, array.access, fill
    )


def _fill(array: ArrayArg, kind: str, options: Mapping[str, object]) -> Fill:
    def number(key: str, default: float) -> float:
        value = options[key]
        return value if isinstance(value, int | float) else default

    # The name is part of the seed, so that two arrays of one kernel differ without a word in the spec.
    seed = (zlib.crc32(array.name.encode()) << 32) + int(number("seed", 0)) if "seed" in options else 0
    seed %= 1 << 64
    whole = array.dtype[0] in "iu"
    if kind == "zeros":
        return Fill("RUN_FILL_CONSTANT")
    if kind == "constant":
        return Fill(
            "RUN_FILL_CONSTANT", first=_whole(array, number("value", 0)), real_only=array.dtype[0] == "c"
        )
    if kind == "arange":
        first, step = _whole(array, number("start", 0)), _whole(array, number("step", 1))
        return Fill("RUN_FILL_ARANGE", first=first, step=step, real_only=array.dtype[0] == "c")
    if kind == "random" and whole:
        bits = int(array.dtype[1:])
        low, high = number("low", 0), number("high", min(1 << (bits - 2), 1 << 30))
        return Fill("RUN_FILL_RANDOM", seed, first=_whole(array, low), last=_whole(array, high - 1))
    if kind == "random":
        return Fill("RUN_FILL_RANDOM", seed, first=number("low", 0), last=number("high", 1))
    if kind == "permutation":
        return Fill("RUN_FILL_PERMUTATION", seed)
    per_row = int(number("nnz_per_row", 0))
    if kind == "csr_indptr":
        return Fill("RUN_FILL_INDPTR", per_row=per_row)
    if kind == "csr_indices":
        return Fill("RUN_FILL_INDICES", seed, per_row=per_row, columns=int(number("cols", 0)))
    if kind == "file":
        return Fill("file", path=str(options["path"]))
    raise KernelFailed("input", f"array {array.name}: {kind!r} is no known way to fill an array")


def _whole(array: ArrayArg, value: float) -> float:
    """Check that a value fits the array's type: an integer array holds whole numbers of its range."""
    if array.dtype[0] not in "iu":
        return value
    if value != int(value) or not fits(int(value), int(array.dtype[1:]) // 8, array.dtype[0] == "i"):
        raise KernelFailed(
            "input", f"array {array.name}: {value} is not a number that {array.dtype} can hold"
        )
    return int(value)
