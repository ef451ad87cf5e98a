"""What a kernel claims: its library, arguments, FLOPs and bytes, as functions of the problem size.

This is the first stage: everything later reads these frozen dataclasses and nothing changes them. A spec
comes from a TOML file (:func:`load`), from the decorator :func:`kernel` on a reference function, or from the
classes::

    KernelSpec(
        name="triad",
        library=LibrarySpec(sources=("triad.c",)),
        symbol="triad",
        params={"n": (20_000_000,)},
        args=(
            array("a", "f64", "n"),
            array("b", "f64", "n", "random"),
            array("c", "f64", "n", "random", seed=1),
            ScalarArg("s", 3.0),
            ScalarArg("n", Formula("n")),
        ),
        declared=Declared(Formula("2*n"), Formula("24*n")),
    )
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from .errors import BadInput, FormulaError
from .formula import Formula, Number

Access = Literal["read", "write", "update"]
Cache = Literal["warm", "cold"]
Size = Literal["default", "small"]

DTYPES: Mapping[str, tuple[str, int]] = {
    "f16": ("float16", 2),
    "f32": ("float32", 4),
    "f64": ("float64", 8),
    "c64": ("complex64", 8),
    "c128": ("complex128", 16),
    "i8": ("int8", 1),
    "i16": ("int16", 2),
    "i32": ("int32", 4),
    "i64": ("int64", 8),
    "u8": ("uint8", 1),
    "u16": ("uint16", 2),
    "u32": ("uint32", 4),
    "u64": ("uint64", 8),
}
"""Element types: NumPy's name and the bytes of one element."""

MAX_CASES = 1000
"""Cases of one kernel; a sweep beyond this is a slip of the pen."""

PRECISIONS = ("f16", "bf16", "f32", "f64")
CACHES = ("warm", "cold")
ACCESSES = ("read", "write", "update")

REQUIRED = object()
"""Marks an option of :data:`INITS` that has no default."""

INITS: Mapping[str, Mapping[str, object]] = {
    "zeros": {},
    # Floats (and both parts of complex numbers) are uniform in [low, high), default [0, 1);
    # integers are uniform in low..high-1, default 0..min(2**(bits-2), 2**30)-1.
    "random": {"low": None, "high": None, "seed": 0},
    "arange": {"start": 0, "step": 1},
    # A random order of 0..size-1.
    "permutation": {"seed": 0},
    "constant": {"value": REQUIRED},
    # Row pointers and sorted column numbers of a random sparse matrix with nnz_per_row entries a row.
    "csr_indptr": {"rows": REQUIRED, "nnz_per_row": REQUIRED, "seed": 0},
    "csr_indices": {"rows": REQUIRED, "cols": REQUIRED, "nnz_per_row": REQUIRED, "seed": 0},
    # Contents of a .npy file; dtype and shape must be the argument's.
    "file": {"path": REQUIRED},
}
"""Ways to fill an array, with their options and defaults; the numbers may be formulas."""


@dataclass(frozen=True)
class Init:
    """How an array is filled before the first call: a kind of :data:`INITS` and its options.

    The same seed gives the same contents on every machine.
    """

    kind: str
    options: Mapping[str, Formula | Number | str] = field(default_factory=dict)

    def values(self, params: Mapping[str, Number]) -> dict[str, Any]:
        """Return every option of this kind for these parameters, defaults filled in, formulas as numbers.

        ``path`` is a text; ``low`` and ``high`` of ``random`` may be ``None`` (defaults depend on the dtype).
        """
        given = {**INITS[self.kind], **self.options}
        return {key: _number(value, params) if key != "path" else value for key, value in given.items()}


@dataclass(frozen=True)
class ArrayArg:
    """A pointer to an array (row-major).

    ``access`` says what the kernel does with it, if the author says so; ``align`` is the alignment of the
    first element in bytes, a power of two.
    """

    name: str
    dtype: str
    shape: tuple[Formula, ...]
    init: Init = Init("zeros")
    access: Access | None = None
    align: int = 64

    def shape_at(self, params: Mapping[str, Number]) -> tuple[int, ...]:
        """Return the extents for these parameters; all are whole and positive."""
        extents = tuple(extent.evaluate_whole(params) for extent in self.shape)
        for extent, formula in zip(extents, self.shape, strict=True):
            if extent <= 0:
                raise FormulaError(f"formula {formula.text!r} is {extent}, not a positive extent")
        return extents

    def bytes_at(self, params: Mapping[str, Number]) -> int:
        """Return the size in bytes for these parameters."""
        size = DTYPES[self.dtype][1]
        for extent in self.shape_at(params):
            size *= extent
        return size


