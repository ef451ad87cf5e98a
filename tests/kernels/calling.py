"""Calls the built-in kernels directly, through the headers they are compiled with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import cffi
import numpy as np

from counteroof.catalog import kernels
from counteroof.catalog.variant import library_path
from counteroof.spec import DTYPES, ArrayArg, ArrayRef, KernelCase, KernelSpec, ScalarArg

HEADERS = sorted((Path(__file__).parents[2] / "csrc" / "kernels").glob("*.h"))

ffi = cffi.FFI()
for header in HEADERS:
    ffi.cdef(header.read_text())


@dataclass
class Call:
    """One kernel on arrays of its own; ``initial`` keeps them as they were before the first call."""

    case: KernelCase
    initial: dict[str, np.ndarray]
    arrays: dict[str, np.ndarray]
    library: Any
    arguments: tuple[Any, ...]

    def __call__(self) -> Any:
        return getattr(self.library, self.case.spec.symbol)(*self.arguments)

    def expected(self) -> dict[str, Any]:
        """What the reference says one call leaves behind."""
        module, _, function = self.case.spec.reference.partition(":")
        return getattr(import_module(module), function)(self.initial, self.case.params)


@cache
def load(level: str | None = None) -> Any:
    return ffi.dlopen(str(library_path(level)))


def spec(name: str) -> KernelSpec:
    return next(kernel for kernel in kernels() if kernel.name == name)


def case(name: str, **params: int) -> KernelCase:
    """The kernel at its small size, with some parameters replaced."""
    return spec(name).cases("small", params)[0]


def prepare(case: KernelCase, level: str | None = None) -> Call:
    library = load(level)
    arrays = {array.name: fill(array, case) for array in case.spec.arrays}
    for call in case.spec.setup:
        getattr(library, call.symbol)(*(argument(arg, arrays, case) for arg in call.args))
    initial = {name: array.copy() for name, array in arrays.items()}
    arguments = tuple(argument(arg, arrays, case) for arg in case.spec.args)
    return Call(case, initial, arrays, library, arguments)


def argument(arg: Any, arrays: dict[str, np.ndarray], case: KernelCase) -> Any:
    if isinstance(arg, ArrayArg | ArrayRef):
        array = arrays[arg.array if isinstance(arg, ArrayRef) else arg.name]
        return ffi.from_buffer(f"{C_TYPES[array.dtype.name]}[]", array)
    assert isinstance(arg, ScalarArg)
    return arg.value_at(case.params)


C_TYPES = {"float32": "float", "float64": "double", "int32": "int32_t"}


def fill(array: ArrayArg, case: KernelCase) -> np.ndarray:
    """Contents of the kinds that built-in kernels use."""
    shape, dtype = array.shape_at(case.params), np.dtype(DTYPES[array.dtype][0])
    options = array.init.values(case.params)
    rng = np.random.default_rng(options.get("seed"))
    match array.init.kind:
        case "zeros":
            return np.zeros(shape, dtype)
        case "random":
            low, high = options["low"] or 0, 1 if options["high"] is None else options["high"]
            return rng.random(shape, dtype) * dtype.type(high - low) + dtype.type(low)
        case "permutation":
            return rng.permutation(shape[0]).astype(dtype)
        case "csr_indptr":
            return (np.arange(shape[0]) * options["nnz_per_row"]).astype(dtype)
        case "csr_indices":
            columns = rng.random((options["rows"], options["cols"])).argsort(axis=1)
            return np.sort(columns[:, : options["nnz_per_row"]], axis=1).astype(dtype).ravel()
        case kind:
            raise NotImplementedError(kind)


def mistakes(call: Call, returned: Any, expected: dict[str, Any]) -> list[str]:
    """The results that are not the expected ones.

    An element may be off by the tolerance times its own or the typical magnitude, whichever is larger.
    """
    rtol = call.case.spec.rtol or {"f32": 1e-5, "f64": 1e-12}[call.case.spec.precision]
    wrong = []
    for name, wanted in expected.items():
        found = np.asarray(returned if name == "return" else call.arrays[name], np.float64)
        wanted = np.asarray(wanted, np.float64)
        assert found.shape == wanted.shape
        allowed = rtol * np.maximum(np.abs(wanted), np.median(np.abs(wanted)))
        if not (np.abs(found - wanted) <= allowed).all():
            wrong.append(name)
    return wrong
