"""What a spec must mean to be usable: every rule of the claims, be they from TOML or from Python."""

from __future__ import annotations

import keyword
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from .errors import Problem, SpecError
from .formula import FUNCTIONS, Formula, Number
from .spec import (
    ACCESSES,
    CACHES,
    DTYPES,
    INITS,
    MAX_CASES,
    PRECISIONS,
    REQUIRED,
    Argument,
    ArrayArg,
    ArrayRef,
    KernelSpec,
    ResultArg,
    ScalarArg,
    StructArg,
)
from .spec_sizes import case_problems, memory_bytes
from .wording import one_of, show, suggest

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KERNEL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+:-]{0,99}")
_SYMBOL = re.compile(r"[A-Za-z_.$][A-Za-z0-9_.$@]*")
_REFERENCE = re.compile(r"[^:\n]+:[A-Za-z_][A-Za-z0-9_.]*")


def all_problems(
    kernel: KernelSpec,
    where: str,
    *,
    values: bool = True,
    check_memory: bool = True,
) -> list[Problem]:
    """Return everything wrong with one kernel; ``where`` begins each problem's place.

    ``values=False`` leaves out what depends on the parameters' values. Memory is checked at the default size.
    """
    problems = list(_kernel_problems(kernel, where))
    sizes_are_wrong = any(
        problem.where.startswith((f"{where}.params", f"{where}.small")) for problem in problems
    )
    if sizes_are_wrong or not values:
        return problems
    memory = memory_bytes() if check_memory else None
    problems += case_problems(kernel, kernel.combinations(), where, memory)
    if kernel.small:
        problems += case_problems(kernel, kernel.combinations("small"), where, None)
    return problems


def check_cases(kernel: KernelSpec, sizes: Iterable[Mapping[str, Number]]) -> None:
    """Raise SpecError if a kernel is wrong, or cannot have one of these sizes on this machine."""
    where = f"kernel {kernel.name}"
    problems = list(_kernel_problems(kernel, where)) or case_problems(kernel, sizes, where, memory_bytes())
    if problems:
        raise SpecError(problems)


def duplicate_problems(names: Iterable[str], where: str, what: str) -> list[Problem]:
    """Return a problem for each name that occurs more than once."""
    return [
        Problem(where, f"{count} {what}s named {show(name)}", f"a name of its own for every {what}")
        for name, count in Counter(names).items()
        if count > 1
    ]


def _kernel_problems(kernel: KernelSpec, where: str) -> Iterator[Problem]:
    if not _KERNEL_NAME.fullmatch(kernel.name):
        yield Problem(f"{where}.name", show(kernel.name), "1 to 100 letters, digits and _ . + - :")
    if not _SYMBOL.fullmatch(kernel.symbol):
        yield Problem(f"{where}.symbol", show(kernel.symbol), "the name of an exported function")
    yield from _library_problems(kernel, where)
    yield from _signature_problems(kernel.signature, kernel.symbol, len(kernel.args), where)
    yield from _param_problems(kernel, where)
    for key, value, choices in (
        ("precision", kernel.precision, PRECISIONS),
        ("cache", kernel.cache, CACHES),
    ):
        if value is not None and value not in choices:
            yield Problem(f"{where}.{key}", show(value) + suggest(value, choices), one_of(choices))
    if not 1 <= kernel.threads <= 4096:
        yield Problem(f"{where}.threads", show(kernel.threads), "a number of threads from 1 to 4096")
    if kernel.time_limit is not None and not 0 < kernel.time_limit < math.inf:
        yield Problem(f"{where}.time_limit", show(kernel.time_limit), "a positive number of seconds")
    if kernel.rtol is not None and not 0 <= kernel.rtol < 1:
        yield Problem(f"{where}.rtol", show(kernel.rtol), "a relative tolerance from 0 to below 1")
    if kernel.reference is not None and not _REFERENCE.fullmatch(kernel.reference):
        yield Problem(f"{where}.reference", show(kernel.reference), "'module:function' or 'file.py:function'")
    for name, text in kernel.env.items():
        if not name or "=" in name or "\0" in name + text:
            yield Problem(f"{where}.env", show(name), "names of environment variables, without = and NUL")
    yield from _argument_problems(kernel, where)
    for formula, key in ((kernel.declared.flops, "flops"), (kernel.declared.bytes, "bytes")):
        if formula is not None:
            yield from _unknown_names(formula, kernel, f"{where}.declared.{key}")


