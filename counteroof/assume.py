"""Arguments for a function of which only the signature is known.

The guesses, all of which a spec can replace:

- An integer whose name says that it is a size (``n``, ``len``, ``rows``, ``nx`` ...) is the parameter ``n``.
  One size makes arrays of ``n`` elements; two make ``n**2``, three ``n**3`` (but ``m``, ``n`` and ``k``
  together are a matrix product's: ``n**2``), so that a function that keeps to its sizes stays in its arrays.
- A leading dimension (``lda``) and an end (``stop``) are ``n``; a stride (``incx``) is 1; a start is 0; an
  enumeration is 0; every other integer is 1, every other floating-point number 1.0.
- A pointer is an array. Floating-point arrays and bytes are random; text and wider integers are zeros, as
  they may be strings and indices, and an index of 0 is always inside. ``const`` means that it is only read.
- A pointer to a struct whose members all have one type is an array of such structs.

What cannot be guessed (callbacks, pointers to pointers, other structs) is answered with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .formula import Formula
from .signature import CType, Param, Signature
from .spec import DTYPES, Argument, ArrayArg, Init, KernelSpec, LibrarySpec, ScalarArg

_SIZE = re.compile(
    r"[nmkwh]|len|length|size|count|num|number|rows?|cols?|columns?|width|height|depth|dims?|total|nnz"
    r"|n_?([xyzijkrc]|rows?|cols?|columns?|elem\w*|items?|points?|particles?|bod(y|ies)|atoms?|pixels?|cells?"
    r"|samples?|bytes|channels?|memb|vals?|values?|total|vert\w*|nodes?|contracts?|frames?)"
    r"|num_?\w+|\w+_?(len|length|size|count)|elem\w*|samples|frames|points|pixels|bytes"
)
_REPEATS = re.compile(r"(n|num)?_?(iter\w*|steps?|times?|reps?|repeats?|threads?|sweeps?|loops?)")
_LEADING = re.compile(r"ld[a-z]?|\w*pitch|leading\w*")
_END = re.compile(r"stop|end|last|hi|upper")
_START = re.compile(r"start|begin|first|offset|lo|lower|seed|flags?")

# Default and small value of the size, by number of dimensions: 32 MB in each f64 array, and 80 kB or less.
SIZES = {1: (4_000_000, 10_000), 2: (2000, 64), 3: (160, 16)}
MATRIX_PRODUCT = (500, 48)  # work grows with the cube

_NOT_KERNELS = ("main", "_init", "_fini")
_SYMBOLS = re.compile(r"[A-Za-z_.$][A-Za-z0-9_.$]*")


class NotGuessable(Exception):
    """Why no arguments can be made for a function; the text completes "<function> ..."."""


def guess_kernel(
    signature: Signature, symbol: str, library: LibrarySpec, name: str | None = None
) -> KernelSpec:
    """Return a kernel with guessed arguments and no claim; its name is the symbol unless one is given.

    Raises
    ------
    NotGuessable
        With the reason.
    """
    if symbol in _NOT_KERNELS or not _SYMBOLS.fullmatch(symbol):
        raise NotGuessable("is not a kernel")
    if signature.unsupported:
        raise NotGuessable(f"cannot be called: {signature.unsupported}")
    if signature.returns.kind == "pointer":
        raise NotGuessable("returns a pointer, so each call may allocate memory that nobody frees")
    params = _named(signature.params)
    pointers = [param for param in params if param.type.kind == "pointer"]
    if not pointers:
        raise NotGuessable("takes no arrays")
    if all(_is_text(param.type) for param in pointers):
        raise NotGuessable("takes only text, which may be the name of a file or a command")
    sizes = {param.name for param in params if _is_size(param)}
    # An array and a parameter cannot share a name.
    size = "n"
    while size in {param.name for param in pointers}:
        size += "_"
    product = {name.lower() for name in sizes} == {"m", "n", "k"}
    dimensions = 2 if product else max(1, len(sizes))
    if dimensions not in SIZES:
        listed = ", ".join(param.name for param in params if param.name in sizes)
        raise NotGuessable(f"has {dimensions} sizes ({listed}), and how they shape its arrays is unclear")
    shape = size if dimensions == 1 else f"{size}**{dimensions}"
    default, small = MATRIX_PRODUCT if product else SIZES[dimensions]
    args = tuple(_argument(param, size, shape, bool(sizes), seed) for seed, param in enumerate(params))
    return KernelSpec(
        name=name or symbol,
        library=library,
        symbol=symbol,
        args=args,
        params={size: (default,)},
        small={size: small},
        precision=_precision(signature),
    )


def assumptions(kernel: KernelSpec) -> tuple[str, ...]:
    """Return what was assumed about each argument of a guessed kernel, in words."""
    return tuple(_in_words(arg) for arg in kernel.args)


def _in_words(arg: Argument) -> str:
    match arg:
        case ArrayArg():
            extents = " x ".join(extent.text for extent in arg.shape)
            contents = f"{arg.init.kind}, only read" if arg.access else arg.init.kind
            return f"{arg.name} is an array of {extents} {arg.dtype} ({contents})"
        case ScalarArg():
            return f"{arg.name} = {arg.value.text if isinstance(arg.value, Formula) else arg.value}"
        case _:
            raise TypeError(f"not a guessed argument: {arg}")


def _named(params: Sequence[Param]) -> list[Param]:
    """Give every parameter a name of its own that a spec can write."""
    taken: set[str] = set()
    named = []
    for number, param in enumerate(params):
        name = param.name if re.fullmatch(r"[A-Za-z_]\w*", param.name, re.ASCII) else f"arg{number}"
        name = f"{name}_" if name == "return" else name
        while name in taken:
            name += "_"
        taken.add(name)
        named.append(Param(name, param.type))
    return named


def _is_size(param: Param) -> bool:
    name = param.name.lower().strip("_")
    return (
        param.type.kind == "int"
        and (param.type.size or 0) >= 4
        and not _is_enumeration(param.type)
        and bool(_SIZE.fullmatch(name))
        and not _REPEATS.fullmatch(name)
    )


def _argument(param: Param, size: str, shape: str, sized: bool, seed: int) -> Argument:
    if param.type.kind == "pointer":
        return _array(param, shape, sized, seed)
    if param.type.kind == "float":
        return ScalarArg(param.name, 1.0)
    name = param.name.lower().strip("_")
    if _is_size(param) or _LEADING.fullmatch(name) or _END.fullmatch(name):
        return ScalarArg(param.name, Formula(size))
    return ScalarArg(param.name, 0 if _is_enumeration(param.type) or _START.fullmatch(name) else 1)


def _is_enumeration(ctype: CType) -> bool:
    return ctype.text.removeprefix("const ").startswith("enum")


def _is_text(pointer: CType) -> bool:
    return pointer.pointee is not None and pointer.pointee.text.removeprefix("const ") == "char"


def _array(param: Param, shape: str, sized: bool, seed: int) -> ArrayArg:
    target = param.type.pointee
    if target is None or target.kind == "unknown":
        raise NotGuessable(f"takes {param.name}, a pointer to the unknown type {target or '?'}")
    if target.kind == "function":
        raise NotGuessable(f"takes {param.name}, a callback")
    if target.kind == "pointer":
        raise NotGuessable(f"takes {param.name}, a pointer to pointers")
    extents = [Formula(shape)]
    dtype: str | None = target.dtype
    if target.kind == "void":
        if not sized:
            raise NotGuessable(f"takes {param.name}, a void pointer, and no size")
        dtype = "u8"
    elif target.kind in ("struct", "union"):
        dtype, count = _uniform(target) or (None, 0)
        if dtype is None:
            raise NotGuessable(
                f"takes {param.name}, a pointer to {target}, whose contents only its author knows"
            )
        extents.append(Formula(str(count)))
    elif target.kind == "array":
        extents += [Formula(str(count)) for count in _inner_extents(target)]
    if dtype is None:
        raise NotGuessable(f"takes {param.name}, a pointer to {target}, which no array of a spec can hold")
    random = not _is_text(param.type) and (dtype[0] in "fc" or dtype in ("u8", "i8"))
    init = Init("random", {"seed": seed} if seed else {}) if random else Init("zeros")
    return ArrayArg(param.name, dtype, tuple(extents), init, "read" if _is_const(target) else None)


def _is_const(target: CType) -> bool:
    return target.const or (
        target.kind == "array" and target.pointee is not None and _is_const(target.pointee)
    )


def _inner_extents(target: CType) -> Iterator[int]:
    """Yield the constant inner extents of ``double (*a)[4]``; a pair of floats is one complex number."""
    while target.kind == "array" and target.pointee is not None and not (target.dtype or "").startswith("c"):
        element = target.pointee
        if target.size is None or not element.size:
            raise NotGuessable(f"takes an array of {target}, whose inner extent varies")
        yield target.size // element.size
        target = element


def _uniform(target: CType) -> tuple[str, int] | None:
    """Return dtype and number of the members of a struct if all are alike and nothing lies between them."""
    dtypes = {member.type.dtype for member in target.members if member.type.kind != "array"}
    arrays = any(member.type.kind == "array" for member in target.members)
    if len(dtypes) != 1 or arrays or (dtype := dtypes.pop()) is None:
        return None
    whole = target.size == len(target.members) * DTYPES[dtype][1]
    return (dtype, len(target.members)) if whole else None


def _precision(signature: Signature) -> str | None:
    """Return the one floating-point precision of all arguments, or ``None`` if they mix or have none."""
    found = set()
    for ctype in (signature.returns, *(param.type for param in signature.params)):
        element = ctype.pointee if ctype.kind == "pointer" and ctype.pointee else ctype
        dtype = (_uniform(element) or (None,))[0] if element.kind == "struct" else element.dtype
        if dtype and dtype[0] in "fc" and ctype.kind == "pointer":
            found.add({"c64": "f32", "c128": "f64"}.get(dtype, dtype))
    return found.pop() if len(found) == 1 else None