@dataclass(frozen=True)
class ArrayRef:
    """A pointer to an array that another argument or a buffer already made."""

    name: str
    array: str


@dataclass(frozen=True)
class ScalarArg:
    """A number passed by value; the signature says as what C type."""

    name: str
    value: Formula | Number

    def value_at(self, params: Mapping[str, Number]) -> Number:
        """Return the number for these parameters."""
        number: Number = _number(self.value, params)
        return number


@dataclass(frozen=True)
class NullArg:
    """A null pointer."""

    name: str


@dataclass(frozen=True)
class StructField:
    """One scalar member of a struct, in C's order and with C's natural alignment."""

    name: str
    dtype: str
    value: Formula | Number

    def value_at(self, params: Mapping[str, Number]) -> Number:
        """Return the number for these parameters."""
        number: Number = _number(self.value, params)
        return number


@dataclass(frozen=True)
class StructArg:
    """A pointer to a struct of scalars."""

    name: str
    fields: tuple[StructField, ...]


@dataclass(frozen=True)
class ResultArg:
    """The value that a set-up call returned, such as a plan; ``setup`` is that call's ``result``."""

    name: str
    setup: str


Argument = ArrayArg | ArrayRef | ScalarArg | NullArg | StructArg | ResultArg


@dataclass(frozen=True)
class SetupCall:
    """A call made once, before the kernel's first; its arrays are the kernel's (as :class:`ArrayRef`)."""

    symbol: str
    args: tuple[Argument, ...]
    signature: str | None = None
    result: str | None = None
    """Name under which a :class:`ResultArg` finds the returned value."""


@dataclass(frozen=True)
class LibrarySpec:
    """A shared library, or the C sources and flags to build it from; exactly one of ``path`` and ``sources``.

    ``path`` is a file, or a bare name such as ``libm.so.6`` that the dynamic loader finds.
    """

    path: str | None = None
    sources: tuple[str, ...] = ()
    cflags: tuple[str, ...] = ()
    header: str | None = None
    ldflags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Declared:
    """The author's claim about one call; ``source`` says where it was made."""

    flops: Formula | None = None
    bytes: Formula | None = None
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class KernelSpec:
    """One kernel and its claim.

    Attributes
    ----------
    signature
        C prototype; if ``None`` it comes from the library's header or debug information.
    params
        Values of each parameter; several values make a sweep.
    small
        Values at size ``small``, for the parameters that differ.
    args
        In the order of the C function's parameters.
    buffers
        Arrays that are not passed, but used by set-up calls.
    precision
        What the roof is for: one of :data:`PRECISIONS`.
    cache
        ``warm``: each call finds the caches as the last left them; ``cold``: flushed before each call.
    time_limit
        Seconds for everything done with the kernel, or ``None`` for the run's.
    env
        Environment of the worker; an empty value unsets the variable.
    native
        Functions of the library that instrumentation runs natively, uncounted; the results name them.
    reference
        ``module:function`` or ``/path/file.py:function``: called with (arrays as initialised, parameters),
        returns the contents expected after one call by array name, and the returned value as ``return``.
    rtol
        Relative tolerance of the comparison with the reference, or ``None`` for the precision's usual one.
    """

    name: str
    library: LibrarySpec
    symbol: str
    args: tuple[Argument, ...]
    params: Mapping[str, tuple[Number, ...]] = field(default_factory=dict)
    small: Mapping[str, Number] = field(default_factory=dict)
    signature: str | None = None
    buffers: tuple[ArrayArg, ...] = ()
    setup: tuple[SetupCall, ...] = ()
    declared: Declared = Declared()
    precision: str | None = None
    threads: int = 1
    cache: Cache = "warm"
    time_limit: float | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    native: tuple[str, ...] = ()
    reference: str | None = None
    rtol: float | None = None
    family: str | None = None
    title: str | None = None

    @property
    def arrays(self) -> tuple[ArrayArg, ...]:
        """Every array of the kernel: those passed, then the buffers."""
        return (*(arg for arg in self.args if isinstance(arg, ArrayArg)), *self.buffers)

    def cases(
        self, size: Size = "default", overrides: Mapping[str, Number | Sequence[Number]] | None = None
    ) -> tuple[KernelCase, ...]:
        """Return one case for each combination of parameter values.

        Parameters
        ----------
        size
            ``default``, or ``small`` for the values in :attr:`small`.
        overrides
            Values that replace the spec's; a sequence makes a sweep.

        Raises
        ------
        BadInput
            If the kernel has no small size, or an override names none of its parameters; as SpecError if a
            size is impossible (an extent that is not positive, more than this machine's memory ...).
        """
        from .spec_check import check_cases  # its rules need these classes

        sizes = self.combinations(size, overrides)
        check_cases(self, sizes)
        swept = [name for name in self.params if len({params[name] for params in sizes}) > 1]
        labels = (",".join(f"{name}={params[name]}" for name in swept) for params in sizes)
        return tuple(
            KernelCase(self, params, f"{self.name}[{label}]" if label else self.name)
            for params, label in zip(sizes, labels, strict=True)
        )

    def combinations(
        self, size: Size = "default", overrides: Mapping[str, Number | Sequence[Number]] | None = None
    ) -> tuple[dict[str, Number], ...]:
        """Return the parameters of each case; see :meth:`cases`."""
        values = dict(self.params)
        if size == "small":
            if values and not self.small:
                raise BadInput(f"kernel {self.name} has no small size; add small = {{ ... }} to its spec")
            values |= {name: (value,) for name, value in self.small.items()}
        for name, value in (overrides or {}).items():
            if name not in values:
                known = ", ".join(values) or "none"
                raise BadInput(f"kernel {self.name} has no parameter {name!r}; its parameters are: {known}")
            values[name] = tuple(value) if isinstance(value, Sequence) else (value,)
        if (count := math.prod(map(len, values.values()))) > MAX_CASES:
            raise BadInput(
                f"kernel {self.name} has {count} combinations of parameters, {MAX_CASES} are allowed"
            )
        return tuple(dict(zip(values, choice, strict=True)) for choice in itertools.product(*values.values()))


