"""The result of one call against the reference: a wrong result is never timed."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import KernelFailed

if TYPE_CHECKING:
    import numpy as np

    from .prepare import PreparedCall

    Array = np.ndarray[Any, Any]
    Reference = Callable[[dict[str, Array], dict[str, Any]], Mapping[str, Any]]

RETURNED = "return"
TOLERANCES = {"f16": 1e-2, "bf16": 3e-2, "f32": 1e-4, "c64": 1e-4, "f64": 1e-9, "c128": 1e-9}
"""Relative tolerance where the spec gives none: far above rounding, far below a wrong term."""
CHUNK = 1 << 13
"""Elements compared at a time: what the comparison makes of them stays in the L2 cache and on the heap
(malloc asks the kernel for fresh pages from 128 KiB on, which takes ten times as long)."""
SAMPLE = 10_000
"""Elements from which an array's typical magnitude is taken."""


def load_reference(name: str) -> Reference:
    """Return the function named ``module:function`` or ``/path/file.py:function``.

    Raises
    ------
    KernelFailed
        With kind ``input`` if there is no such function.
    """
    module_name, _, function_name = name.rpartition(":")
    try:
        if module_name.endswith(".py"):
            path = Path(module_name).resolve()
            sys.path.insert(0, str(path.parent))
            module_spec = importlib.util.spec_from_file_location(path.stem, path)
            assert module_spec is not None
            assert module_spec.loader is not None
            module = importlib.util.module_from_spec(module_spec)
            module_spec.loader.exec_module(module)
        else:
            sys.path.append(os.getcwd())
            module = importlib.import_module(module_name)
        function: Any = module
        for part in function_name.split("."):
            function = getattr(function, part)
    except Exception as error:
        raise KernelFailed(
            "input", f"reference {name} cannot be loaded: {type(error).__name__}: {error}"
        ) from None
    if not callable(function):
        raise KernelFailed("input", f"reference {name} is a {type(function).__name__}, not a function")
    return function  # type: ignore[no-any-return]


def expect(prepared: PreparedCall) -> dict[str, Any]:
    """Return what the reference says the arrays hold after one call of the kernel.

    Must be called before the kernel is: the reference is given the arrays themselves, to read only.
    """
    import numpy as np

    spec = prepared.case.spec
    assert spec.reference is not None
    reference = load_reference(spec.reference)
    inputs = {}
    for name, array in prepared.arrays.items():
        inputs[name] = array.view()
        inputs[name].flags.writeable = False
    try:
        results = dict(reference(inputs, dict(prepared.case.params)))
    except Exception as error:
        raise KernelFailed(
            "input", f"reference {spec.reference} failed: {type(error).__name__}: {error}"
        ) from None
    known = [*prepared.arrays, RETURNED]
    unknown = [str(name) for name in results if name not in known]
    if unknown or not results:
        what = f"results for {', '.join(unknown)}" if unknown else "no results"
        raise KernelFailed(
            "input", f"reference {spec.reference} gives {what}; it can give: {', '.join(known)}"
        )
    for name, array in prepared.arrays.items():
        if name not in results:
            continue
        result = np.asarray(results[name])
        if result.shape != array.shape:
            raise KernelFailed(
                "input",
                f"reference {spec.reference} gives {name} the shape {result.shape}; it is {array.shape}",
            )
        # The reference may return its input: that changes when the kernel runs.
        shared = any(np.may_share_memory(result, other) for other in prepared.arrays.values())
        results[name] = result.copy() if shared else result
    return results


def compare(
    expected: Mapping[str, Any],
    arrays: Mapping[str, Array],
    returned: Any,
    rtol: float | None = None,
    precision: str | None = None,
) -> str | None:
    """Describe how the results differ from the expected ones, or return ``None`` if they do not.

    ``returned`` is the function's value, a NumPy scalar of its type. Without ``rtol`` the tolerance is that
    of the element type or of the kernel's ``precision``, whichever is wider.

    An element may differ by ``rtol`` times its expected magnitude, or times the typical magnitude of the
    array if that is larger: where large terms cancel, what is left carries their rounding errors. NaN equals
    NaN only.
    """
    import numpy as np

    differences = []
    for name, wanted in expected.items():
        if name == RETURNED:
            if returned is None:
                raise KernelFailed(
                    "input", "the reference gives a returned value, but the function returns nothing"
                )
            found, wanted = np.asarray(returned), np.asarray(wanted)
            if wanted.size != 1:
                raise KernelFailed(
                    "input", f"the reference gives {wanted.size} returned values; it must be one"
                )
        else:
            found, wanted = arrays[name], np.asarray(wanted)
        allowed = tolerance(found.dtype, precision) if rtol is None else rtol
        difference = _difference(name, wanted, found, allowed)
        if difference:
            differences.append(difference)
    return "; ".join(differences) or None


def tolerance(dtype: Any, precision: str | None = None) -> float:
    """Return the relative tolerance for an element type where the spec gives none; integers must be equal."""
    if dtype.kind not in "fc":
        return 0.0
    return max(TOLERANCES[f"{dtype.kind}{dtype.itemsize * 8}"], TOLERANCES.get(precision or "", 0.0))


def _difference(name: str, wanted: Array, found: Array, allowed: float) -> str | None:
    import numpy as np

    shape = found.shape
    wanted, found = wanted.reshape(-1), found.reshape(-1)
    if found.dtype.kind not in "fc":
        allowed = 0.0
    typical = _typical(wanted) if allowed else 0.0
    count, first = 0, -1
    for start in range(0, found.size, CHUNK):
        wrong = _wrong(wanted[start : start + CHUNK], found[start : start + CHUNK], allowed, typical)
        number = int(np.count_nonzero(wrong))
        if number and first < 0:
            first = start + int(np.argmax(wrong))
        count += number
    if not count:
        return None
    what = f"expected {wanted[first]!s}, found {found[first]!s}" + (f" (rtol {allowed:g})" if allowed else "")
    if name == RETURNED:
        return f"the returned value: {what}"
    index = ", ".join(str(int(i)) for i in np.unravel_index(first, shape))
    return f"{name}: {count} of {found.size} elements differ, the first at [{index}]: {what}"


def _wrong(wanted: Array, found: Array, allowed: float, typical: float) -> Array:
    import numpy as np

    if not allowed:
        return np.asarray((wanted != found) & ~(_nan(wanted) & _nan(found)))
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    wanted, found = wanted.astype(wide, copy=False), found.astype(wide, copy=False)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(found - wanted)
        if error.max() <= allowed * typical:  # what every element may differ by: the usual case, quickly
            return np.zeros(found.shape, bool)
        slack = allowed * np.maximum(np.abs(wanted), typical)
        wrong = ~(error <= slack)
    if not np.isfinite(slack).all():
        # An infinite expectation would allow anything: it must be met exactly.
        wrong = np.where(np.isinf(wanted), wanted != found, wrong) & ~(_nan(wanted) & _nan(found))
    return np.asarray(wrong)


def _nan(values: Array) -> Any:
    import numpy as np

    return np.isnan(values) if values.dtype.kind in "fc" else False


def _typical(values: Array) -> float:
    """Return the median magnitude of the elements that are neither zero nor infinite nor NaN."""
    import numpy as np

    sample = np.abs(values[:: max(1, values.size // SAMPLE)].astype(np.complex128))
    sample = sample[np.isfinite(sample) & (sample > 0)]
    return float(np.median(sample)) if sample.size else 0.0
