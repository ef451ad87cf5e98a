"""The form in which a family writes down its kernels: what all built-in claims share is said here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..formula import Formula, Number
from ..spec import Argument, Declared, KernelSpec, LibrarySpec, ScalarArg, SetupCall

Arrays = Mapping[str, np.ndarray[Any, Any]]
Params = Mapping[str, Any]
Expected = dict[str, Any]


def entry(
    library: LibrarySpec,
    family: str,
    name: str,
    args: Sequence[Argument],
    *,
    title: str,
    precision: str,
    params: Mapping[str, Number],
    small: Mapping[str, Number],
    flops: str,
    bytes: str,
    source: str,
    symbol: str | None = None,
    rtol: float | None = None,
    setup: Sequence[SetupCall] = (),
) -> KernelSpec:
    """Return a kernel's spec; its reference is the function of the family's module named like the symbol."""
    symbol = symbol or name
    return KernelSpec(
        name=name,
        title=title,
        family=family,
        library=library,
        symbol=symbol,
        args=tuple(args),
        setup=tuple(setup),
        params={key: (value,) for key, value in params.items()},
        small=small,
        declared=Declared(Formula(flops), Formula(bytes), source),
        precision=precision,
        reference=f"{__package__}.{family}:{symbol}",
        rtol=rtol,
    )


def sizes(*names: str) -> tuple[ScalarArg, ...]:
    """Return scalar arguments that pass the parameters of the same names."""
    return tuple(ScalarArg(name, Formula(name)) for name in names)