@dataclass(frozen=True)
class KernelCase:
    """One kernel at one size; ``label`` tells the cases of a kernel apart."""

    spec: KernelSpec
    params: Mapping[str, Number]
    label: str = ""

    def __post_init__(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", self.spec.name)

    @property
    def declared_flops(self) -> Number | None:
        """FLOPs of one call as declared, or ``None``."""
        formula = self.spec.declared.flops
        return None if formula is None else formula.evaluate(self.params)

    @property
    def declared_bytes(self) -> Number | None:
        """Bytes of one call as declared, or ``None``."""
        formula = self.spec.declared.bytes
        return None if formula is None else formula.evaluate(self.params)

    @property
    def array_bytes(self) -> int:
        """Bytes of all arrays together."""
        return sum(array.bytes_at(self.params) for array in self.spec.arrays)


def array(
    name: str,
    dtype: str,
    shape: str | int | Sequence[str | int],
    init: str = "zeros",
    *,
    access: Access | None = None,
    align: int = 64,
    **options: str | Number,
) -> ArrayArg:
    """Return an :class:`ArrayArg`, its formulas given as plain texts; ``options`` are those of the init."""
    extents = (shape,) if isinstance(shape, str | int) else tuple(shape)
    formulas = {
        key: Formula(value) if isinstance(value, str) and key != "path" else value
        for key, value in options.items()
    }
    return ArrayArg(
        name, dtype, tuple(Formula(str(extent)) for extent in extents), Init(init, formulas), access, align
    )


def load(path: str | Path, *, check_memory: bool = True) -> tuple[KernelSpec, ...]:
    """Return the kernels of a TOML spec, or those a Python file makes with :func:`kernel`.

    Without ``check_memory``, sizes beyond this machine's memory are left to :meth:`KernelSpec.cases`, for a
    caller who is going to run smaller ones.

    Raises
    ------
    SpecError
        With every mistake in the file: where it is, what was found, what was expected.
    """
    path = Path(path)
    if path.suffix == ".py":
        from .spec_python import load_python

        return load_python(path)
    from .spec_file import load_file

    return load_file(path, check_memory)


Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(**table: Any) -> Callable[[Function], Function]:
    """Return a decorator that makes a kernel of its NumPy reference function.

    The keywords are those of a ``[[kernel]]`` table, with ``library`` for the ``[library]`` table; the name
    is the function's unless given. The function is returned as it was, with its spec as ``kernel_spec``.
    """
    from .spec_python import from_reference

    return lambda function: from_reference(function, table)


def _number(value: Any, params: Mapping[str, Number]) -> Any:
    return value.evaluate(params) if isinstance(value, Formula) else value