def _library_problems(kernel: KernelSpec, where: str) -> Iterator[Problem]:
    library = kernel.library
    if library.path is not None and library.sources:
        yield Problem(f"{where}.library", "both path and sources", "one of them")
    if library.path is None and not library.sources:
        yield Problem(f"{where}.library", "neither path nor sources", "one of them")
    if library.path is not None and (library.cflags or library.ldflags):
        yield Problem(f"{where}.library", "cflags or ldflags beside path", "flags only beside sources")


def _signature_problems(signature: str | None, symbol: str, args: int, where: str) -> Iterator[Problem]:
    """Compare the shape of a prototype with the arguments; its types are read when the library is."""
    if signature is None:
        return
    place = f"{where}.signature"
    match = re.fullmatch(r"([^()]*?)([A-Za-z_]\w*)\s*\((.*)\)\s*;?\s*", signature, re.DOTALL)
    if not match or not match[1].strip():
        yield Problem(place, show(signature), f"a C prototype such as 'void {symbol}(double *a, size_t n)'")
        return
    if match[2] != symbol:
        yield Problem(place, f"a prototype of {match[2]!r}", f"one of {symbol!r}, the symbol")
    depth, count, inside = 0, 1, match[3].strip()
    for character in inside:
        depth += {"(": 1, ")": -1}.get(character, 0)
        count += character == "," and depth == 0
    if inside in ("", "void"):
        count = 0
    if count != args and "..." not in inside:
        yield Problem(place, f"{count} parameters in {show(signature)}", f"{args}, as many as there are args")


def _param_problems(kernel: KernelSpec, where: str) -> Iterator[Problem]:
    for name in kernel.params:
        if not _IDENTIFIER.fullmatch(name) or keyword.iskeyword(name) or name in FUNCTIONS:
            expected = f"a name formulas can use (no Python keyword, not {', '.join(FUNCTIONS)})"
            yield Problem(f"{where}.params", show(name), expected)
    unknown = [name for name in kernel.small if name not in kernel.params]
    for name in unknown:
        found = f"unknown parameter {name!r}{suggest(name, kernel.params)}"
        yield Problem(f"{where}.small", found, one_of(kernel.params))
    for table, values in (("params", kernel.params), ("small", {k: (v,) for k, v in kernel.small.items()})):
        for name, choices in values.items():
            yield from _choice_problems(choices, f"{where}.{table}.{name}")
    if math.prod(len(choices) for choices in kernel.params.values()) > MAX_CASES:
        found = f"{math.prod(len(choices) for choices in kernel.params.values())} combinations of values"
        yield Problem(f"{where}.params", found, f"at most {MAX_CASES}")


def _choice_problems(choices: tuple[Number, ...], place: str) -> Iterator[Problem]:
    if not choices:
        yield Problem(place, "no value", "a number or a list of numbers")
    if len(set(choices)) < len(choices):
        yield Problem(place, f"{show(list(choices))} with a value twice", "values that all differ")
    for value in choices:
        if not abs(value) < 2**63:
            yield Problem(place, show(value), "finite numbers below 2**63")


def _argument_problems(kernel: KernelSpec, where: str) -> Iterator[Problem]:
    arrays = {array.name for array in kernel.arrays}
    yield from duplicate_problems((arg.name for arg in kernel.args), f"{where}.args", "argument")
    yield from duplicate_problems((array.name for array in kernel.arrays), where, "array")
    for name in sorted(arrays & kernel.params.keys()):
        yield Problem(
            where, f"{name!r} as both array and parameter", "different names for arrays and parameters"
        )
    results: set[str] = set()
    for number, call in enumerate(kernel.setup, start=1):
        place = f"{where}.setup {number} ({call.symbol})"
        if not _SYMBOL.fullmatch(call.symbol):
            yield Problem(f"{place}.symbol", show(call.symbol), "the name of an exported function")
        yield from _signature_problems(call.signature, call.symbol, len(call.args), place)
        for arg in call.args:
            if isinstance(arg, ArrayArg):
                expected = "the name of one of the kernel's arrays or buffers"
                yield Problem(f"{place}.args.{arg.name}", "an array made here", expected)
            yield from _one_argument(arg, kernel, arrays, results, f"{place}.args.{arg.name}")
        if call.result is not None and call.result in results:
            yield Problem(f"{place}.result", f"{call.result!r} again", "a name of its own for every result")
        results |= {call.result} if call.result is not None else set()
    for arg in kernel.args:
        yield from _one_argument(arg, kernel, arrays, results, f"{where}.args.{arg.name}")
    for array in kernel.buffers:
        yield from _one_argument(array, kernel, arrays, results, f"{where}.buffers.{array.name}")


