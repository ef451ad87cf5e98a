"""The built-in kernels: claims, with their sources, about C code whose true counts are known."""

from __future__ import annotations

from collections.abc import Mapping

from ..formula import Formula, Number
from ..spec import KernelSpec, LibrarySpec
from . import (
    audio,
    convolution,
    dense,
    fft,
    layout,
    nbody,
    option,
    reduction,
    softmax,
    sparse,
    stencil,
    stream,
    tridiagonal,
    video,
)
from .variant import library_path

FAMILIES = (
    stream,
    reduction,
    softmax,
    dense,
    sparse,
    stencil,
    fft,
    nbody,
    tridiagonal,
    video,
    audio,
    convolution,
    option,
    layout,
)

EXECUTED: Mapping[str, Formula] = {
    name: formula for family in FAMILIES for name, formula in family.EXECUTED.items()
}
"""Executed FLOPs of each built-in kernel as a formula in its parameters."""


def kernels(level: str | None = None) -> tuple[KernelSpec, ...]:
    """Return the built-in kernels, compiled for a level of x86-64.

    Parameters
    ----------
    level
        One of :func:`counteroof.catalog.variant.available_levels`; by default the widest.

    Raises
    ------
    LibraryError
        If this processor runs no level, or the library was not built.
    """
    path = library_path(level)
    library = LibrarySpec(path=str(path))
    x86 = "_kernels_base" not in path.name
    specs: list[KernelSpec] = []
    for family in FAMILIES:
        specs += family.kernels(library, x86=x86) if family is stream else family.kernels(library)
    return tuple(specs)


def executed_flops(name: str, params: Mapping[str, Number]) -> int:
    """Return the FLOPs that one call of a built-in kernel executes, which its claim may miss.

    The count follows from the C source (see the comment there) and is the same at every vector width. One
    exception: ``gemm_tuned`` pads its edge tiles unless ``n`` is a multiple of 24, and executes more.
    """
    return EXECUTED[name].evaluate_whole(params)
