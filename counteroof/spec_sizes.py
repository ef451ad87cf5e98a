"""What a spec must mean at one size: whole, positive shapes that fit into memory, formulas with a value."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from .errors import FormulaError, Problem
from .formula import Formula, Number
from .spec import DTYPES, INITS, REQUIRED, ArrayArg, KernelSpec, ScalarArg, StructArg
from .wording import show


def case_problems(
    kernel: KernelSpec, sizes: Iterable[Mapping[str, Number]], where: str, memory: int | None
) -> list[Problem]:
    """Return what is wrong at these sizes, one problem a place; ``memory`` is the most arrays may take.

    What is wrong at every size, such as an unknown dtype, is passed over: ``spec_check`` reports it.
    """
    problems: dict[str, Problem] = {}
    for params in sizes:
        for problem in (
            *_array_problems(kernel, params, where, memory),
            *_scalar_problems(kernel, params, where),
            *_declared_problems(kernel, params, where),
        ):
            problems.setdefault(problem.where, problem)
    return list(problems.values())


def memory_bytes() -> int | None:
    """Return the memory this process may use: the machine's, or its control group's if that is lower."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            total = min(total, int(Path("/sys/fs/cgroup", name).read_text()))
        except (OSError, ValueError):
            continue  # no such control group, or "max"
    return total


def _array_problems(
    kernel: KernelSpec, params: Mapping[str, Number], where: str, memory: int | None
) -> Iterator[Problem]:
    needed = 0
    for array in kernel.arrays:
        place = f"{where}.{'buffers' if array in kernel.buffers else 'args'}.{array.name}"
        if array.dtype not in DTYPES or not all(_usable(extent, params) for extent in array.shape):
            continue
        try:
            needed += array.bytes_at(params)
        except FormulaError as error:
            yield Problem(f"{place}.shape", str(error), "whole, positive extents")
        else:
            yield from _init_problems(array, params, f"{place}.init")
    if memory is not None and needed > memory:
        found = f"arrays of {needed} bytes for {_values(params)}"
        yield Problem(f"{where}.args", found, f"at most this machine's memory of {memory} bytes")


def _scalar_problems(kernel: KernelSpec, params: Mapping[str, Number], where: str) -> Iterator[Problem]:
    groups = [(f"{where}.args", kernel.args)]
    groups += [(f"{where}.setup {i} ({c.symbol}).args", c.args) for i, c in enumerate(kernel.setup, start=1)]
    for group, args in groups:
        for arg in args:
            if isinstance(arg, ScalarArg) and _usable(arg.value, params):
                yield from _valueless(f"{group}.{arg.name}", partial(arg.value_at, params))
            for field in arg.fields if isinstance(arg, StructArg) else ():
                if _usable(field.value, params):
                    yield from _valueless(f"{group}.{arg.name}.{field.name}", partial(field.value_at, params))


def _declared_problems(kernel: KernelSpec, params: Mapping[str, Number], where: str) -> Iterator[Problem]:
    for formula, key in ((kernel.declared.flops, "flops"), (kernel.declared.bytes, "bytes")):
        if formula is None or not _usable(formula, params):
            continue
        problems = list(_valueless(f"{where}.declared.{key}", partial(formula.evaluate, params)))
        yield from problems
        if not problems and (value := formula.evaluate(params)) < 0:
            found = f"{value} for {_values(params)}"
            yield Problem(f"{where}.declared.{key}", found, "a number that is not negative")


def _valueless(place: str, compute: Callable[[], Number]) -> Iterator[Problem]:
    try:
        compute()
    except FormulaError as error:
        yield Problem(place, str(error), "a formula with a value")


def _usable(value: Formula | Number, params: Mapping[str, Number]) -> bool:
    """Return whether a formula has all its parameters; one that has not is reported elsewhere."""
    return not isinstance(value, Formula) or value.names <= params.keys()


def _init_problems(array: ArrayArg, params: Mapping[str, Number], place: str) -> Iterator[Problem]:
    init = array.init
    known = INITS.get(init.kind)
    if known is None or any(option not in known for option in init.options):
        return  # reported already, like the two below
    if any(default is REQUIRED and key not in init.options for key, default in known.items()):
        return
    if not all(isinstance(option, str) or _usable(option, params) for option in init.options.values()):
        return
    try:
        values = init.values(params)
    except FormulaError as error:
        yield Problem(place, str(error), "options with a value")
        return
    for key in ("seed", "rows", "cols", "nnz_per_row"):
        if key in values and not (values[key] == int(values[key]) and 0 <= values[key] < 2**63):
            yield Problem(f"{place}.{key}", show(values[key]), "a whole number that is not negative")
            return
    if (
        init.kind == "random"
        and None not in (values["low"], values["high"])
        and values["low"] >= values["high"]
    ):
        yield Problem(place, f"low {values['low']}, high {values['high']}", "low below high")
    if init.kind in ("csr_indptr", "csr_indices"):
        elements = math.prod(array.shape_at(params))
        indptr = init.kind == "csr_indptr"
        needed = values["rows"] + 1 if indptr else values["rows"] * values["nnz_per_row"]
        if elements != needed:
            rule = "rows + 1" if indptr else "rows * nnz_per_row"
            yield Problem(place, f"{init.kind} for {elements} elements", f"{rule} = {needed} elements")
        if not indptr and values["nnz_per_row"] > values["cols"]:
            found = f"nnz_per_row {values['nnz_per_row']} with cols {values['cols']}"
            yield Problem(place, found, "at most cols entries a row")


def _values(params: Mapping[str, Number]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in params.items()) or "no parameters"