def _one_argument(
    arg: Argument, kernel: KernelSpec, arrays: set[str], results: set[str], place: str
) -> Iterator[Problem]:
    if not _IDENTIFIER.fullmatch(arg.name) or arg.name == "return":
        yield Problem(place, show(arg.name), "a C identifier other than 'return'")
    match arg:
        case ArrayArg():
            yield from _array_problems(arg, kernel, place)
        case ArrayRef(array=name) if name not in arrays:
            yield Problem(place, f"unknown array {name!r}{suggest(name, arrays)}", one_of(arrays))
        case ResultArg(setup=name) if name not in results:
            found = f"unknown result {name!r}{suggest(name, results)}"
            yield Problem(place, found, f"the result of an earlier set-up call: {one_of(results)}")
        case ScalarArg(value=value):
            yield from _value_problems(value, kernel, place)
        case StructArg(fields=fields):
            if not fields:
                yield Problem(place, "a struct without fields", "at least one field")
            yield from duplicate_problems((field.name for field in fields), place, "field")
            for field in fields:
                yield from _dtype_problems(field.dtype, f"{place}.{field.name}.dtype")
                yield from _value_problems(field.value, kernel, f"{place}.{field.name}.value")
        case _:
            pass


def _array_problems(array: ArrayArg, kernel: KernelSpec, place: str) -> Iterator[Problem]:
    yield from _dtype_problems(array.dtype, f"{place}.dtype")
    if not 1 <= len(array.shape) <= 8:
        yield Problem(f"{place}.shape", f"{len(array.shape)} extents", "1 to 8")
    for extent in array.shape:
        yield from _unknown_names(extent, kernel, f"{place}.shape")
    if array.access is not None and array.access not in ACCESSES:
        found = show(array.access) + suggest(array.access, ACCESSES)
        yield Problem(f"{place}.access", found, one_of(ACCESSES))
    if not 1 <= array.align <= 2**21 or array.align & (array.align - 1):
        yield Problem(f"{place}.align", show(array.align), "a power of two from 1 to 2097152")
    kind, options = array.init.kind, array.init.options
    if kind not in INITS:
        yield Problem(f"{place}.init", show(kind) + suggest(kind, INITS), one_of(INITS))
        return
    known = INITS[kind]
    for key, value in options.items():
        if key not in known:
            found = f"unknown option {key!r}{suggest(key, known)}"
            yield Problem(f"{place}.init", found, one_of(known))
        elif key != "path" and not isinstance(value, str):
            yield from _value_problems(value, kernel, f"{place}.init.{key}")
        elif key != "path" or not isinstance(value, str):
            yield Problem(
                f"{place}.init.{key}", show(value), "a path" if key == "path" else "a number or formula"
            )
    for key in (key for key, default in known.items() if default is REQUIRED and key not in options):
        yield Problem(f"{place}.init", f"{kind} without {key!r}", f"the option {key!r}")
    if (
        kind in ("csr_indptr", "csr_indices", "permutation")
        and array.dtype in DTYPES
        and array.dtype[0] not in "iu"
    ):
        yield Problem(f"{place}.dtype", show(array.dtype), f"an integer type, as {kind} needs")


def _dtype_problems(dtype: str, place: str) -> Iterator[Problem]:
    if dtype not in DTYPES:
        numpy_names = {numpy: name for name, (numpy, _) in DTYPES.items()} | {"float": "f32", "double": "f64"}
        hint = f" (did you mean {numpy_names[dtype]!r}?)" if dtype in numpy_names else suggest(dtype, DTYPES)
        yield Problem(place, show(dtype) + hint, one_of(DTYPES))


def _value_problems(value: Formula | Number, kernel: KernelSpec, place: str) -> Iterator[Problem]:
    if isinstance(value, Formula):
        yield from _unknown_names(value, kernel, place)
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        yield Problem(place, show(value), "a number that fits in 64 bits")


def _unknown_names(formula: Formula, kernel: KernelSpec, place: str) -> Iterator[Problem]:
    for name in sorted(formula.names - kernel.params.keys()):
        found = f"unknown parameter {name!r}{suggest(name, kernel.params)} in {show(formula.text)}"
        yield Problem(place, found, f"a formula in the parameters: {one_of(kernel.params)}")
